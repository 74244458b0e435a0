cimport cython

from millstream.protocol.parser cimport Frame
from millstream.protocol.replies cimport Replies
from millstream.store.log cimport Log

cdef int _ROOM
cdef int _FULL
cdef int _UNKNOWN
cdef object _NUMBER

@cython.final
cdef class Refusals:
    cdef readonly bint limited
    cdef object _send
    cdef str _stream
    cdef Py_ssize_t _messages
    cdef Py_ssize_t _bytes
    cdef Py_ssize_t _of_subject
    cdef bint _replaces
    cdef bint _in_memory
    cdef dict _texts
    cdef Replies _replies

    @cython.locals(size=Py_ssize_t)
    cpdef int check(self, Log log, bytes subject, Frame frame, bint answers) except -1
    cdef int _refuse_full(self, str reason, Frame frame, bint answers) except -1
    cpdef refuse_expectation(self, Frame frame, unsigned long long last)
    cdef tuple _prepare(self, str reason, object response)
    cdef _answer(self, tuple texts, Frame frame, unsigned long long number)
