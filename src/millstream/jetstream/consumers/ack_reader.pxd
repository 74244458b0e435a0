cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.jetstream.consumers.ledger cimport Ledger
from millstream.protocol.inlet cimport Inlet
from millstream.protocol.parser cimport Frame

cdef int _TOKENS_V1
cdef int _TOKENS_V2
cdef int _DOT
cdef int _ZERO
cdef long long _NO_NUMBER
cdef bytes _PLUS_ACK
cdef long long _NEVER_DELIVERED

@cython.final
cdef class AckSubject:
    cdef readonly long long deliveries
    cdef readonly long long sseq
    cdef readonly long long dseq

    cdef Py_ssize_t _at

    @cython.locals(p="const unsigned char*", index=Py_ssize_t, end=Py_ssize_t, tokens=int, skip=int)
    cpdef bint read(self, bytes buf, Py_ssize_t start, Py_ssize_t size) except? -1
    @cython.locals(
        p="const unsigned char*", start=Py_ssize_t, index=Py_ssize_t, value="long long", digit=int, sound=bint
    )
    cdef long long _number(self, bytes buf) noexcept

cdef class AckSink(Inlet):
    cdef public bint plain
    cdef public object release
    cdef readonly long long taken
    cdef list _owed
    cdef Ledger _ledger
    cdef object _slow
    cdef object _settled
    cdef bint _told
    cdef AckSubject _subject

    @cython.locals(ack=AckSubject, released=bint)
    cpdef take_at(self, bytes buf, Py_ssize_t start, Py_ssize_t size, Frame frame)
    cpdef owe(self, bytes reply)
    cdef _tell(self)
    @cython.locals(owed=list)
    cpdef list tell_again(self)

@cython.locals(size=Py_ssize_t)
cdef bint _says_ack(Frame frame) except? -1
