cimport cython

from millstream.store.log_removal cimport LogRemoval
from millstream.store.segment cimport Segment

cdef class Log(LogRemoval):
    cdef public Py_ssize_t block_size
    cdef readonly Py_ssize_t late
    cdef list _leftovers

    cpdef adopt(self, Segment segment)
    @cython.locals(segment=Segment, target=Segment, ordinal=Py_ssize_t)
    cpdef settle(self)
    cpdef came_back(self, Segment segment, Segment found)
    cpdef was_erased(self, unsigned long long seq)
    cpdef report_damage(self, Segment segment, Py_ssize_t ordinal)
    @cython.locals(ordinal=Py_ssize_t, seq="unsigned long long", each=Segment)
    cdef _relearn(self, Segment segment, Segment found)
    @cython.locals(segment=Segment, ordinal=Py_ssize_t)
    cpdef count_again(self)
    @cython.locals(active=Segment, segment=Segment)
    cpdef shed(self)
    @cython.locals(segment=Segment, found=Py_ssize_t)
    cpdef Py_ssize_t age_removals(self) except -1
    @cython.locals(segment=Segment)
    cpdef Segment compaction_candidate(self)
    @cython.locals(gone=list, seq="unsigned long long", ordinal=Py_ssize_t)
    cdef _exchange_tables(self, Segment segment, Segment fresh, bytes removed)
