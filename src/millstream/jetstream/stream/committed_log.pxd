from millstream.jetstream.stream.waiters cimport Waiters
from millstream.store.log cimport Log

cdef class Committing:
    cdef readonly object committer
    cdef public Log log
    cdef readonly Waiters waiters
    cdef public bytes journal_key
    cdef public bint in_memory
    cdef public bint sync
    cdef public bint prepares

    cpdef is_dirty(self)
    cpdef on_durable(self, object callback)
    cpdef on_outcome(self, object callback)
    cpdef commit_begins(self)
    cpdef before_commit(self)
    cpdef commit_waits(self)
    cpdef commit_durable(self)
    cpdef commit_ended(self)
    cpdef tell_waiters(self)
    cpdef commit_failed(self, object error)
    cpdef was_synced(self)
    cpdef sync_soon(self)
