cimport cython

from millrace.jetstream.consumers.ledger cimport Ledger
from millrace.protocol.parser cimport Frame

cdef int _TOKENS_V1
cdef int _TOKENS_V2
cdef int _DOT
cdef int _ZERO
cdef long long _NO_NUMBER
cdef long long _NEVER_DELIVERED

@cython.final
cdef class AckSubject:
    cdef readonly long long deliveries
    cdef readonly long long sseq
    cdef readonly long long dseq

    @cython.locals(p="const unsigned char*", size=Py_ssize_t, index=Py_ssize_t, tokens=int, skip=int)
    cpdef bint read(self, bytes subject) except? -1
    @cython.locals(p="const unsigned char*", index=Py_ssize_t, value="long long", digit=int)
    cdef long long _number(self, bytes subject, Py_ssize_t start) except *

@cython.final
cdef class AckSink:
    cdef public bint plain
    cdef readonly long long taken
    cdef Ledger _ledger
    cdef object _slow
    cdef object _settled
    cdef bint _told
    cdef AckSubject _subject

    @cython.locals(ack=AckSubject)
    cpdef take(self, bytes subject, Frame frame)
    cpdef tell_again(self)

@cython.locals(size=Py_ssize_t)
cdef bint _says_ack(Frame frame) except? -1
