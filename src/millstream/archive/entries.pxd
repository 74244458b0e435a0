cimport cython

from millstream.base.buffer cimport GrowingBuffer

cdef unsigned long long _MAX_NAME
cdef Py_ssize_t _LONGEST_HEAD
cdef Py_ssize_t _MORE
cdef unsigned long long _TOP

@cython.final
cdef class EntryBuffer(GrowingBuffer):
    @cython.locals(name_size=Py_ssize_t)
    cpdef add(
        self, bytes name, long long timestamp, unsigned long long seq,
        bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
    )
    cdef int begin(
        self, Py_ssize_t name_size, long long timestamp, unsigned long long seq,
        Py_ssize_t header_size, Py_ssize_t size,
    ) except -1
    cdef void _put_number(self, unsigned long long value) noexcept

@cython.final
cdef class EntryReader:
    cdef readonly bytes buf
    cdef readonly long long timestamp
    cdef readonly unsigned long long seq
    cdef readonly Py_ssize_t name_start
    cdef readonly Py_ssize_t name_size
    cdef readonly Py_ssize_t header_size
    cdef readonly Py_ssize_t body_start
    cdef readonly Py_ssize_t body_size
    cdef public unsigned long long most
    cdef readonly bint too_large
    cdef readonly bint cut
    cdef Py_ssize_t _at
    cdef bint _begun
    cdef unsigned long long _number

    cpdef feed(self, bytes data)
    @cython.locals(
        end=Py_ssize_t, at=Py_ssize_t, name_size="unsigned long long", twisted="unsigned long long",
        seq="unsigned long long", header_size="unsigned long long", body_size="unsigned long long",
    )
    cpdef bint next(self) except *
    cpdef bint is_end(self) noexcept
    cpdef bytes name(self)
    cpdef bytes headers(self)
    cpdef bytes body(self)
    @cython.locals(p="const unsigned char*", value="unsigned long long", byte="unsigned long long", shift=int)
    cdef Py_ssize_t _read_number(self, Py_ssize_t at, Py_ssize_t end) except -2

@cython.locals(half="long long")
cdef long long _untwist(unsigned long long value) noexcept
