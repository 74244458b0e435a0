cimport cython

from millstream.store.commit cimport Commit, Work
from millstream.store.segment cimport Segment

@cython.final
cdef class NextCommit:
    cdef public list removing
    cdef public list erasing
    cdef public unsigned long long floor
    cdef public list doomed
    cdef readonly bint doubt
    cdef public bint renamed
    cdef public bint tidying
    cdef readonly Work work
    cdef Work _spare

    cpdef bint is_nothing(self) except -1
    cpdef raise_floor(self, unsigned long long seq)
    cpdef doom(self, Segment segment)
    cpdef add_overwrite(self, Segment segment, Py_ssize_t offset, bytes data)
    cpdef sync_again(self, Segment segment)
    @cython.locals(segment=Segment)
    cpdef was_synced(self)
    @cython.locals(work=Work)
    cpdef Work take(self, list changed)
    @cython.locals(since=Work)
    cpdef put_back(self, Commit commit, Work left)
