cimport cython

from millstream.jetstream.stream.ticket cimport Ticket
from millstream.store.record cimport RecordBuffer

@cython.final
cdef class DiskWriters:
    cdef object _loop
    cdef object _turn
    cdef object _pace
    cdef list _idle
    cdef list _all
    cdef dict _busy

    @cython.locals(plain=tuple, buffer=RecordBuffer, alone=bint)
    cpdef bint write(self, Ticket ticket) except *
    cdef _write_now(self, Ticket ticket, object descriptor, RecordBuffer buffer)
    cpdef _readable(self, object writer)
    cpdef _wait_for(self, Ticket ticket)
    cdef _wait(self, object writer)
    cdef object _end(self, object writer)
