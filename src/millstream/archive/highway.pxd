cimport cython

cdef unsigned long long _MASK
cdef unsigned long long _LOW
cdef unsigned long long _BYTE_1
cdef unsigned long long _BYTE_2
cdef unsigned long long _BYTE_3
cdef unsigned long long _BYTE_4
cdef unsigned long long _BYTE_5
cdef unsigned long long _BYTE_6
cdef unsigned long long _BYTE_7
cdef unsigned long long _INIT[8]

@cython.final
cdef class HighwayHash:
    cdef unsigned long long _key[4]
    cdef unsigned long long _v0[4]
    cdef unsigned long long _v1[4]
    cdef unsigned long long _mul0[4]
    cdef unsigned long long _mul1[4]
    cdef unsigned char _packet[32]
    cdef int _filled

    cpdef bytes sum(self, bytes data)
    @cython.locals(lane=int, key="unsigned long long")
    cpdef void begin(self) noexcept
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, filled=int)
    cpdef add(self, bytes data, Py_ssize_t start, Py_ssize_t end)
    cpdef unsigned long long end(self) except? 0
    @cython.locals(p="unsigned char*", lane=int, at=int, index=int, word="unsigned long long")
    cdef void _update(self) noexcept
    @cython.locals(
        first="unsigned long long", second="unsigned long long", third="unsigned long long",
        fourth="unsigned long long",
    )
    cdef void _permute(self) noexcept
    cdef void _mix(self, int lane, unsigned long long word) noexcept
    @cython.locals(pair=int, lane=int, low="unsigned long long", high="unsigned long long")
    cdef void _zip(self) noexcept
    @cython.locals(
        p="unsigned char*", lane=int, whole=int, odd=int, index=int, rest=bytes,
        first="unsigned char", middle="unsigned char", last="unsigned char",
    )
    cdef _add_rest(self, unsigned long long size)

cdef unsigned long long _swap(unsigned long long value) noexcept
@cython.locals(low="unsigned long long", high="unsigned long long")
cdef unsigned long long _rotate_halves(unsigned long long value, int count) noexcept
cdef unsigned long long _zip_low(unsigned long long low, unsigned long long high) noexcept
cdef unsigned long long _zip_high(unsigned long long low, unsigned long long high) noexcept
