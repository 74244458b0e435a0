from millstream.store.log cimport Log

cdef class Committing:
    cdef public Log log
    cdef public bytes journal_key
    cdef public bint in_memory
    cdef public bint sync
    cdef public bint prepares

    cpdef commit_begins(self)
    cpdef before_commit(self)
    cpdef commit_waits(self)
    cpdef commit_durable(self)
    cpdef commit_ended(self)
    cpdef commit_failed(self, object error)
