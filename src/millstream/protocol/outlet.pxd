from millstream.protocol.parser cimport Frame

cdef class Outlet:
    cpdef Py_ssize_t send(self, bytes subject, Frame frame) except -1
    cpdef bint has_interest(self) except? -1
    cpdef bint is_named(self) except? -1
    cpdef bint behind(self) except? -1
