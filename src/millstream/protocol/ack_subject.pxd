cimport cython

from millstream.protocol.digits cimport read_number

cdef Py_ssize_t _START_SIZE
cdef int _TOKENS
cdef int _TOKENS_WITH_DOMAIN
cdef int _FIRST_NUMBER
cdef int _FIRST_NUMBER_WITH_DOMAIN
cdef int _NUMBERS
cdef unsigned char _DOT

@cython.final
cdef class AckNumbers:
    cdef readonly long long delivered
    cdef readonly long long stream_seq
    cdef readonly long long consumer_seq
    cdef readonly long long timestamp_ns
    cdef readonly long long pending
    cdef readonly Py_ssize_t end

    @cython.locals(tokens=int, index=Py_ssize_t, at=Py_ssize_t, at_with_domain=Py_ssize_t)
    cpdef Py_ssize_t find(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept
    cpdef bint read(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end, int count=*) noexcept
    @cython.locals(start=Py_ssize_t, at=Py_ssize_t)
    cdef long long _next(self, const unsigned char* p, Py_ssize_t end) noexcept
