cimport cython
from cpython.array cimport array

cdef Py_ssize_t _KEEP

@cython.final
cdef class Strings:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef array _ends
    cdef array _bytes
    cdef int* _e
    cdef unsigned char* _b

    cdef void _point(self) noexcept
    cpdef reserve(self, Py_ssize_t count, Py_ssize_t size)
    cdef void add(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t size) noexcept nogil
    cpdef list lend(self)
    cpdef clear(self)

@cython.final
cdef class Lists:
    cdef readonly Py_ssize_t count
    cdef array _ends
    cdef int* _e

    cdef void _point(self) noexcept
    cpdef reserve(self, Py_ssize_t count)
    cdef void end(self, Py_ssize_t items) noexcept nogil
    cpdef clear(self)

@cython.final
cdef class Numbers64:
    cdef readonly Py_ssize_t count
    cdef array _values
    cdef long long* _v

    cdef void _point(self) noexcept
    cpdef reserve(self, Py_ssize_t count)
    cdef void add(self, long long value) noexcept nogil
    cpdef clear(self)

@cython.final
cdef class Numbers32:
    cdef readonly Py_ssize_t count
    cdef array _values
    cdef int* _v

    cdef void _point(self) noexcept
    cpdef reserve(self, Py_ssize_t count)
    cdef void add(self, int value) noexcept nogil
    cpdef clear(self)

cpdef grow(array values, Py_ssize_t count)
cdef void copy(
    unsigned char* target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t count
) noexcept nogil
