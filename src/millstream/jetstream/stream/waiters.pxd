cimport cython

from millstream.store.log cimport Log

@cython.final
cdef class Waiters:
    cdef Log _log
    cdef Py_ssize_t _begun
    cdef Py_ssize_t _durable
    cdef object _waiting  # a deque

    cpdef on_durable(self, object callback)
    cpdef on_outcome(self, object callback)
    cdef Py_ssize_t _next(self) except -1
    cpdef commit_begins(self)
    cpdef commit_durable(self)
    @cython.locals(durable=Py_ssize_t)
    cpdef bint tell_durable(self, Py_ssize_t most=*) except -1
    @cython.locals(failed=list)
    cpdef tell_failed(self, object error)
    cpdef drop(self)
