cimport cython

from millstream.link.parser cimport LinkParser

cdef int _MSG
cdef str _NO_SUBJECT
cdef bytes _NO_BYTES

@cython.final
cdef class LinkMessage:
    cdef readonly str subject
    cdef readonly bytes payload
    cdef readonly str reply
    cdef readonly bytes block
    cdef readonly int status
    cdef readonly long long sid

cpdef LinkMessage copy_message(LinkParser parser)

cdef class Receiver:
    cpdef bint take(self, LinkParser parser) except -1
    cpdef chunk_ended(self)

cdef class Direct(Receiver):
    cdef object _handler

cdef class BatchReceiver(Receiver):
    cdef object _deliver
    cdef list _messages

@cython.final
cdef class Dispatcher:
    cdef dict _receivers
    cdef dict _touched

    cpdef put(self, object sid, Receiver receiver)
    cpdef remove(self, object sid)
    @cython.locals(op=int, receiver=Receiver)
    cpdef int run(self, LinkParser parser) except -1
    @cython.locals(receiver=Receiver)
    cpdef bint take(self, LinkParser parser) except -1
    @cython.locals(receiver=Receiver)
    cpdef list chunk_ended(self)
