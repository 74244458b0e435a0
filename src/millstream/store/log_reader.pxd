cimport cython

from millstream.store.index cimport SubjectIndex, SubjectNode
from millstream.store.log_state cimport LogState
from millstream.store.record cimport Record, time_in
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain
from millstream.store.stretches cimport Stretches
from millstream.store.waypoints cimport Waypoints
from millstream.subjects.match cimport matches

cdef int _WHOLE
cdef int _NOT_THERE
cdef int _LOST
cdef int _MANY
cdef int _FEW
cdef Py_ssize_t _SHORT_STRETCH

@cython.final
cdef class LogReader:
    cdef readonly Stretches stretches
    cdef readonly Record scratch
    cdef public object repair
    cdef LogState _state
    cdef SegmentChain _chain
    cdef SubjectIndex _index
    cdef unsigned long long _last_sought
    cdef Py_ssize_t _in_order

    cpdef load(self, Segment segment)
    @cython.locals(segment=Segment)
    cpdef bint has(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef bytes subject_of(self, unsigned long long seq)
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef Py_ssize_t size_of(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef bint has_headers(self, unsigned long long seq) except -1
    @cython.locals(points=Waypoints)
    cpdef Py_ssize_t first_ordinal(self, Segment segment, unsigned long long seq) except -1
    @cython.locals(points=Waypoints, ordinal=Py_ssize_t)
    cpdef Py_ssize_t seek(self, Segment segment, unsigned long long seq, Record record) except -3
    cdef bint _are_many(self, unsigned long long seq) noexcept
    @cython.locals(points=Waypoints, stretches=Stretches)
    cdef bint _meets_live(self, Segment segment, unsigned long long seq) except -1
    @cython.locals(segments=list, segment=Segment, position=Py_ssize_t, ordinal=Py_ssize_t)
    cpdef unsigned long long next_seq(self, unsigned long long seq) except? 0
    @cython.locals(
        segments=list, segment=Segment, position=Py_ssize_t, ordinal=Py_ssize_t,
        lowest="unsigned long long", highest="unsigned long long", wanted=bytes, near="unsigned long long",
        close="unsigned long long", literal=bint,
    )
    cpdef unsigned long long next_match(self, unsigned long long seq, bytes pattern) except? 0
    @cython.locals(number=Py_ssize_t)
    cdef Py_ssize_t _next_of(self, Segment segment, unsigned long long seq, bytes subject) except -1
    @cython.locals(ordinal=Py_ssize_t, left=Py_ssize_t)
    cdef unsigned long long _match_close(self, Segment segment, unsigned long long seq, bytes pattern) except? 0
    @cython.locals(points=Waypoints, found="unsigned long long")
    cdef unsigned long long _match_near(self, Segment segment, unsigned long long seq, bytes pattern) except? 0
    @cython.locals(
        segment=Segment, position=Py_ssize_t, ordinal=Py_ssize_t,
        lowest="unsigned long long", highest="unsigned long long", wanted=bytes,
    )
    cpdef unsigned long long last_match(self, unsigned long long seq, bytes pattern) except? 0
    @cython.locals(node=SubjectNode)
    cpdef unsigned long long count_of(self, bytes subject) except? 0
    @cython.locals(node=SubjectNode)
    cpdef unsigned long long first_of(self, bytes subject) except? 0
    cpdef unsigned long long first_of_node(self, SubjectNode node, bytes subject) except? 0
    @cython.locals(node=SubjectNode)
    cpdef unsigned long long last_of(self, bytes subject) except? 0
    cdef unsigned long long _last_of_node(self, SubjectNode node, bytes subject) except? 0
    @cython.locals(
        segment=Segment, record=Record, ordinal=Py_ssize_t, seq="unsigned long long", position=Py_ssize_t
    )
    cpdef unsigned long long seq_at_time(self, long long timestamp) except? 0
    @cython.locals(points=Waypoints)
    cdef unsigned long long _near_time(self, Segment segment, long long timestamp) except? 0
    @cython.locals(
        start=Py_ssize_t, end=Py_ssize_t, written=Py_ssize_t, data=bytes, first=Py_ssize_t, last=Py_ssize_t,
        middle=Py_ssize_t, ordinal=Py_ssize_t, whole=bint,
    )
    cdef Py_ssize_t _ordinal_between(
        self, Segment segment, Py_ssize_t low, Py_ssize_t high, long long timestamp, Record record
    ) except -2
    @cython.locals(
        low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, probe=Py_ssize_t, known=Py_ssize_t, found=Py_ssize_t,
    )
    cdef Py_ssize_t _ordinal_at_time(self, Segment segment, long long timestamp, Record record) except -1
    @cython.locals(segment=Segment)
    cpdef unsigned long long seq_behind(self, Py_ssize_t count) except 0
    @cython.locals(segment=Segment)
    cpdef unsigned long long after(self, unsigned long long seq, unsigned long long most) except 0
    cpdef bint get(self, unsigned long long seq, Record record) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef bint peek(self, unsigned long long seq, Record record) except -1
    @cython.locals(
        segment=Segment, points=Waypoints, ordinal=Py_ssize_t, offset=Py_ssize_t, found=Py_ssize_t, data=bytes,
        whole=bint,
    )
    cpdef bint peek_removed(self, unsigned long long seq, Record record) except -1
    @cython.locals(offset=Py_ssize_t, size=Py_ssize_t, seq="unsigned long long", data=bytes, verify=bint, found=int)
    cpdef bint look(self, Segment segment, Py_ssize_t ordinal, Record record) except -1
    cdef bytes _bytes(self, Segment segment, Py_ssize_t offset, Py_ssize_t size)
