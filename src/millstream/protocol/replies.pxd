cimport cython

from millstream.base.buffer cimport GrowingBuffer

cdef Py_ssize_t _FIXED_SIZE
cdef Py_ssize_t _MOST
cdef Py_ssize_t _KEPT

@cython.final
cdef class Replies(GrowingBuffer):
    cdef readonly Py_ssize_t count

    @cython.locals(end_size=Py_ssize_t)
    cpdef add(self, bytes source, Py_ssize_t start, Py_ssize_t size, unsigned long long number, bytes end)
    cpdef extend(self, Replies others)
    cpdef clear(self)
