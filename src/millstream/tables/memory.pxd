cimport cython

from millstream.base.buffer cimport GrowingBuffer

cdef unsigned char _HIGH

@cython.final
cdef class Memory(GrowingBuffer):
    cdef Py_ssize_t _usual

    @cython.locals(target="unsigned char*", origin="const unsigned char*")
    cdef inline int copy(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t count) except -1
    @cython.locals(target="unsigned char*")
    cdef inline int add4(self, int value) except -1
    @cython.locals(target="unsigned char*")
    cdef inline int add8(self, long long value) except -1
    cpdef object hand_over(self)

@cython.final
cdef class Texts:
    cdef Memory ends
    cdef Memory values

    cdef inline int add(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t count) except -1
    cdef inline int add_text(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t count) except -1
    cdef int _add_decoded(self, bytes raw) except -1
    cpdef tuple hand_over(self)

@cython.locals(seen="unsigned char", i=Py_ssize_t)
cpdef bint is_ascii(const unsigned char* p, Py_ssize_t at, Py_ssize_t count) noexcept
@cython.locals(origin="const unsigned char*", found="const unsigned char*")
cpdef Py_ssize_t find_byte(const unsigned char* p, unsigned char wanted, Py_ssize_t start, Py_ssize_t end) noexcept
