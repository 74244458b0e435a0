cimport cython

from millstream.base.buffer cimport GrowingBuffer, digits_of
from millstream.protocol.parser cimport Frame

cdef Py_ssize_t _MAX_NUMBER
cdef bytes _CRLF
cdef unsigned char _BLANK
cdef unsigned char _H
cdef bytes _MSG
cdef bytes _LMSG
cdef bytes _HMSG
cdef unsigned char _AT
cdef bytes _REPLY_AND_QUEUES
cdef bytes _QUEUES_ONLY

@cython.final
cdef class OutBuffer(GrowingBuffer):
    cpdef append_message(self, bytes prefix, Frame frame, bint keep_headers)
    @cython.locals(room=Py_ssize_t, queue=bytes, headers=bint, dropped=Py_ssize_t)
    cpdef append_leaf_message(self, bytes subject, bytes shown, list queues, Frame frame, bint keep_headers)
    @cython.locals(body_size=Py_ssize_t)
    cpdef Py_ssize_t append_answer(
        self, bytes sid, bytes source, Py_ssize_t at, Py_ssize_t size, bytes start,
        unsigned long long number, Py_ssize_t end_size,
    ) except -1
    cdef inline void _put_reply(self, Frame frame) noexcept
