cimport cython

from millstream.base.numbers cimport Numbers
from millstream.store.commit cimport Commit
from millstream.store.index cimport SubjectIndex, SubjectNode
from millstream.store.log_reader cimport LogReader
from millstream.store.log_state cimport LogState
from millstream.store.log_writer cimport LogAppender
from millstream.store.next_commit cimport NextCommit
from millstream.store.record cimport Record
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain

cdef Py_ssize_t _MOST_GATHERED

@cython.final
cdef class LogRemoval:
    cdef public list gone
    cdef public object free
    cdef bint _drops_many
    cdef bint _dropped
    cdef LogState _state
    cdef SegmentChain _chain
    cdef SubjectIndex _index
    cdef NextCommit _gathered
    cdef LogReader _reader
    cdef LogAppender _writer

    @cython.locals(segment=Segment)
    cpdef retire_written(self, Commit commit)
    @cython.locals(segment=Segment, ordinal=Py_ssize_t, is_first=bint, after="unsigned long long", found=Record)
    cpdef bint remove(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, start=Py_ssize_t, before=Py_ssize_t, reached="unsigned long long")
    cpdef Py_ssize_t remove_below(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment, before=Py_ssize_t)
    cdef Py_ssize_t _remove_all(self) except -1
    @cython.locals(
        segment=Segment, before=Py_ssize_t, wanted=bytes, lowest="unsigned long long", highest="unsigned long long",
        start=Py_ssize_t,
    )
    cpdef Py_ssize_t remove_matching(self, bytes pattern, unsigned long long below) except -1
    @cython.locals(before=Py_ssize_t)
    cpdef Py_ssize_t remove_flagged(
        self, Segment segment, Py_ssize_t start, Py_ssize_t end, bytes wanted
    ) except -1
    @cython.locals(ordinal=Py_ssize_t)
    cdef _remove_flagged(self, Segment segment, Py_ssize_t start, Py_ssize_t end, bytes wanted)
    @cython.locals(node=SubjectNode)
    cdef _remove_known(self, bytes subject, unsigned long long below)
    @cython.locals(segment=Segment, ordinal=Py_ssize_t, offset=Py_ssize_t, record=Record)
    cpdef bint erase(self, unsigned long long seq) except -1
    cdef _write_many(self)
    cpdef overwrite(self, Segment segment, Py_ssize_t offset, bytes data)
    cpdef forget(self, Segment segment, Py_ssize_t ordinal)
    @cython.locals(
        ordinal=Py_ssize_t, below="unsigned long long", counts=Numbers, live=Py_ssize_t, live_bytes=Py_ssize_t,
        number=Py_ssize_t,
    )
    cdef _forget_range(self, Segment segment, Py_ssize_t start, Py_ssize_t end, bytes wanted)
    cpdef free_subjects(self)
    @cython.locals(node=SubjectNode, subject=bytes, left=Py_ssize_t)
    cpdef bint keep_of_newest(self, unsigned long long most) except -1
    cdef _discount(
        self, Segment segment, Py_ssize_t ordinal, unsigned long long seq, Py_ssize_t size, bint has_headers,
        bytes subject,
    )
    cdef unsigned long long _following(self, Segment segment, unsigned long long seq) except 0
    @cython.locals(found="unsigned long long")
    cpdef advance_first(self, unsigned long long seq)
    cpdef retire(self, Segment segment)
    cpdef hold(self, Segment segment)
    cpdef release(self, Segment segment)
    cpdef list needed_removals(self, Segment segment)
    cdef _drop(self, Segment segment)
    @cython.locals(other=Segment)
    cdef _retire_empty(self)
    cdef _look_again(self)
    @cython.locals(other=Segment)
    cdef bint _lies_elsewhere(self, unsigned long long seq, Segment segment) except -1
