cimport cython

cdef unsigned long long _HIGH_BITS

@cython.locals(
    source="const unsigned char*", word="unsigned long long", first="unsigned char", low="unsigned char",
    high="unsigned char", more=int,
)
cpdef bint is_utf8(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cpdef bint utf8(bytes data)
