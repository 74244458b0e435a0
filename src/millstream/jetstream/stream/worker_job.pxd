cdef class WorkerJob:
    cdef public object error
    cdef public bint settled
    cdef object _work
    cdef object _untaken
    cdef object _unended

    cpdef run(self)
    cpdef bint take(self) except *
    cpdef give_back(self)
    cpdef end(self, object last_step)
    cpdef set_ended(self)
    cpdef finish(self)
