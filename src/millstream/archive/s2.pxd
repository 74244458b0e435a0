cimport cython
from cpython.array cimport array

cdef Py_ssize_t _MAX_BLOCK
cdef Py_ssize_t _CORRUPT
cdef Py_ssize_t _LEAST
cdef Py_ssize_t _END
cdef unsigned int _HASH
cdef unsigned int _ONES
cdef int _HURRY
cdef Py_ssize_t _MOST_HURRY
cdef Py_ssize_t _GOOD

cpdef bytes unpack(bytes data, Py_ssize_t start, Py_ssize_t most)
cpdef bytes unpack_damaged(bytes data, Py_ssize_t start, Py_ssize_t most)
@cython.locals(end=Py_ssize_t, size=Py_ssize_t, byte=Py_ssize_t, shift=int, at=Py_ssize_t, out=bytearray)
cdef bytes _content(bytes data, Py_ssize_t start, Py_ssize_t most, bint damaged)
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
@cython.locals(size=Py_ssize_t, left=Py_ssize_t, bits=int, at=Py_ssize_t, out=bytearray)
cpdef bytes pack(bytes data, int depth)
@cython.locals(
    p="const unsigned char*", q="unsigned char*", h="int*", c="int*", at=Py_ssize_t, start=Py_ssize_t,
    last=Py_ssize_t, length=Py_ssize_t, place=Py_ssize_t, found=Py_ssize_t, common=Py_ssize_t, looks=int,
)
cdef Py_ssize_t _pack(
    bytes source, Py_ssize_t size, bytearray target, Py_ssize_t done, array heads, array chain,
    int shift, int depth,
) except -2
@cython.locals(word="unsigned int")
cdef Py_ssize_t _hash(const unsigned char* p, Py_ssize_t at, int shift) noexcept nogil
@cython.locals(place=Py_ssize_t)
cdef void _note(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int* h, int* c, int shift
) noexcept nogil
@cython.locals(began=Py_ssize_t)
cdef Py_ssize_t _common(
    const unsigned char* p, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size
) noexcept nogil
cdef Py_ssize_t _put_little(unsigned char* q, Py_ssize_t at, Py_ssize_t value, int count) noexcept nogil
@cython.locals(value=Py_ssize_t, extra=int)
cdef Py_ssize_t _put_literal(
    unsigned char* q, Py_ssize_t at, const unsigned char* p, Py_ssize_t start, Py_ssize_t count
) noexcept nogil
@cython.locals(first=Py_ssize_t)
cdef Py_ssize_t _put_copy(
    unsigned char* q, Py_ssize_t at, Py_ssize_t offset, Py_ssize_t count, Py_ssize_t last
) noexcept nogil
@cython.locals(extra=int)
cdef Py_ssize_t _put_repeat(unsigned char* q, Py_ssize_t at, Py_ssize_t count) noexcept nogil
