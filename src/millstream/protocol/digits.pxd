cimport cython

cdef unsigned char _ZERO
cdef unsigned char _NINE
cdef Py_ssize_t _MOST_DIGITS
cdef unsigned long long _LARGEST

@cython.locals(value="unsigned long long", index=Py_ssize_t, digit="unsigned char")
cpdef long long read_number(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept
cpdef Py_ssize_t digits_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
