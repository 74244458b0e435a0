cimport cython

from millstream.store.record cimport Record
from millstream.store.segment cimport Segment

cdef int _WHOLE
cdef Py_ssize_t _HEADER_SIZE
cdef Py_ssize_t _FILE_HEADER_SIZE
cdef unsigned long long _FARTHEST_JUMP
cdef int _HEADERS
cdef int _REMOVED
cdef int _FLOOR
cdef int _SKIP
cdef int _ERASED
cdef int _ERASE
cdef int _COMMIT_START

@cython.locals(record=Record, at=Py_ssize_t, end=Py_ssize_t, found=Py_ssize_t, ends=bint)
cpdef object scan(Segment segment, bytes data, bint sound_header=*)
@cython.locals(seq="unsigned long long")
cdef bint _is_end(Segment segment, bytes data, Py_ssize_t at, object result) except *
cdef bint _fits(Segment segment, Record record) noexcept
cdef Py_ssize_t _resume(Segment segment, bytes data, Py_ssize_t at, Py_ssize_t end, Record record) except -2
@cython.locals(damaged=Record, alone=bint, most=Py_ssize_t)
cdef _add_gap(Segment segment, object result, bytes data, Py_ssize_t at, Py_ssize_t end)
cdef _close_gaps(object result, unsigned long long reach)
cpdef unsigned long long commit_start(Record record) except? 0
cdef _note(Segment segment, Record record, object result)
