cimport cython

cdef double _LONG_S

@cython.final
cdef class Watchdog:
    cdef readonly long long steps
    cdef readonly double busy_s
    cdef readonly list counts
    cdef readonly dict long_steps
    cdef readonly dict most_items
    cdef object _now
    cdef double _part_s
    cdef str _part
    cdef object _complaints

    cpdef double began(self) except? -1
    @cython.locals(took=double)
    cpdef ended(self, double began, str kind, object what=*)
    cpdef double since(self, double began) except? -1
    cpdef part_ended(self, double took, str name)
