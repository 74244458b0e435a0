cimport cython

from millstream.jetstream.worker_job cimport WorkerJob

cdef class _Running(WorkerJob):
    cdef readonly object commit
    cdef Committer _committer
    cdef object _stream
    cdef object _before
    cdef bint _sync
    cdef readonly bint follows
    cdef readonly bytes journal_key
    cdef object _wait

cdef class Committer:
    cdef object _world
    cdef object _interval_s
    cdef dict _dirty
    cdef dict _running
    cdef dict _creating
    cdef set _again
    cdef dict _fresh
    cdef dict _following
    cdef bint _asked_for_room
    cdef dict _vouched
    cdef bint _planned
    cdef dict _unsynced
    cdef set _overdue
    cdef object _timer
    cdef public bint stopping
    cdef public bint leaves_to_journal
    cdef dict _untidy
    cdef readonly object compactor
    cdef readonly object eraser

    cpdef dirty(self, object stream)
    cdef bint _has_to_wait(self, object stream) except *
    cdef bint _settle(self, object stream, _Running running) except *
    cdef _end(self, object stream, object commit)
    cdef _tell_untidy(self, object stream, object commit)
