cimport cython

from millstream.jetstream.stream.committed_log cimport Committing
from millstream.jetstream.stream.worker_job cimport WorkerJob
from millstream.store.commit cimport Commit

@cython.final
cdef class Ticket(WorkerJob):
    cdef readonly Commit commit
    cdef readonly Committing owner
    cdef readonly object publisher
    cdef bint _told
    cdef object _then
    cdef object _wait

    cpdef then(self, object ended)
    cpdef tell(self, object error)
    cpdef begun(self, object wait)
    cpdef turned_down(self)
    cpdef plain_ended(self, int failed_write, int failed_sync)
    cpdef journaled_ended(self)
