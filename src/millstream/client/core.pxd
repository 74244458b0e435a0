cimport cython

from millstream.base.buffer cimport equal_parts
from millstream.link.deliveries cimport Receiver, copy_message
from millstream.link.parser cimport LinkParser
from millstream.protocol.ack_subject cimport AckNumbers

cdef int _CONTROL_STATUS
cdef str _HEARTBEAT
cdef str _FLOW_CONTROL
cdef dict _NO_HEADERS

cdef class OrderedCore(Receiver):
    cdef readonly unsigned long long consumer_seq
    cdef readonly unsigned long long stream_seq
    cdef readonly unsigned long long seen_seq
    cdef public unsigned long long pending
    cdef readonly object trouble
    cdef readonly long long heard
    cdef readonly long long heartbeats
    cdef readonly Py_ssize_t held
    cdef readonly Py_ssize_t held_bytes
    cdef public bint good
    cdef object _config
    cdef object _changed
    cdef Py_ssize_t _max_messages
    cdef Py_ssize_t _max_bytes
    cdef object _items
    cdef str _stream
    cdef str _consumer
    cdef str _inbox
    cdef bytes _prefix
    cdef bytes _last_subject
    cdef str _last_subject_text
    cdef bint _placed
    cdef unsigned long long _snapshot_end
    cdef bint _repeating
    cdef Py_ssize_t _room
    cdef Py_ssize_t _ack_every
    cdef bint _acks_fail
    cdef unsigned long long _stuck_at
    cdef AckNumbers _numbers

    @cython.locals(
        p="const unsigned char*", known=Py_ssize_t, end=Py_ssize_t, numbers=AckNumbers,
        stream_seq="unsigned long long", consumer_seq="unsigned long long", pending="unsigned long long",
        payload=bytes, subject=bytes,
    )
    cdef bint _take_next(self, LinkParser parser) except -1
    cpdef bint is_full(self) noexcept
    cpdef bint is_drained(self) noexcept
