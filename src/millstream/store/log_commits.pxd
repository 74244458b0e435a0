cimport cython

from millstream.store.commit cimport Commit, Work
from millstream.store.log_state cimport LogState
from millstream.store.log_writer cimport LogAppender
from millstream.store.next_commit cimport NextCommit
from millstream.store.record cimport RecordBuffer
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain

@cython.final
cdef class LogCommits:
    cdef public bint marks_ends
    cdef public bint keeps_recent
    cdef public object recent
    cdef public object closer
    cdef readonly Commit running
    cdef LogState _state
    cdef SegmentChain _chain
    cdef NextCommit _gathered
    cdef LogAppender _writer

    @cython.locals(active=Segment)
    cpdef bint has_uncommitted(self) except *
    @cython.locals(
        gathered=NextCommit, work=Work, removes=bint, changed=list, active=Segment, pending=RecordBuffer,
        commit=Commit,
    )
    cpdef Commit begin(self, bint flush)
    @cython.locals(work=Work, segment=Segment, buffer=RecordBuffer)
    cpdef end(self, Commit commit)
    cpdef fail(self, Commit commit)
    cdef _finish(self, Commit commit, Work left)
    cpdef was_synced(self)
    @cython.locals(segment=Segment)
    cpdef close(self)
