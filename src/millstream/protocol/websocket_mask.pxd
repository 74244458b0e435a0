cimport cython

@cython.locals(size=Py_ssize_t, start=Py_ssize_t, pattern=bytes, result=bytes)
cpdef bytes unmask(bytes data, bytes key, Py_ssize_t offset)

@cython.locals(position=Py_ssize_t, word="unsigned long long", mask="unsigned long long")
cdef void _xor(
    unsigned char *target, const unsigned char *source, const unsigned char *pattern, Py_ssize_t size
) noexcept
