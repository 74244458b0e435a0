cimport cython

from millstream.jetstream.consumers.delivery cimport Delivery
from millstream.jetstream.consumers.last_messages cimport Singles
from millstream.jetstream.consumers.ledger cimport Ledger
from millstream.protocol.outlet cimport Outlet
from millstream.store.cursor cimport Cursor
from millstream.store.log cimport Log
from millstream.store.record cimport Record

cdef int _DONE
cdef int _END
cdef int _FULL
cdef int _NOBODY
cdef int _TOO_BIG
cdef int _TIRED
cdef int _PARKED
cdef int _PARKED_AT_ONCE
cdef Py_ssize_t _SIFTED_AT_ONCE

@cython.final
cdef class Feed:
    cdef public Py_ssize_t sent
    cdef public Py_ssize_t sent_bytes
    cdef readonly Py_ssize_t recounts
    cdef readonly tuple patterns
    cdef Log _log
    cdef Ledger _ledger
    cdef Delivery _delivery
    cdef object _told
    cdef object _given_up
    cdef object _missing
    cdef Cursor _cursor
    cdef Record _record
    cdef Singles _singles
    cdef unsigned long long _counted_to
    cdef public object keys
    cdef long long _removals
    cdef bint _passes_removed

    cdef _move(self, unsigned long long sseq)
    cpdef release(self)
    cpdef skip_to(self, unsigned long long sseq)
    @cython.locals(log=Log, delivery=Delivery, removals="long long")
    cpdef long long count(self) except *
    cpdef bint passes_removed(self) except -1
    cpdef may_pass(self)
    @cython.locals(unseen="long long", told="long long", sseq="unsigned long long")
    cdef bint _has_passed(self, list gone, long long removals) except -1
    @cython.locals(ledger=Ledger)
    cpdef bint holds(self) except -1
    @cython.locals(left=Py_ssize_t)
    cpdef removed(self, list sseqs)
    cpdef bint goes_again(self) except -1
    cpdef bint has_more(self) except -1
    @cython.locals(ledger=Ledger)
    cpdef bint is_full(self) except -1
    @cython.locals(delivery=Delivery, stopped=int)
    cpdef int send(self, Outlet outlet, Py_ssize_t most, Py_ssize_t most_bytes, long long now) except -1
    cpdef long long next_timestamp(self) except *
    @cython.locals(ledger=Ledger, record=Record, sseq="unsigned long long", size=Py_ssize_t)
    cdef int _send_again(self, Outlet outlet, Py_ssize_t most_bytes, long long now) except -1
    @cython.locals(
        delivery=Delivery, ledger=Ledger, record=Record, sseq="unsigned long long", left="long long",
        size=Py_ssize_t,
    )
    cdef int _send_single(self, Outlet outlet, Py_ssize_t most_bytes, long long now) except -1
    @cython.locals(ledger=Ledger, delivery=Delivery, stopped=int, passed=int)
    cdef int _send_in_order(self, Outlet outlet, Py_ssize_t most, Py_ssize_t most_bytes, long long now) except -1
    @cython.locals(ledger=Ledger, record=Record, cursor=Cursor, left="long long", size=Py_ssize_t)
    cdef int _send_new(self, Outlet outlet, Py_ssize_t most_bytes, long long now) except -1
    @cython.locals(
        ledger=Ledger, record=Record, delivery=Delivery, sseq="unsigned long long", left="long long",
        size=Py_ssize_t,
    )
    cdef int _send_parked(self, state, Outlet outlet, Py_ssize_t most_bytes, long long now) except -1
    cdef void _note(self, Py_ssize_t size) noexcept
