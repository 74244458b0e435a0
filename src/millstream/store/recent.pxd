cimport cython

from millstream.store.record cimport RecordBuffer
from millstream.store.segment cimport Segment

@cython.final
cdef class Recent:
    cdef readonly Segment segment
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef RecordBuffer _buffer
    cdef bytes _data

    cpdef bytes data(self)
