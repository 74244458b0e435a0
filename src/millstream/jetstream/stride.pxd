cdef Py_ssize_t _MOST
cdef long long _SHORT_NS
cdef long long _LONG_NS

cdef class Stride:
    cdef readonly Py_ssize_t messages

    cpdef took(self, Py_ssize_t sent, long long duration_ns)
