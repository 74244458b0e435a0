cimport cython

from millstream.store.index cimport SubjectIndex
from millstream.store.log_state cimport LogState
from millstream.store.next_commit cimport NextCommit
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain

cdef int _REMOVED
cdef int _FLOOR
cdef int _SKIP
cdef int _MESSAGE
cdef int _ERASE
cdef unsigned long long _FARTHEST_JUMP
cdef int _COMMIT_START
cdef Py_ssize_t _LARGE_MESSAGE
cdef Py_ssize_t _LONGER
cdef Py_ssize_t _MOST_MESSAGES

@cython.final
cdef class LogAppender:
    cdef readonly Py_ssize_t segment_size
    cdef LogState _state
    cdef SegmentChain _chain
    cdef SubjectIndex _index
    cdef NextCommit _gathered

    @cython.locals(state=LogState, segment=Segment, seq="unsigned long long", total=Py_ssize_t)
    cpdef unsigned long long append(
        self, bytes subject, bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
        long long timestamp, int marks,
    ) except 0
    cdef bint _is_full(self, Segment segment) noexcept
    @cython.locals(state=LogState, segment=Segment)
    cpdef skip_to(self, unsigned long long seq, long long timestamp)
    @cython.locals(state=LogState)
    cpdef write_used(self, Segment segment)
    @cython.locals(state=LogState)
    cpdef write_end(self, Segment segment)
    @cython.locals(segment=Segment)
    cdef Segment _writable(self)
    cpdef Segment roll(self)
    cdef unsigned long long _next_number(self)
    @cython.locals(segment=Segment)
    cpdef Segment begin_segment(self, unsigned long long number)
    @cython.locals(segment=Segment)
    cpdef seal_active(self)
    @cython.locals(gathered=NextCommit, state=LogState, segment=Segment)
    cpdef write_removals(self)
    @cython.locals(segment=Segment, body=bytes, total=Py_ssize_t)
    cdef _write_list(self, int kind, list seqs)
