cimport cython

from millstream.jetstream.consumers.consumer cimport Consumer
from millstream.jetstream.consumers.feed cimport Feed
from millstream.jetstream.consumers.flow cimport OriginalPace
from millstream.jetstream.consumers.pull_queue cimport WaitingPulls
from millstream.jetstream.consumers.pull_request cimport PullRequest
from millstream.jetstream.slow_receiver cimport SlowReceiverPoll
from millstream.jetstream.stride cimport Stride
from millstream.protocol.outlet cimport Outlet

cdef long long _NS
cdef Py_ssize_t _MESSAGES_AT_ONCE
cdef long long _LONGEST_NS
cdef Py_ssize_t _UNBOUNDED
cdef Py_ssize_t _BYTES_AT_ONCE
cdef Py_ssize_t _MAX_OUTLETS
cdef Py_ssize_t _MAX_PASSED_OVER
cdef Py_ssize_t _TOLD_AT_ONCE
cdef Py_ssize_t _STATUS_COST
cdef Py_ssize_t _REQUEST_COST
cdef int _DONE
cdef int _END
cdef int _FULL
cdef int _NOBODY
cdef int _TOO_BIG
cdef int _TIRED

cdef class PullDelivery:
    cdef Consumer _consumer
    cdef object _world
    cdef readonly WaitingPulls waiting
    cdef dict _outlets
    cdef object _timer
    cdef long long _timer_ns
    cdef object _pause
    cdef OriginalPace _pace
    cdef object _look
    cdef SlowReceiverPoll _patience
    cdef Stride _stride
    cdef bint _pins
    cdef object _untold
    cdef bint _telling

    @cython.locals(consumer=Consumer, waits=bint)
    cpdef ask(self, bytes reply, bytes body, bytes block)
    @cython.locals(
        consumer=Consumer, feed=Feed, waiting=WaitingPulls, request=PullRequest, outlet=Outlet, now="long long",
        left=Py_ssize_t, left_bytes=Py_ssize_t, passed_over=Py_ssize_t, again=Py_ssize_t, end="long long",
        began="long long", looked="long long", stopped=int,
    )
    cpdef pump(self)
    @cython.locals(
        consumer=Consumer, feed=Feed, waiting=WaitingPulls, most=Py_ssize_t, stopped=int
    )
    cdef int _serve(self, PullRequest request, Outlet outlet, Py_ssize_t most_bytes, long long now) except -1
    @cython.locals(feed=Feed, own_most=Py_ssize_t, stopped=int)
    cdef int _send(
        self, PullRequest request, Outlet outlet, Py_ssize_t most, Py_ssize_t most_bytes, long long now
    ) except -1
    @cython.locals(
        consumer=Consumer, waiting=WaitingPulls, dseq="unsigned long long", sseq="unsigned long long"
    )
    cdef _settle(self, int stopped, long long now)
    cdef Outlet _outlet_of(self, bytes inbox)
    @cython.locals(waiting=WaitingPulls)
    cpdef tell(self)
    @cython.locals(due="long long")
    cdef _plan(self)
