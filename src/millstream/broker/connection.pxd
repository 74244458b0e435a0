cimport cython

from millstream.base.buffer cimport equal_bytes, has_line
from millstream.base.wide_map cimport WideMap
from millstream.broker.router cimport SubjectSpace
from millstream.broker.routes cimport AckRoute, SubjectRoute, Subscriber, Subscription, Target
from millstream.broker.watchdog cimport Watchdog
from millstream.protocol.outbuf cimport OutBuffer
from millstream.protocol.outlet cimport long_part
from millstream.protocol.parser cimport Frame, Parser
from millstream.subjects.match cimport valid_literal_subject

cdef int _NEED_MORE
cdef int _PUB
cdef int _PING
cdef int _SUB
cdef int _UNSUB
cdef double _SLICE_S
cdef Py_ssize_t _LOOK_EVERY
cdef Py_ssize_t _REQUEST_WORK
cdef int _BYTES_SHIFT
cdef Py_ssize_t _OPERATION_WORK
cdef Py_ssize_t _FLUSH_AT
cdef Py_ssize_t _SPARE_BUFFERS
cdef Py_ssize_t _WRITES_AT_ONCE
cdef Py_ssize_t _LOOK_AFTER
cdef double _WRITE_S
cdef Py_ssize_t _LARGE_BODY
cdef Py_ssize_t _LONG
cdef unsigned char _UNDERSCORE
cdef unsigned char _DOLLAR
cdef unsigned char _I
cdef bytes _PONG
cdef bytes _CRLF
cdef bytes _ACK
cdef bytes _DIRECT_GET
cdef bytes _TRACE
cdef str _READ
cdef str _MADE
cdef str _LOST
cdef str _DRAINED

@cython.final
cdef class Tick:
    cdef readonly Watchdog watchdog
    cdef readonly object clock
    cdef list _dirty
    cdef list _spare
    cdef public bint near_max_pending
    cdef public bint flooded
    cdef readonly list held
    cdef readonly unsigned long long switches
    cdef readonly unsigned long long reader
    cdef readonly unsigned long long round
    cdef public bint counts
    cdef public object in_slices
    cdef readonly object writes
    cdef readonly object newcomers

    cpdef reads(self, unsigned long long cid)
    cpdef OutBuffer borrow(self, Connection connection)
    cpdef give_back(self, OutBuffer buffer)
    cpdef count_round(self)
    @cython.locals(connection=Connection, held=list)
    cpdef release(self)
    cpdef bint has_many_writes(self)
    @cython.locals(connection=Connection, dirty=list, left=bint)
    cpdef bint flush(self) except? -1
    @cython.locals(connection=Connection, rest=list, at=Py_ssize_t, end=double)
    cdef bint _flush_many(self, list dirty) except? -1

cdef class Connection(Subscriber):
    cdef readonly object broker
    cdef readonly Tick tick
    cdef readonly Parser parser
    cdef readonly unsigned long long cid
    cdef public object transport
    cdef readonly object account
    cdef readonly SubjectSpace space
    cdef readonly WideMap subscriptions
    cdef public bint closed
    cdef public bint suspended
    cdef public bint outdated
    cdef readonly bint waiting
    cdef bint _is_new
    cdef public bint half_closes
    cdef public bint reads_bodies
    cdef public object session
    cdef public object keepalive
    cdef public object backpressure
    cdef public object tracer
    cdef public bint echo
    cdef public bint headers
    cdef public bint no_responders
    cdef public bint pedantic
    cdef readonly bint subject_checked
    cdef public bint careful
    cdef public object permissions
    cdef public bint filters_deliveries
    cdef public bint tracks_replies
    cdef readonly long long in_messages
    cdef readonly long long in_bytes
    cdef public long long in_operations
    cdef readonly long long out_messages
    cdef readonly long long out_bytes
    cdef readonly long long written
    cdef readonly bint write_blocked
    cdef public double last_activity
    cdef OutBuffer _out
    cdef OutBuffer _put_off
    cdef Py_ssize_t _holds
    cdef SubjectRoute _route
    cdef AckRoute _acks
    cdef Py_ssize_t _work
    cdef double _turn_end
    cdef unsigned long long _round
    cdef list _later

    cpdef enter(self, object account)
    @cython.locals(tick=Tick)
    cdef void _log_in(self, bytes data) except *
    cdef void _count_round(self) except *
    cpdef object room(self)
    cpdef body_received(self, Py_ssize_t count)
    @cython.locals(tick=Tick)
    cpdef process(self)
    @cython.locals(parser=Parser, op=int)
    cdef void _act(self) except *
    @cython.locals(now=double, tick=Tick)
    cdef void _look_at_the_clock(self) except *
    cpdef hold(self)
    cpdef let_go(self)
    cpdef take_turn(self)
    @cython.locals(frame=Frame, route=SubjectRoute, acks=AckRoute, taken=Py_ssize_t)
    cdef void _publish(self) except *
    @cython.locals(start=Py_ssize_t)
    cdef bint _may_be_traced(self, Frame frame) except? -1
    cdef SubjectRoute _find_route(self)
    @cython.locals(parser=Parser)
    cdef bint _is_plain_ack(self, AckRoute acks, Frame frame) except? -1
    @cython.locals(acks=AckRoute, subscription=Subscription)
    cdef SubjectRoute _find_ack_route(self, bytes subject)
    @cython.locals(first="unsigned char")
    cdef bint _reply_is_reserved(self, Frame frame) except? -1
    @cython.locals(
        subscription=Subscription, out=OutBuffer, prefix=bytes, start=Py_ssize_t, size=Py_ssize_t
    )
    cpdef bint deliver(self, Target target, Frame frame, Subscriber source) except? -1
    cpdef bint takes_parts(self) except? -1
    @cython.locals(subscription=Subscription, prefix=bytes)
    cpdef bint deliver_parts(
        self, Target target, bytes reply, bytes block, list parts, long long size
    ) except? -1
    cdef bint _may_have(self, Target target, Frame frame) except? -1
    cpdef bint behind(self) except? -1
    cpdef bint gone(self) except? -1
    @cython.locals(out=OutBuffer)
    cpdef answer(
        self, Subscription subscription, bytes replies, Py_ssize_t at, Py_ssize_t size, bytes start,
        unsigned long long number, Py_ssize_t end_size,
    )
    cdef inline void _count(self, Subscription subscription) except *
    cpdef send(self, bytes line)
    @cython.locals(out=OutBuffer)
    cpdef flush(self)
    cpdef put_off(self)
    @cython.locals(out=OutBuffer)
    cpdef catch_up(self)
    cdef void _write(self) except *
    @cython.locals(data=bytes)
    cdef void _write_out(self, OutBuffer out) except *
    cpdef stop(self)
