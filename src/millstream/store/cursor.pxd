cimport cython

from millstream.store.log cimport Log
from millstream.store.record cimport Record
from millstream.store.segment cimport Segment

cdef Py_ssize_t _SMALLEST_CHUNK
cdef Py_ssize_t _LARGEST_CHUNK
cdef Py_ssize_t _ANY_NUMBER
cdef int _WHOLE
cdef Py_ssize_t _LARGE
cdef Py_ssize_t _FEW_PATTERNS
cdef Py_ssize_t _COMPARED_WITH_FEW
cdef Py_ssize_t _COMPARED_WITH_MANY

@cython.final
cdef class Cursor:
    cdef readonly unsigned long long seq
    cdef Log _log
    cdef tuple _patterns
    cdef Segment _segment
    cdef Py_ssize_t _epoch
    cdef Py_ssize_t _ordinal
    cdef bytes _wanted
    cdef bytes _chunk
    cdef Py_ssize_t _chunk_start
    cdef Py_ssize_t _chunk_size
    cdef Py_ssize_t _used
    cdef Py_ssize_t _left
    cdef readonly bint tired

    @cython.locals(segment=Segment)
    cpdef move(self, unsigned long long seq)
    cpdef release(self)
    cpdef bint next(self, Record record) except -1
    cpdef allow(self, Py_ssize_t count)
    @cython.locals(log=Log, segment=Segment, ordinal=Py_ssize_t, seq="unsigned long long", whole=bint)
    cpdef bint step(self, Record record) except -1
    @cython.locals(segment=Segment, start=Py_ssize_t, end=Py_ssize_t)
    cpdef Py_ssize_t count_from(self, unsigned long long seq) except -1
    cdef Py_ssize_t _find(self, Segment segment) except -1
    @cython.locals(known=Py_ssize_t, end=Py_ssize_t, few=bint)
    cdef bint _covers_all(self) except -1
    cdef bint _know_subjects(self, Segment segment, bint for_a_while) except -1
    @cython.locals(log=Log, segments=list, segment=Segment, position=Py_ssize_t)
    cdef Segment _enter(self)
    @cython.locals(log=Log, lowest="unsigned long long", first="unsigned long long", last="unsigned long long")
    cdef _skip_to_first_match(self)
    cdef bint _leave(self, Segment segment) except -1
    @cython.locals(offset=Py_ssize_t, at=Py_ssize_t, have=Py_ssize_t)
    cdef bint _read(self, Segment segment, Py_ssize_t ordinal, Record record) except -1
    cdef _fetch(self, Segment segment, Py_ssize_t offset, Py_ssize_t end)
