cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.broker.connection cimport Connection, Tick
from millstream.broker.routes cimport AckRoute, SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.outbuf cimport OutBuffer
from millstream.protocol.parser cimport Frame, Parser
from millstream.subjects.match cimport is_one_word

cdef int _NEED_MORE
cdef int _PUB
cdef int _BYTES_SHIFT
cdef Py_ssize_t _OPERATION_WORK
cdef Py_ssize_t _LOOK_EVERY
cdef Py_ssize_t _FLUSH_AT
cdef bytes _ACK
cdef Py_ssize_t _ACK_SIZE
cdef int _ACK_DOTS
cdef Py_ssize_t _MAX_NAMES
cdef unsigned char _DOT
cdef unsigned char _AT

cdef class LeafConnection(Connection):
    cdef readonly object peer
    cdef readonly object rules
    cdef Py_ssize_t _max_payload
    cdef bint _tracks
    cdef public object links
    cdef public bint ready
    cdef Target _sent
    cdef dict _weights
    cdef SubjectRoute _renamed_from
    cdef dict _renamed

    cpdef bint is_link(self) noexcept
    cpdef bint takes_parts(self) except? -1
    cpdef Py_ssize_t weight_of(self, Subscription subscription) except? -1
    cpdef take_rules(self, object rules)
    cpdef set_weight(self, Subscription subscription, Py_ssize_t weight)
    @cython.locals(parser=Parser, op=int)
    cdef void _act(self) except *
    @cython.locals(frame=Frame, route=SubjectRoute, queues=list, shown=Py_ssize_t)
    cdef void _take_message(self) except *
    @cython.locals(p="const unsigned char*", i=Py_ssize_t, end=Py_ssize_t, dots=int)
    cdef Py_ssize_t _take_subject(self, Frame frame) except -1
    @cython.locals(renamed=SubjectRoute)
    cdef SubjectRoute _rename(self, SubjectRoute route, bytes subject)
    cdef OutBuffer _lend(self)
    cdef bint _is_delivery(self, Frame frame) except -1
    @cython.locals(subject=bytes, mapped=bytes, acks=AckRoute, route=SubjectRoute)
    cdef SubjectRoute _find_link_route(self)
    cpdef bint deliver(self, Target target, Frame frame, Subscriber source) except? -1
    @cython.locals(out=OutBuffer, via=bytes, shown=bytes)
    cpdef bint send_message(self, Target target, Frame frame, Subscriber source, list queues) except? -1
    cpdef answer(
        self, Subscription subscription, bytes replies, Py_ssize_t at, Py_ssize_t size, bytes start,
        unsigned long long number, Py_ssize_t end_size,
    )
