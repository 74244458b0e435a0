cimport cython

from millrace.base.buffer cimport GrowingBuffer
from millrace.protocol.parser cimport Frame

cdef Py_ssize_t _MAX_NUMBER
cdef bytes _CRLF
cdef bytes _BLANK
cdef bytes _H

@cython.final
cdef class OutBuffer(GrowingBuffer):
    cpdef append_message(self, bytes prefix, Frame frame, bint keep_headers)
    cdef inline void _put_reply(self, Frame frame) noexcept
