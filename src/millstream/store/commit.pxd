cimport cython

from millstream.store.journal_batch cimport JournalBatch
from millstream.store.record cimport RecordBuffer
from millstream.store.segment cimport Segment

@cython.final
cdef class Work:
    cdef public list unsynced
    cdef public list overwrites
    cdef public list unsummarized
    cdef public list doomed
    cdef public bint folder_changed
    cdef public list jobs

    cpdef bint is_nothing(self) noexcept
    cpdef bint needs_sync(self) noexcept

@cython.final
cdef class Commit:
    cdef object __weakref__
    cdef object _fs
    cdef object _folder
    cdef Segment _newest
    cdef readonly unsigned long long last_seq
    cdef readonly Work work
    cdef public bint running
    cdef public bint only_appends
    cdef public bint stores
    cdef public bint sync
    cdef public object before
    cdef public bytes journal_key
    cdef readonly bint synced
    cdef readonly bint journaled
    cdef tuple _plain
    cdef readonly object summarized
    cdef readonly object removed
    cdef readonly object untidy
    cdef readonly bint folder_changed
    cdef readonly list parts

    @cython.locals(segment=Segment, buffer=RecordBuffer)
    cpdef tuple begin_plain(self)
    @cython.locals(segment=Segment, buffer=RecordBuffer)
    cpdef plain_ended(self, int failed_write, int failed_sync)
    @cython.locals(buffer=RecordBuffer)
    cpdef Py_ssize_t size(self) except -1
    @cython.locals(
        work=Work, segment=Segment, buffer=RecordBuffer, base=Py_ssize_t, size=Py_ssize_t, header=bytes
    )
    cpdef bint begin_journaled(self, JournalBatch batch, object device) except -1
    @cython.locals(segment=Segment, buffer=RecordBuffer)
    cpdef journaled_ended(self)
    @cython.locals(segment=Segment, buffer=RecordBuffer)
    cpdef give_back(self)
