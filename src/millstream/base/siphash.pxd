cimport cython

from millstream.base.buffer cimport read_little

cdef unsigned long long _MASK
cdef unsigned long long _START_0
cdef unsigned long long _START_1
cdef unsigned long long _START_2
cdef unsigned long long _START_3

@cython.final
cdef class SipHash:
    cdef readonly bytes key
    cdef readonly unsigned long long high
    cdef readonly unsigned long long low
    cdef unsigned long long _key_0
    cdef unsigned long long _key_1

    @cython.locals(
        size=Py_ssize_t, words=Py_ssize_t, step=Py_ssize_t, turn=int, rest=Py_ssize_t, length="unsigned long long",
        v0="unsigned long long", v1="unsigned long long", v2="unsigned long long", v3="unsigned long long",
        word="unsigned long long",
    )
    cpdef void of(self, bytes data) noexcept

cdef unsigned long long _rotate(unsigned long long value, int bits) noexcept
