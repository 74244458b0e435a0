cimport cython

@cython.final
cdef class SyncPace:
    cdef object _served
    cdef object _now
    cdef long long _switches
    cdef long long _steps
    cdef long long _small
    cdef double _alone_from
    cdef long long _fast
    cdef double _paused_until
    cdef double _stall_pause_s
    cdef long long _good

    @cython.locals(switches="long long", steps="long long", now=double)
    cpdef bint allows(self, Py_ssize_t size) except *
    cpdef disturbed(self)
    cpdef ended(self, long long took_ns, bint on_loop)
    cdef _pause(self, long long took_ns)
