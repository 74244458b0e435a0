from millstream.protocol.parser cimport Frame

cdef class Inlet:
    cpdef take_at(self, bytes buf, Py_ssize_t start, Py_ssize_t size, Frame frame)
