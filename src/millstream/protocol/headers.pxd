cimport cython

cdef bytes _LINE
cdef unsigned char _RETURN
cdef unsigned char _FEED
cdef unsigned char _SMALL

@cython.locals(needle=bytes, at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
cpdef bytes find(bytes block, bytes key)
cpdef bytes without_status(bytes block)
@cython.locals(
    p="const unsigned char*", wanted="const unsigned char*", same=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t
)
cpdef bint is_sound(bytes block, bytes key) except -1
