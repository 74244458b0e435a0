cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.jetstream.consumers.ledger cimport Ledger
from millstream.protocol.ack_subject cimport AckNumbers
from millstream.protocol.inlet cimport Inlet
from millstream.protocol.parser cimport Frame

cdef int _NUMBERS
cdef bytes _PLUS_ACK
cdef long long _NEVER_DELIVERED

cdef class AckSink(Inlet):
    cdef public bint plain
    cdef public object release
    cdef readonly long long taken
    cdef public object spans
    cdef public dict open_spans
    cdef list _owed
    cdef Ledger _ledger
    cdef object _slow
    cdef object _settled
    cdef bint _told
    cdef AckNumbers _numbers

    @cython.locals(
        ack=AckNumbers, end=Py_ssize_t, at=Py_ssize_t, sseq="long long", deliveries="long long", released=bint
    )
    cpdef take_at(self, bytes buf, Py_ssize_t start, Py_ssize_t size, Frame frame)
    cpdef owe(self, bytes reply)
    cdef _tell(self)
    @cython.locals(owed=list)
    cpdef list tell_again(self)

@cython.locals(size=Py_ssize_t)
cdef bint _says_ack(Frame frame) except? -1
