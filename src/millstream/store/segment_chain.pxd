cimport cython

from millstream.base.numbers cimport Numbers
from millstream.store.segment cimport Segment

@cython.final
cdef class SegmentChain:
    cdef readonly object fs
    cdef readonly str folder
    cdef readonly list segments
    cdef public Segment active
    cdef readonly object tables
    cdef public object job
    cdef public bint closed
    cdef Numbers _bases
    cdef bint _outdated
    cdef Numbers _latest

    cpdef append(self, Segment segment)
    cpdef drop(self, Segment segment)
    cpdef times_changed(self)
    cpdef move(self, str folder)
    cpdef bint cancel_job(self, Segment segment) except -1
    @cython.locals(position=Py_ssize_t)
    cpdef Py_ssize_t position_of(self, unsigned long long seq) except -1
    @cython.locals(segment=Segment)
    cpdef Py_ssize_t count_up_to(self, unsigned long long seq) except -1
    @cython.locals(position=Py_ssize_t)
    cpdef Segment segment_of(self, unsigned long long seq)
    @cython.locals(highest="long long", segment=Segment)
    cpdef Py_ssize_t position_at_time(self, long long timestamp) except -1
    @cython.locals(segment=Segment, at=Py_ssize_t)
    cpdef list changed(self)
    @cython.locals(segment=Segment, total=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t unwritten(self) except -1
    @cython.locals(segment=Segment, total=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t gathered(self) except -1
