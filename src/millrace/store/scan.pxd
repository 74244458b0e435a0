cimport cython

from millrace.store.record cimport Record
from millrace.store.segment cimport Segment

cdef int _WHOLE
cdef Py_ssize_t _HEADER_SIZE
cdef Py_ssize_t _FILE_HEADER_SIZE
cdef int _HEADERS
cdef int _REMOVED
cdef int _FLOOR
cdef int _SKIP

@cython.locals(record=Record, at=Py_ssize_t, end=Py_ssize_t, found=Py_ssize_t, last="unsigned long long", lost="unsigned long long")
cpdef object scan(Segment segment, bytes data)
cdef bint _fits(Segment segment, Record record) noexcept
cdef Py_ssize_t _resume(Segment segment, bytes data, Py_ssize_t at, Py_ssize_t end, Record record) except -2
cdef _note(Segment segment, Record record)
