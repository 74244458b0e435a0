cimport cython

from millstream.store.log_commits cimport LogCommits
from millstream.store.log_reader cimport LogReader
from millstream.store.log_removal cimport LogRemoval
from millstream.store.log_state cimport LogState
from millstream.store.log_writer cimport LogAppender
from millstream.store.next_commit cimport NextCommit
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain

@cython.final
cdef class LogUpkeep:
    cdef public Py_ssize_t block_size
    cdef readonly Py_ssize_t late
    cdef LogState _state
    cdef SegmentChain _chain
    cdef NextCommit _gathered
    cdef LogReader _reader
    cdef LogAppender _writer
    cdef LogCommits _commits
    cdef LogRemoval _removal
    cdef list _leftovers

    @cython.locals(active=Segment, segment=Segment)
    cpdef shed(self)
    @cython.locals(segment=Segment, found=Py_ssize_t)
    cpdef Py_ssize_t age_removals(self) except -1
    @cython.locals(segment=Segment, gathered=NextCommit)
    cpdef Segment candidate(self)
    @cython.locals(gone=list, seq="unsigned long long", ordinal=Py_ssize_t)
    cdef _exchange_tables(self, Segment segment, Segment fresh, bytes removed)

cdef bint _is_mostly_dead(Segment segment) except -1
