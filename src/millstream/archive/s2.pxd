cimport cython

cdef Py_ssize_t _MAX_BLOCK
cdef Py_ssize_t _CORRUPT

@cython.locals(end=Py_ssize_t, size=Py_ssize_t, byte=Py_ssize_t, shift=int, at=Py_ssize_t, out=bytearray)
cpdef bytes unpack(bytes data, Py_ssize_t start, Py_ssize_t most)
@cython.locals(
    p="const unsigned char*", q="unsigned char*", done=Py_ssize_t, offset=Py_ssize_t, tag=Py_ssize_t, kind=int,
    length=Py_ssize_t, extra=Py_ssize_t, given=Py_ssize_t,
)
cdef Py_ssize_t _unpack(bytes source, Py_ssize_t at, Py_ssize_t end, bytearray target, Py_ssize_t size) except -2
@cython.locals(value=Py_ssize_t, byte=Py_ssize_t, index=Py_ssize_t)
cdef Py_ssize_t _little(const unsigned char* p, Py_ssize_t at, Py_ssize_t count) noexcept nogil
cdef void _copy_in(
    unsigned char* q, Py_ssize_t place, const unsigned char* p, Py_ssize_t at, Py_ssize_t count
) noexcept nogil
@cython.locals(index=Py_ssize_t)
cdef void _copy_within(unsigned char* q, Py_ssize_t place, Py_ssize_t offset, Py_ssize_t count) noexcept nogil
