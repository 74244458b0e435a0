cimport cython

from millstream.base.paged_map cimport PagedMap
from millstream.jetstream.consumers.parked cimport Parked

cdef long long _NEVER
cdef Py_ssize_t _PART
cdef int _STALE
cdef long long _LONG_AGO
cdef Py_ssize_t _ALL

@cython.final
@cython.freelist(4096)
cdef class Pending:
    cdef readonly unsigned long long dseq
    cdef readonly long long at
    cdef readonly long long due
    cdef readonly long long planned
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
    cdef readonly PagedMap pending
    cdef readonly PagedMap redelivered
    cdef public bint journaled
    cdef public bint keeps_spent
    cdef readonly set aside
    cdef public list freed
    cdef readonly Parked parked
    cdef readonly bint late
    cdef object _queue
    cdef unsigned long long _timed
    cdef list _later
    cdef unsigned long long _told
    cdef list _moved
    cdef list _gone
    cdef list _counted
    cdef readonly unsigned long long told_dseq
    cdef readonly unsigned long long told_sseq
    cdef readonly Py_ssize_t waiting_again
    cdef readonly bint changed
    cdef readonly Py_ssize_t resets

    cpdef deliver(self, unsigned long long sseq, long long now)
    cpdef deliver_settled(self, unsigned long long sseq)
    @cython.locals(entry=Pending, extra="long long")
    cpdef deliver_again(self, unsigned long long sseq, long long now)
    cpdef long long deliveries(self, unsigned long long sseq) except *
    @cython.locals(entry=Pending)
    cpdef unsigned long long next_again(self) except *
    cpdef pop_again(self)
    @cython.locals(wait="long long")
    cdef _wait_anew(self, unsigned long long sseq, Pending entry, long long now)
    cdef _note_move(self, unsigned long long sseq, Pending entry)
    cdef _note_count(self, unsigned long long sseq)
    cpdef park(self, unsigned long long sseq, long long mark)
    cpdef unpark(self, unsigned long long sseq)
    @cython.locals(entry=Pending, wait="long long")
    cpdef deliver_parked(self, unsigned long long sseq, long long now)
    cpdef list heads(self)
    cpdef list known_heads(self)
    @cython.locals(freed=list)
    cpdef list take_freed(self)
    @cython.locals(lowest="unsigned long long", parked="unsigned long long")
    cdef _raise_to_lowest(self)
    cdef _enqueue(self, unsigned long long sseq, Pending entry)
    cdef void _unqueue(self, Pending entry) noexcept
    @cython.locals(found=list, sseq="unsigned long long", left=Py_ssize_t)
    cpdef tuple queue_some(self, unsigned long long after, long long now, Py_ssize_t most=*)
    @cython.locals(
        entry=Pending, waiting=Pending, limit="long long", wait="long long", when="long long",
        sseq="unsigned long long", late=list, left=Py_ssize_t,
    )
    cpdef list expire(self, long long now, Py_ssize_t most=*)
    @cython.locals(entry=Pending, given_up=list)
    cdef list _queue_those(self, list sseqs, long long now)
    cpdef bint spent(self, unsigned long long sseq) except *
    cpdef give_up(self, unsigned long long sseq)
    @cython.locals(
        entry=Pending, earliest="long long", usual="long long", wait="long long", sseq="unsigned long long"
    )
    cpdef long long due(self) except *
    @cython.locals(entry=Pending, when="long long", sseq="unsigned long long")
    cdef long long _first_planned(self) except *
    cpdef drop_from_queue(self, unsigned long long sseq)
    cpdef put_aside(self, unsigned long long sseq)
    cpdef bint has_delayed(self) noexcept
    @cython.locals(entry=Pending, latest="long long")
    cpdef plan_again(self, long long now)
    @cython.locals(entry=Pending, sseq="unsigned long long", left=Py_ssize_t)
    cpdef unsigned long long plan_some(self, unsigned long long after, Py_ssize_t most=*) except *
    cdef long long _common_wait(self) except *
    cdef long long _wait_of(self, unsigned long long sseq) except *
    cdef _plan(self, unsigned long long sseq, Pending entry, long long due)
    @cython.locals(entry=Pending)
    cpdef bint ack(self, unsigned long long sseq) except *
    cpdef list ack_all(self, unsigned long long sseq, unsigned long long dseq)
    @cython.locals(
        entry=Pending, settled=list, left=Py_ssize_t, reached="unsigned long long", each="unsigned long long",
        looked="unsigned long long", following="unsigned long long",
    )
    cpdef list ack_some(self, unsigned long long sseq, unsigned long long dseq, Py_ssize_t most)
    @cython.locals(pending="unsigned long long", given_up="unsigned long long")
    cdef unsigned long long _next_unsettled(self, unsigned long long sseq) except? 0
    @cython.locals(following="unsigned long long")
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
    cpdef begin_skip(self, unsigned long long sseq)
    @cython.locals(entry=Pending, each="unsigned long long", looked="unsigned long long", skipped=Py_ssize_t)
    cpdef Py_ssize_t skip_some(self, unsigned long long sseq, Py_ssize_t most=*) except -1
    cpdef forget_above(self, unsigned long long sseq)
    cpdef list reset(self, unsigned long long sseq)
    @cython.locals(freed=list)
    cpdef list clear(self)
    cpdef bint needs(self, unsigned long long sseq, unsigned long long next_sseq) except *
    @cython.locals(
        entry=Pending, sseq="unsigned long long", following="unsigned long long", left=Py_ssize_t, fresh=list
    )
    cpdef tuple take_changes(self, Py_ssize_t most=*)
    @cython.locals(entry=Pending, left=Py_ssize_t, rows=list)
    cpdef tuple known_after(self, unsigned long long sseq, Py_ssize_t most)
    @cython.locals(left=Py_ssize_t, rows=list)
    cpdef tuple counts_after(self, unsigned long long sseq, Py_ssize_t most)
