cimport cython

from millstream.store.log cimport Log
from millstream.store.record cimport Record
from millstream.store.segment cimport Segment

cdef Py_ssize_t _CHUNK
cdef int _WHOLE
cdef int _ERASED

@cython.final
cdef class Frozen:
    cdef readonly unsigned long long last_seq
    cdef readonly unsigned long long damaged
    cdef Log _log
    cdef list _held
    cdef Segment _segment
    cdef object _file
    cdef Py_ssize_t _count
    cdef bytes _removed
    cdef Py_ssize_t _ordinal
    cdef bytes _chunk
    cdef Py_ssize_t _chunk_start

    cpdef bint enter(self) except -1
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef bint next(self, Record record) except -1
    cpdef close(self)
    cdef _leave(self)
    @cython.locals(p="const unsigned char*")
    cdef bint _was_removed(self, Py_ssize_t ordinal) noexcept
    @cython.locals(offset=Py_ssize_t, at=Py_ssize_t, have=Py_ssize_t, size=Py_ssize_t)
    cdef bint _read(self, Segment segment, Py_ssize_t ordinal, Record record) except -1
