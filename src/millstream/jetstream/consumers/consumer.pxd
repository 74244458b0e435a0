from millstream.jetstream.consumers.commit_waiters cimport AwaitingCommit
from millstream.jetstream.consumers.delivery cimport Delivery
from millstream.jetstream.consumers.feed cimport Feed
from millstream.jetstream.consumers.ledger cimport Ledger

cdef Py_ssize_t _SKIPPED

cdef class Consumer:
    cdef readonly object stream
    cdef readonly object world
    cdef readonly str name
    cdef public object config
    cdef readonly long long created_ns
    cdef readonly long long started_ns
    cdef public object keeper
    cdef readonly object advisories
    cdef readonly Ledger ledger
    cdef readonly Delivery delivery
    cdef readonly object expiry
    cdef readonly Feed feed
    cdef readonly object acknowledging
    cdef readonly object spans
    cdef readonly object letters
    cdef readonly object pauses
    cdef readonly object inactivity
    cdef public long long last_delivery_ns
    cdef public long long last_ack_ns
    cdef readonly bint running
    cdef public unsigned long long released
    cdef public tuple patterns
    cdef readonly object mode
    cdef public bint is_told
    cdef AwaitingCommit _awaiting_commit
    cdef list _handles
    cdef unsigned long long _reserved
    cdef object _read_again
    cdef bint _full
    cdef bint _awake
    cdef bint _pumping

    cpdef pump(self)
    @cython.locals(delivered="unsigned long long")
    cpdef Py_ssize_t room(self) except -1
    cpdef await_commit(self)
    cpdef rest(self)
    cpdef fill(self)
    cpdef delivered(self, long long now)
    cpdef unblock(self)
