cimport cython

from millstream.jetstream.consumers.ledger cimport Ledger

cdef Py_ssize_t _AT_ONCE
cdef Py_ssize_t _COST

cdef class Expiry:
    cdef object _consumer
    cdef object _world
    cdef Ledger _ledger
    cdef object _timer
    cdef long long _due_ns
    cdef bint _expiring

    cpdef stop(self)
    @cython.locals(ledger=Ledger)
    cpdef plan(self, long long now)
    cdef _fire_by(self, long long due)
