cimport cython

from millstream.store.index cimport SubjectIndex
from millstream.store.log_reader cimport LogReader
from millstream.store.log_removal cimport LogRemoval
from millstream.store.log_state cimport LogState
from millstream.store.log_writer cimport LogAppender
from millstream.store.next_commit cimport NextCommit
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain

@cython.final
cdef class LogRepair:
    cdef object _losses
    cdef LogState _state
    cdef SegmentChain _chain
    cdef SubjectIndex _index
    cdef NextCommit _gathered
    cdef LogReader _reader
    cdef LogAppender _writer
    cdef LogRemoval _removal

    @cython.locals(state=LogState)
    cpdef adopt(self, Segment segment)
    @cython.locals(segments=list, segment=Segment, target=Segment, ordinal=Py_ssize_t)
    cpdef settle(self)
    @cython.locals(segment=Segment, holder=Segment)
    cpdef bint had(self, unsigned long long seq) except -1
    cpdef came_back(self, Segment segment, Segment found)
    cpdef was_erased(self, unsigned long long seq)
    cpdef report_damage(self, Segment segment, Py_ssize_t ordinal)
    @cython.locals(ordinal=Py_ssize_t, seq="unsigned long long", each=Segment)
    cdef _relearn(self, Segment segment, Segment found)
    @cython.locals(state=LogState, segment=Segment, ordinal=Py_ssize_t)
    cdef _count_again(self)
