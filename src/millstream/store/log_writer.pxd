cimport cython

from millstream.store.commit cimport Commit, Work
from millstream.store.index cimport SubjectNode
from millstream.store.log_reader cimport LogReading
from millstream.store.record cimport RecordBuffer
from millstream.store.segment cimport Segment

cdef int _REMOVED
cdef int _FLOOR
cdef int _SKIP
cdef int _MESSAGE
cdef int _ERASE
cdef unsigned long long _FARTHEST_JUMP
cdef Py_ssize_t _MOST_MESSAGES

cdef class LogWriting(LogReading):
    cdef public bint keeps_recent
    cdef public object recent
    cdef public object closer
    cdef Py_ssize_t _segment_size
    cdef Segment _active
    cdef bytes _last_subject
    cdef SubjectNode _last_node
    cdef Commit _commit
    cdef bint _closed
    cdef list _removing
    cdef list _erasing
    cdef unsigned long long _floor
    cdef list _doomed
    cdef bint _doubt
    cdef bint _renamed
    cdef bint _tidying
    cdef Work _work
    cdef Work _spare_work

    @cython.locals(segment=Segment, node=SubjectNode, seq="unsigned long long", total=Py_ssize_t)
    cpdef unsigned long long append(
        self, bytes subject, bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
        long long timestamp, int marks,
    ) except 0
    @cython.locals(segment=Segment)
    cpdef skip_to(self, unsigned long long seq, long long timestamp)
    @cython.locals(segment=Segment)
    cdef Segment _writable(self)
    cdef Segment _roll(self)
    cdef unsigned long long _next_number(self)
    @cython.locals(segment=Segment)
    cpdef Segment begin_segment(self, unsigned long long number)
    cdef _seal(self, Segment segment)
    cdef _log_removals(self)
    @cython.locals(segment=Segment, body=bytes, total=Py_ssize_t)
    cdef _log_list(self, int kind, list seqs)

    @cython.locals(active=Segment)
    cpdef bint has_uncommitted(self) except *
    @cython.locals(segment=Segment, total=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t unwritten(self) except -1
    @cython.locals(segment=Segment, total=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t gathered(self) except -1
    @cython.locals(removes=bint, changed=list, work=Work, pending=RecordBuffer)
    cpdef Commit begin_commit(self, bint flush=*)
    @cython.locals(segment=Segment, at=Py_ssize_t)
    cdef list _changed(self)
    @cython.locals(work=Work, segment=Segment, buffer=RecordBuffer)
    cpdef end_commit(self, Commit commit)
    cpdef fail_commit(self, Commit commit)
    @cython.locals(since=Work)
    cdef _finish(self, Commit commit, Work left)
