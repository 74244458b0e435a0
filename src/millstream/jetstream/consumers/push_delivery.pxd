cimport cython

from millstream.jetstream.consumers.consumer cimport Consumer
from millstream.jetstream.consumers.feed cimport Feed
from millstream.jetstream.consumers.flow cimport FlowWindow, OriginalPace, Rate
from millstream.jetstream.slow_receiver cimport SlowReceiverPoll
from millstream.jetstream.stride cimport Stride
from millstream.protocol.outlet cimport Outlet

cdef long long _NS
cdef Py_ssize_t _MESSAGES_AT_ONCE
cdef long long _LONGEST_NS
cdef Py_ssize_t _BYTES_AT_ONCE
cdef Py_ssize_t _UNBOUNDED
cdef int _DONE
cdef int _END
cdef int _FULL
cdef int _NOBODY
cdef int _TOO_BIG
cdef int _TIRED

cdef class PushDelivery:
    cdef Consumer _consumer
    cdef object _world
    cdef object _timer
    cdef object _heartbeat
    cdef long long _last_sent_ns
    cdef list _flow_handles
    cdef object _watch
    cdef OriginalPace _pace
    cdef SlowReceiverPoll _patience
    cdef Stride _stride
    cdef readonly bint active
    cdef readonly long long lost_interest_ns
    cdef bytes _subject
    cdef Outlet _outlet
    cdef FlowWindow _window
    cdef Rate _rate
    cdef long long _heartbeat_ns
    cdef bint _flow_acks

    @cython.locals(consumer=Consumer, now="long long", stopped=int)
    cpdef pump(self)
    @cython.locals(
        consumer=Consumer, feed=Feed, window=FlowWindow, left=Py_ssize_t, left_bytes=Py_ssize_t, room=Py_ssize_t,
        most=Py_ssize_t, end="long long", began="long long", looked="long long", stopped=int,
    )
    cdef int _run(self, long long now) except -1
    @cython.locals(feed=Feed)
    cdef _sent(self, long long now)
