cimport cython

from millrace.protocol.parser cimport Frame

cdef bytes _END
cdef bytes _FAST_BATCH
cdef int _LAST_LETTER

@cython.final
cdef class Ingest:
    cdef public bint plain
    cdef object _log
    cdef object _now_ns
    cdef object _dirty
    cdef object _slow
    cdef list _acks
    cdef bint _told

    cpdef take(self, bytes subject, Frame frame)
    cdef bint _is_batched(self, Frame frame) except *
    @cython.locals(now="long long", last="long long")
    cpdef long long timestamp(self) except *
    cpdef acknowledge(self, bytes reply, unsigned long long seq, bytes end)
    cpdef tell(self)
    cpdef list hand_over(self)
