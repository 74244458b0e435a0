cimport cython

from millstream.store.record cimport Record, seq_in, size_in, time_in
from millstream.store.segment cimport Segment
from millstream.store.waypoints cimport Waypoints
from millstream.subjects.match cimport matches

cdef int _WHOLE
cdef int _NOT_THERE
cdef int _LOST
cdef Py_ssize_t _HEADER_SIZE

@cython.final
cdef class Stretches:
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t ordinal
    cdef readonly unsigned long long met
    cdef object _tables
    cdef bytes _kept
    cdef Py_ssize_t _kept_start
    cdef Segment _segment
    cdef Py_ssize_t _epoch
    cdef Py_ssize_t _live
    cdef Py_ssize_t _index
    cdef unsigned long long _sure_seq
    cdef Py_ssize_t _sure_at
    cdef Py_ssize_t _sure_ordinal
    cdef Py_ssize_t _before

    @cython.locals(index=Py_ssize_t, data=bytes, at=Py_ssize_t)
    cpdef Py_ssize_t walk(
        self, Segment segment, Waypoints points, unsigned long long seq, Record record
    ) except -3
    @cython.locals(
        index=Py_ssize_t, data=bytes, ordinal=Py_ssize_t, at=Py_ssize_t, known=Py_ssize_t, live=bint
    )
    cpdef unsigned long long match(
        self, Segment segment, Waypoints points, unsigned long long seq, bytes pattern, Record record
    ) except? 0
    @cython.locals(first=Py_ssize_t, index=Py_ssize_t, data=bytes, at=Py_ssize_t)
    cpdef unsigned long long at_time(
        self, Segment segment, Waypoints points, long long timestamp, Record record
    ) except? 0
    @cython.locals(
        start=Py_ssize_t, room=Py_ssize_t, first=Py_ssize_t, count=Py_ssize_t, behind="unsigned long long",
        size=Py_ssize_t, at=Py_ssize_t, data=bytes,
    )
    cdef bint _is_guessed(
        self, Segment segment, Waypoints points, Py_ssize_t index, unsigned long long seq, Record record
    ) except -1
    @cython.locals(
        p="const unsigned char*", end=Py_ssize_t, at=Py_ssize_t, passed=Py_ssize_t, found="unsigned long long",
        size=Py_ssize_t,
    )
    cdef Py_ssize_t _skim(self, bytes data, unsigned long long seq) noexcept
    @cython.locals(end=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _skim_time(self, bytes data, long long timestamp) noexcept
    @cython.locals(size=Py_ssize_t, ordinal=Py_ssize_t, at=Py_ssize_t)
    cdef Py_ssize_t _verified_walk(
        self, bytes data, Waypoints points, Py_ssize_t index, unsigned long long seq, Record record
    ) except -3
    @cython.locals(data=bytes)
    cdef bytes _read(self, Segment segment, Waypoints points, Py_ssize_t index)
    cdef bint _keeps(self, Segment segment, Py_ssize_t index) noexcept
    cpdef bint is_sure(self, Segment segment, unsigned long long seq) noexcept
    cdef void _remember(self, unsigned long long seq, Py_ssize_t at, Py_ssize_t ordinal) noexcept
    cpdef forget(self)
    @cython.locals(low=Py_ssize_t)
    cdef Py_ssize_t _waypoint_at_time(self, Segment segment, Waypoints points, long long timestamp) except -1
    @cython.locals(
        low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, even=bint,
        before="long long", behind="long long", moment="long long",
    )
    cdef Py_ssize_t _sought_time(self, Segment segment, Waypoints points, long long timestamp) except -1
    @cython.locals(data=bytes)
    cdef long long _time_at(self, Segment segment, Waypoints points, Py_ssize_t index) except? 0

@cython.locals(part=double)
cdef Py_ssize_t _between(
    Py_ssize_t low, Py_ssize_t high, long long before, long long behind, long long timestamp
) noexcept
