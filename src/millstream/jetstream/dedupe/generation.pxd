cimport cython

from millstream.base.buffer cimport read_little
from millstream.base.checksum cimport crc_of

cdef Py_ssize_t _ENTRY
cdef Py_ssize_t _INDEX
cdef Py_ssize_t _LINE
cdef int _PROBES
cdef int _PROBE_BITS
cdef unsigned long long _PROBE_MASK

@cython.final
cdef class Generation:
    cdef readonly str name
    cdef readonly Py_ssize_t buckets
    cdef readonly Py_ssize_t count
    cdef readonly unsigned long long first_seq
    cdef readonly unsigned long long last_seq
    cdef readonly long long last_ns
    cdef readonly dict mended
    cdef readonly object file
    cdef bytes _tables

    @cython.locals(
        bucket="unsigned long long", data=bytes, p="const unsigned char*", at=Py_ssize_t, size=Py_ssize_t,
        found="unsigned long long", time="long long", seq="unsigned long long",
    )
    cpdef unsigned long long find(self, unsigned long long high, unsigned long long low, long long oldest_ns) except? 0
    @cython.locals(
        p="const unsigned char*", at=Py_ssize_t, probe=int, bit="unsigned long long"
    )
    cdef bint _may_have(self, unsigned long long bucket, unsigned long long low) noexcept
    @cython.locals(p="const unsigned char*")
    cdef Py_ssize_t _start(self, Py_ssize_t bucket) noexcept
    @cython.locals(p="const unsigned char*", start=Py_ssize_t, size=Py_ssize_t, data=bytes)
    cpdef bytes entries_of(self, Py_ssize_t bucket)
    @cython.locals(
        before=Py_ssize_t, size=Py_ssize_t, data=bytes, d="const unsigned char*", p="const unsigned char*",
        wrong=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, count=Py_ssize_t, buckets=Py_ssize_t,
    )
    cpdef bytes entries_in(self, Py_ssize_t first, Py_ssize_t end)

@cython.locals(
    p="const unsigned char*", before="unsigned long long", start="unsigned long long", bucket=Py_ssize_t,
)
cdef bint _rises(bytes tables, Py_ssize_t buckets, unsigned long long count) noexcept
@cython.locals(value="unsigned long long")
cdef unsigned long long _read4(const unsigned char* p, Py_ssize_t at) noexcept nogil
