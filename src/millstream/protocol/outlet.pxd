cimport cython

from millstream.protocol.parser cimport Frame

cdef Py_ssize_t _MOST_UNUSED

cdef class Outlet:
    cpdef Py_ssize_t send(self, bytes subject, Frame frame) except -1
    cpdef Py_ssize_t send_parts(
        self, bytes subject, bytes reply, bytes block, list parts, long long size
    ) except -2
    cpdef bint has_interest(self) except? -1
    cpdef bint is_named(self) except? -1
    cpdef bint behind(self) except? -1

cpdef object long_part(bytes memory, Py_ssize_t start, Py_ssize_t size)
@cython.locals(taken=Py_ssize_t)
cpdef Py_ssize_t send_long(Outlet outlet, bytes subject, Frame frame, object payload) except -1
