cimport cython

cdef Py_ssize_t _CONTEXT_SIZE
cdef bytes _NAME
cdef Py_ssize_t _NAME_SIZE
cdef unsigned char _LF
cdef unsigned char _BLANK
cdef unsigned char _DASH
cdef unsigned char _ZERO
cdef unsigned char _LOWER

@cython.locals(at=Py_ssize_t, stop=Py_ssize_t)
cpdef Py_ssize_t find_sampled(const unsigned char* p, Py_ssize_t start, Py_ssize_t size) noexcept
@cython.locals(index=Py_ssize_t, name="const unsigned char*")
cdef bint _is_name(const unsigned char* p, Py_ssize_t at) noexcept
cdef bint _is_odd(unsigned char digit) noexcept
