cimport cython

from millrace.store.index cimport SubjectIndex, SubjectNode
from millrace.store.record cimport Record
from millrace.store.segment cimport Segment

cdef int _REMOVED
cdef int _FLOOR
cdef int _SKIP
cdef int _MESSAGE
cdef int _ERASE
cdef int _WHOLE
cdef unsigned long long _FARTHEST_JUMP

@cython.final
cdef class Log:
    cdef readonly object fs
    cdef readonly str folder
    cdef readonly SubjectIndex index
    cdef readonly object losses
    cdef public unsigned long long first_seq
    cdef public unsigned long long last_seq
    cdef public long long last_timestamp
    cdef public Py_ssize_t messages
    cdef public Py_ssize_t record_bytes
    cdef public Py_ssize_t with_headers
    cdef readonly unsigned long long committed
    cdef public Py_ssize_t block_size
    cdef public bint keeps_recent
    cdef public object recent
    cdef public list gone
    cdef readonly list segments
    cdef readonly object tables
    cdef list _bases
    cdef Py_ssize_t _segment_size
    cdef Segment _active
    cdef bytes _last_subject
    cdef SubjectNode _last_node
    cdef object _commit
    cdef object _compaction
    cdef bint _closed
    cdef list _removing
    cdef list _erasing
    cdef unsigned long long _floor
    cdef list _doomed
    cdef bint _doubt
    cdef bint _renamed
    cdef object _work

    cpdef adopt(self, Segment segment)
    @cython.locals(segment=Segment, target=Segment, ordinal=Py_ssize_t)
    cpdef settle(self)
    @cython.locals(segment=Segment, node=SubjectNode, seq="unsigned long long", total=Py_ssize_t)
    cpdef unsigned long long append(
        self, bytes subject, bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
        long long timestamp, int marks,
    ) except 0
    @cython.locals(segment=Segment)
    cpdef skip_to(self, unsigned long long seq, long long timestamp)
    @cython.locals(segment=Segment)
    cdef Segment _writable(self)
    cdef Segment _roll(self)
    cdef unsigned long long _next_number(self)
    @cython.locals(segment=Segment)
    cpdef Segment begin_segment(self, unsigned long long number)
    cdef _seal(self, Segment segment)
    cdef _log_removals(self)
    @cython.locals(segment=Segment, body=bytes, total=Py_ssize_t)
    cdef _log_list(self, int kind, list seqs)
    @cython.locals(position=Py_ssize_t)
    cpdef Py_ssize_t position_of(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, position=Py_ssize_t)
    cpdef Segment segment_of(self, unsigned long long seq)
    cpdef load(self, Segment segment)
    @cython.locals(segment=Segment)
    cpdef bint has(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, position=Py_ssize_t, ordinal=Py_ssize_t)
    cpdef unsigned long long next_seq(self, unsigned long long seq) except? 0
    @cython.locals(
        segment=Segment, position=Py_ssize_t, ordinal=Py_ssize_t,
        lowest="unsigned long long", highest="unsigned long long", wanted=bytes,
    )
    cpdef unsigned long long next_match(self, unsigned long long seq, bytes pattern) except? 0
    @cython.locals(
        segment=Segment, position=Py_ssize_t, ordinal=Py_ssize_t,
        lowest="unsigned long long", highest="unsigned long long", wanted=bytes,
    )
    cpdef unsigned long long last_match(self, unsigned long long seq, bytes pattern) except? 0
    @cython.locals(node=SubjectNode)
    cpdef unsigned long long first_of(self, bytes subject) except? 0
    @cython.locals(node=SubjectNode)
    cpdef unsigned long long last_of(self, bytes subject) except? 0
    @cython.locals(segment=Segment, record=Record, ordinal=Py_ssize_t)
    cpdef unsigned long long seq_at_time(self, long long timestamp) except? 0
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, probe=Py_ssize_t)
    cdef Py_ssize_t _ordinal_at_time(self, Segment segment, long long timestamp, Record record) except -1
    cpdef bint get(self, unsigned long long seq, Record record) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef bint peek(self, unsigned long long seq, Record record) except -1
    @cython.locals(offset=Py_ssize_t, size=Py_ssize_t, seq="unsigned long long", data=bytes, verify=bint, found=int)
    cdef bint _look(self, Segment segment, Py_ssize_t ordinal, Record record) except -1
    cdef bytes _bytes(self, Segment segment, Py_ssize_t offset, Py_ssize_t size)
    cpdef report_damage(self, Segment segment, Py_ssize_t ordinal)
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef bint remove(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t, before=Py_ssize_t)
    cpdef Py_ssize_t remove_below(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, before=Py_ssize_t)
    cdef Py_ssize_t _remove_all(self) except -1
    @cython.locals(
        segment=Segment, ordinal=Py_ssize_t, before=Py_ssize_t, wanted=bytes,
        lowest="unsigned long long", highest="unsigned long long",
    )
    cpdef Py_ssize_t remove_matching(self, bytes pattern, unsigned long long below) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t, offset=Py_ssize_t, size=Py_ssize_t, record=Record)
    cpdef bint erase(self, unsigned long long seq) except -1
    cpdef overwrite(self, Segment segment, Py_ssize_t offset, bytes data)
    @cython.locals(size=Py_ssize_t)
    cdef _forget(self, Segment segment, Py_ssize_t ordinal)
    @cython.locals(found="unsigned long long")
    cdef _advance_first(self, unsigned long long seq)
    cdef _retire(self, Segment segment)
    cpdef hold(self, Segment segment)
    cpdef release(self, Segment segment)
    cpdef move(self, str folder)
    cdef list _needed_removals(self, Segment segment)
    @cython.locals(position=Py_ssize_t, other=Segment)
    cdef _drop(self, Segment segment)
    cdef _doom(self, Segment segment)
    @cython.locals(position=Py_ssize_t, other=Segment)
    cdef bint _lies_elsewhere(self, unsigned long long seq, Segment segment) except -1
    @cython.locals(ordinal=Py_ssize_t, seq="unsigned long long", each=Segment)
    cdef _relearn(self, Segment segment, Segment found)
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef count_again(self)
