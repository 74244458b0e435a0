from millstream.broker.connection cimport Tick
from millstream.broker.turns cimport Turns

cdef class AccountWorld:
    cdef object _broker
    cdef Turns _turns
    cdef Tick _tick
    cdef object _account
    cdef object _workers
    cdef public object writers
    cdef readonly object now_ns
    cdef readonly object steady_ns
    cdef readonly object spans

cdef class _Listener:
    cdef public object subscription
    cdef object _broker
    cdef object _account
    cdef object _callback
    cdef str _place

cdef class SourceRequester:
    cdef object _broker
    cdef object _account
    cdef object _client
