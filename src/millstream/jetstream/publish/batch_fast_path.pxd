cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.protocol.digits cimport digits_end, read_number
from millstream.protocol.parser cimport Frame

cdef Py_ssize_t _MAX_HEADER_BYTES
cdef Py_ssize_t _MAX_ID_BYTES
cdef Py_ssize_t _MAX_DIGITS
cdef bytes _START
cdef bytes _OURS
cdef bytes _ID
cdef bytes _SEQUENCE
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _BLANK

@cython.final
cdef class StagedMessage:
    cdef public bytes subject
    cdef public bytes source
    cdef public Py_ssize_t header_size

@cython.final
cdef class OpenBatch:
    cdef public Py_ssize_t most
    cdef public list messages
    cdef public Py_ssize_t size
    cdef public object patience

@cython.final
cdef class BatchStaging:
    cdef public dict open
    cdef public Py_ssize_t held
    cdef public Py_ssize_t granted
    cdef object _now_ns
    cdef Py_ssize_t _id_start
    cdef Py_ssize_t _id_size
    cdef Py_ssize_t _number

    @cython.locals(batch=OpenBatch, source=bytes, size=Py_ssize_t)
    cpdef bint take(self, bytes subject, Frame frame) except *
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, closed=bint)
    cdef bint _only_names_batch(self, Frame frame) except *
    @cython.locals(p="const unsigned char*")
    cdef Py_ssize_t _read_id(self, Frame frame, Py_ssize_t at, Py_ssize_t end) except *
    @cython.locals(p="const unsigned char*", stop=Py_ssize_t)
    cdef Py_ssize_t _read_number(self, Frame frame, Py_ssize_t at, Py_ssize_t end) except *
