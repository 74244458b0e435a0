cimport cython

from millrace.protocol.parser cimport Frame

cdef Py_ssize_t _INITIAL
cdef Py_ssize_t _KEEP
cdef Py_ssize_t _MAX_NUMBER
cdef bytes _CRLF
cdef bytes _BLANK
cdef bytes _H

@cython.final
cdef class OutBuffer:
    cdef bytearray _store
    cdef Py_ssize_t _capacity
    cdef readonly Py_ssize_t size

    @cython.locals(count=Py_ssize_t)
    cpdef append(self, bytes data)
    cpdef append_message(self, bytes prefix, Frame frame, bint keep_headers)
    @cython.locals(store="const char*")
    cpdef bytes take(self)
    cdef inline void _put_reply(self, Frame frame) noexcept
    cdef inline int _reserve(self, Py_ssize_t extra) except -1
    @cython.locals(capacity=Py_ssize_t)
    cdef int _grow(self, Py_ssize_t extra) except -1
    @cython.locals(target="char*", origin="const char*")
    cdef inline void _put(self, bytes source, Py_ssize_t start, Py_ssize_t count) noexcept
    @cython.locals(target="char*", digits=Py_ssize_t, rest="unsigned long long", position=Py_ssize_t)
    cdef inline void _put_number(self, unsigned long long value) noexcept
