cimport cython

from millstream.base.checksum cimport crc_of

cdef Py_ssize_t _ENTRY
cdef Py_ssize_t _INDEX
cdef Py_ssize_t _LINE
cdef int _PROBES
cdef int _PROBE_BITS
cdef unsigned long long _PROBE_MASK

@cython.final
cdef class Builder:
    cdef readonly Py_ssize_t buckets
    cdef readonly Py_ssize_t count
    cdef list _index
    cdef list _filter

    @cython.locals(
        starts=bytearray, out=bytearray, p="const unsigned char*", s="unsigned char*", o="unsigned char*",
        lines="unsigned char*", index="unsigned char*", size=Py_ssize_t, at=Py_ssize_t, buckets="unsigned long long",
        low="unsigned long long", high="unsigned long long", bucket="unsigned long long", kept="unsigned long long",
        place="unsigned long long", bits="unsigned long long", bit="unsigned long long", probe=int,
        before="unsigned long long",
    )
    cpdef bytearray add(self, bytes entries, Py_ssize_t first, Py_ssize_t end)

@cython.locals(p="const unsigned char*", end=Py_ssize_t, crc="unsigned int")
cpdef unsigned int checksum(bytes data) except? 0

cdef void _put4(unsigned char* p, Py_ssize_t at, unsigned long long value) noexcept nogil
@cython.locals(value="unsigned long long")
cdef unsigned long long _read4(const unsigned char* p, Py_ssize_t at) noexcept nogil
@cython.locals(value="unsigned long long", index=Py_ssize_t)
cdef unsigned long long _read8(const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef void _copy(unsigned char* o, Py_ssize_t place, const unsigned char* p, Py_ssize_t at) noexcept nogil
