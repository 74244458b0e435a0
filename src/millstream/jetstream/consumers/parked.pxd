cimport cython

from millstream.base.paged_map cimport PagedMap

@cython.final
cdef class Parked:
    cdef PagedMap _marks
    cdef list _untold

    cdef add(self, unsigned long long sseq, long long mark)
    cdef restore(self, unsigned long long sseq, mark)
    cdef bint take(self, unsigned long long sseq) except -1
    cdef unsigned long long first(self) except? 0
    cdef bint holds(self, unsigned long long sseq) except -1
    cdef list containers(self)
    cdef list marks(self)
    cdef list known_rows(self)
    cdef tell(self, list rows, unsigned long long told)
