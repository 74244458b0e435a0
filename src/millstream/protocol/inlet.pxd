from millstream.protocol.outlet cimport Outlet
from millstream.protocol.parser cimport Frame

cdef class Inlet:
    cpdef take_at(self, bytes buf, Py_ssize_t start, Py_ssize_t size, Frame frame)

cdef class Responder:
    cpdef bint respond(self, bytes subject, Frame frame, Outlet outlet) except -1
