cimport cython

cdef double _SHORTEST_LOOK_S
cdef double _LONGEST_LOOK_S

@cython.final
cdef class SlowReceiverPoll:
    cdef double _waited_s

    @cython.locals(delay_s=double)
    cpdef double look_after_s(self) noexcept
    cpdef is_over(self)
