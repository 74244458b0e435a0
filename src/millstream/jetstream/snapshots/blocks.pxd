cimport cython

from millstream.base.buffer cimport read_little
from millstream.archive.highway cimport HighwayHash
from millstream.jetstream.snapshots.messages cimport MessageLoader

cdef Py_ssize_t _HEADER_SIZE
cdef Py_ssize_t _HASH_SIZE
cdef unsigned long long _HEADERS
cdef unsigned long long _ERASED
cdef unsigned long long _TOMBSTONE

@cython.final
cdef class BlockLoader:
    cdef readonly unsigned long long highest
    cdef readonly long long highest_timestamp
    cdef str _stream
    cdef MessageLoader _messages

    @cython.locals(
        hasher=HighwayHash, p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t,
        first="unsigned long long", size=Py_ssize_t, subject_size=Py_ssize_t, seq="unsigned long long",
        timestamp="unsigned long long", body=Py_ssize_t, header_size=Py_ssize_t, extra=int, finish=Py_ssize_t,
    )
    cpdef load(self, int number, bytes data)
    @cython.locals(plain="unsigned long long")
    cdef _take(
        self, unsigned long long seq, long long timestamp, bytes subject, bytes data,
        Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
    )

cdef long long _signed(unsigned long long value) noexcept
