cimport cython

cdef long long _NEVER

@cython.final
@cython.freelist(4096)
cdef class Pending:
    cdef readonly unsigned long long dseq
    cdef readonly long long at
    cdef readonly long long due
    cdef readonly bint queued
    cdef readonly bint known
    cdef readonly bint kept

@cython.locals(entry=Pending)
cdef Pending _pending(unsigned long long dseq, long long at)

@cython.final
cdef class Ledger:
    cdef readonly unsigned long long delivered_dseq
    cdef readonly unsigned long long delivered_sseq
    cdef readonly unsigned long long floor_dseq
    cdef readonly unsigned long long floor_sseq
    cdef public long long ack_wait
    cdef public tuple backoff
    cdef public long long max_deliver
    cdef readonly dict pending
    cdef readonly dict redelivered
    cdef readonly object order
    cdef object _queue
    cdef list _later
    cdef list _moved
    cdef list _gone
    cdef dict _counted
    cdef readonly Py_ssize_t waiting_again
    cdef readonly bint changed
    cdef readonly Py_ssize_t resets

    @cython.locals(entry=Pending, key=object)
    cpdef deliver(self, unsigned long long sseq, long long now)
    cpdef deliver_settled(self, unsigned long long sseq)
    @cython.locals(entry=Pending)
    cpdef deliver_again(self, unsigned long long sseq, long long now)
    cpdef long long deliveries(self, unsigned long long sseq) except *
    @cython.locals(entry=Pending)
    cpdef unsigned long long next_again(self) except *
    cpdef pop_again(self)
    cdef _put_last(self, unsigned long long sseq, Pending entry)
    cdef _enqueue(self, unsigned long long sseq, Pending entry)
    cdef void _unqueue(self, Pending entry) noexcept
    cpdef list queue_all(self, long long now)
    @cython.locals(entry=Pending, waiting=Pending, limit="long long", late=list)
    cpdef list expire(self, long long now)
    @cython.locals(entry=Pending, given_up=list)
    cdef list _queue_those(self, list sseqs, long long now)
    cpdef bint spent(self, unsigned long long sseq) except *
    cpdef give_up(self, unsigned long long sseq)
    @cython.locals(entry=Pending, earliest="long long", usual="long long")
    cpdef long long due(self) except *
    cpdef bint has_delayed(self) noexcept
    @cython.locals(entry=Pending, latest="long long")
    cpdef plan_again(self, long long now)
    cdef long long _wait_of(self, unsigned long long sseq) except *
    cdef _plan(self, unsigned long long sseq, Pending entry, long long due)
    @cython.locals(entry=Pending)
    cpdef bint ack(self, unsigned long long sseq) except *
    cpdef list ack_all(self, unsigned long long sseq, unsigned long long dseq)
    @cython.locals(
        entry=Pending, settled=list, left=Py_ssize_t, reached="unsigned long long", each="unsigned long long"
    )
    cpdef list ack_some(self, unsigned long long sseq, unsigned long long dseq, Py_ssize_t most)
    cpdef bint has_unsettled(self, unsigned long long sseq) except -1
    @cython.locals(entry=Pending)
    cpdef progress(self, unsigned long long sseq, long long now)
    cpdef bint may_nak(self, unsigned long long sseq, unsigned long long dseq) except *
    @cython.locals(entry=Pending)
    cpdef nak(self, unsigned long long sseq)
    @cython.locals(entry=Pending)
    cpdef nak_later(self, unsigned long long sseq, long long due)
    cdef _settled(self, unsigned long long sseq, Pending entry)
    @cython.locals(entry=Pending, lowest="unsigned long long")
    cdef _raise_floor(self, unsigned long long dseq, unsigned long long sseq)
    cdef _forget_count(self, unsigned long long sseq)
    cpdef bint remove(self, unsigned long long sseq) except *
    cpdef list remove_below(self, unsigned long long sseq)
    @cython.locals(entry=Pending)
    cpdef skip_to(self, unsigned long long sseq)
    cpdef forget_above(self, unsigned long long sseq)
    cpdef reset(self, unsigned long long sseq)
    cpdef bint needs(self, unsigned long long sseq, unsigned long long next_sseq) except *
    @cython.locals(entry=Pending, moved=Pending)
    cpdef tuple take_changes(self)
