cimport cython

from millstream.base.buffer cimport read_little
from millstream.archive.highway cimport HighwayHash

cdef Py_ssize_t _HEADER_SIZE
cdef Py_ssize_t _HASH_SIZE
cdef unsigned long long _HEADERS
cdef unsigned long long _ERASED
cdef unsigned long long _TOMBSTONE
cdef Py_ssize_t _OVERRUN
cdef Py_ssize_t _INSANE
cdef Py_ssize_t _WRONG_HASH
cdef Py_ssize_t _MOST_TIMES

@cython.final
cdef class BlockReader:
    cdef readonly unsigned long long highest
    cdef readonly long long highest_timestamp
    cdef readonly bytes buf
    cdef readonly unsigned long long seq
    cdef readonly long long timestamp
    cdef readonly bint erased
    cdef readonly bint tombstone
    cdef readonly Py_ssize_t subject_start
    cdef readonly Py_ssize_t subject_size
    cdef readonly Py_ssize_t header_size
    cdef readonly Py_ssize_t body_start
    cdef readonly Py_ssize_t body_size
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t hashed_in_vain
    cdef str _stream
    cdef int _number
    cdef HighwayHash _hasher

    cpdef begin(self, int number, bytes data)
    @cython.locals(
        p="const unsigned char*", at=Py_ssize_t, size=Py_ssize_t, subject_size=Py_ssize_t,
        seq="unsigned long long", body=Py_ssize_t, extra=int,
    )
    cpdef bint next(self) except -1
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t skip_damage(self) except -1
    cpdef bytes subject(self)
    @cython.locals(
        p="const unsigned char*", end=Py_ssize_t, first="unsigned long long", size=Py_ssize_t,
        subject_size=Py_ssize_t, extra=int, body=Py_ssize_t, left=Py_ssize_t, headers=Py_ssize_t,
    )
    cdef Py_ssize_t _size(self, Py_ssize_t at) except -100
    @cython.locals(
        p="const unsigned char*", size=Py_ssize_t, subject_size=Py_ssize_t, body=Py_ssize_t, finish=Py_ssize_t,
        hasher=HighwayHash,
    )
    cdef Py_ssize_t _check(self, Py_ssize_t at) except -100

cdef long long _signed(unsigned long long value) noexcept
