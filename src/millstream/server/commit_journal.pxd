cimport cython

from millstream.jetstream.stream.fair_queue cimport FairQueue
from millstream.store.journal_batch cimport JournalBatch

@cython.final
cdef class _Gathered:
    cdef readonly JournalBatch batch
    cdef readonly list tickets
    cdef readonly set publishers

    cpdef clear(self)

cdef class CommitJournal:
    cdef object _loop
    cdef object _disk
    cdef object _submit
    cdef object _run_turn
    cdef readonly object files
    cdef readonly object synced
    cdef readonly object failed
    cdef readonly object holds
    cdef readonly object when_released
    cdef readonly bint ending
    cdef Py_ssize_t _worth
    cdef Py_ssize_t _came
    cdef double _came_until
    cdef unsigned long long _order
    cdef object _writer
    cdef Py_ssize_t _most_bytes
    cdef object _device
    cdef _Gathered _gathering
    cdef _Gathered _spare
    cdef _Gathered _running
    cdef public Py_ssize_t expected
    cdef readonly bint crowded
    cdef bint _planned
    cdef object _file
    cdef FairQueue _ending
    cdef set _under_way
    cdef object _wait_for
    cdef object _wait_for_room
    cdef bint _gives_room

    cdef bint _has_commits(self) noexcept
    @cython.locals(gathering=_Gathered)
    cpdef bint has_place(self, object publisher) except -1
    cpdef when_room(self, object then)
    cdef _tell_room(self)
    @cython.locals(gathering=_Gathered, batch=JournalBatch, size=Py_ssize_t)
    cpdef bint take(self, object ticket) except -1
    @cython.locals(gathered=_Gathered)
    cpdef _begin(self)
    @cython.locals(written=_Gathered, number=Py_ssize_t, failed=int, unsynced=dict)
    cpdef _batch_ended(self)
    @cython.locals(count=int)
    cpdef _end_some(self)
    cdef object _end_one(self)
