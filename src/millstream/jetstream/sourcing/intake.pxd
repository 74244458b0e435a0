cimport cython

from millstream.base.buffer cimport GrowingBuffer, equal_bytes
from millstream.jetstream.publish.ingest cimport Ingest
from millstream.protocol.ack_subject cimport AckNumbers
from millstream.protocol.parser cimport Frame
from millstream.store.log cimport Log

cdef int _MARK_SOURCE
cdef bytes _START
cdef Py_ssize_t _START_SIZE
cdef bytes _CONTROL
cdef bytes _OURS
cdef bytes _END
cdef Py_ssize_t _END_SIZE
cdef bytes _ACK_START
cdef int _MOST_DIGITS
cdef int _MOST_SUBJECTS

cdef class OriginIntake:
    cdef public long long sseq
    cdef public long long dseq
    cdef public long long lag
    cdef public object on_control
    cdef public object on_gap
    cdef public object on_sign
    cdef object _stream
    cdef Log _log
    cdef Ingest _ingest
    cdef object _store
    cdef bytes _consumer
    cdef bytes _prefix
    cdef bint _told
    cdef Py_ssize_t _position
    cdef AckNumbers _numbers
    cdef list _transforms
    cdef dict _renamed

    @cython.locals(numbers=AckNumbers, sseq="long long", dseq="long long", pending="long long")
    cpdef take(self, bytes subject, Frame frame)
    cpdef bint _keep(self, bytes subject, Frame frame, long long sseq, long long timestamp) except *
    cdef bint _is_control(self, Frame frame) except *
    cdef bint _is_plain(self, Frame frame) except *
    cpdef bytes target(self, bytes subject)
    @cython.locals(prefix=bytes)
    cdef bint _is_ours(self, Frame frame) except *
    @cython.locals(reply=bytes, at=Py_ssize_t)
    cdef bint _learn(self, Frame frame) except *

cdef class MirrorIntake(OriginIntake):
    @cython.locals(log=Log, header_size=Py_ssize_t)
    cpdef bint _keep(self, bytes subject, Frame frame, long long sseq, long long timestamp) except *

cdef class SourceIntake(OriginIntake):
    cdef bytes _before
    cdef bytes _between
    cdef bytes _behind
    cdef GrowingBuffer _buffer

    @cython.locals(
        buffer=GrowingBuffer, header_size=Py_ssize_t, room=Py_ssize_t, block_size=Py_ssize_t, size=Py_ssize_t,
        source=bytes, now="long long"
    )
    cpdef bint _keep(self, bytes subject, Frame frame, long long sseq, long long timestamp) except *
