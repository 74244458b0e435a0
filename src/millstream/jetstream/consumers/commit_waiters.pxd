cimport cython

from millstream.store.log cimport Log

cdef Py_ssize_t _FEW

@cython.final
cdef class AwaitingCommit:
    cdef dict _patterns
    cdef dict _by_subject
    cdef dict _other
    cdef unsigned long long _told

    cpdef add(self, object consumer)
    cpdef discard(self, object consumer)
    @cython.locals(first="unsigned long long", last="unsigned long long", concerned=dict)
    cpdef list committed(self, Log log)
    cpdef deliver(self, Log log)

cdef bint _are_literal(tuple patterns) except -1
