cimport cython

from millstream.protocol.digits cimport read_number

cdef int _NEED_MORE
cdef int _MSG
cdef Py_ssize_t _SMALLEST
cdef Py_ssize_t _KEEP
cdef int _MAX_DIGITS
cdef int _MAX_SID_DIGITS
cdef Py_ssize_t _SHOWN
cdef unsigned char _LF
cdef unsigned char _CR
cdef unsigned char _SPACE
cdef unsigned char _TAB
cdef unsigned char _LOWER
cdef Py_ssize_t _STATUS

@cython.final
cdef class LinkParser:
    cdef public Py_ssize_t max_line
    cdef public Py_ssize_t max_body
    cdef readonly bytearray buffer
    cdef readonly Py_ssize_t subject_start
    cdef readonly Py_ssize_t subject_size
    cdef readonly long long sid
    cdef readonly Py_ssize_t reply_start
    cdef readonly Py_ssize_t reply_size
    cdef readonly Py_ssize_t header_start
    cdef readonly Py_ssize_t header_size
    cdef readonly Py_ssize_t payload_start
    cdef readonly Py_ssize_t payload_size
    cdef readonly Py_ssize_t line_start
    cdef readonly Py_ssize_t line_size
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end
    cdef Py_ssize_t _scanned
    cdef Py_ssize_t _wanted

    @cython.locals(count=Py_ssize_t, target="unsigned char*", source="const unsigned char*")
    cpdef feed(self, bytes data)
    cpdef object room(self, Py_ssize_t count=*)
    cpdef filled(self, Py_ssize_t count)
    cpdef void clear(self) noexcept
    cpdef Py_ssize_t rest(self) noexcept
    @cython.locals(held=Py_ssize_t, target="unsigned char*")
    cdef void _make_room(self, Py_ssize_t count) except *
    @cython.locals(store=bytearray, target="unsigned char*", source="const unsigned char*")
    cdef void _replace(self, Py_ssize_t capacity, Py_ssize_t held) except *

    @cython.locals(p="const unsigned char*", i=Py_ssize_t, n=Py_ssize_t, end=Py_ssize_t, c="unsigned char")
    cpdef int next(self) except -1
    @cython.locals(p="unsigned char*", found="unsigned char*")
    cdef Py_ssize_t _find_line_end(self, Py_ssize_t start) noexcept
    @cython.locals(
        p="const unsigned char*", line_end=Py_ssize_t, count=int,
        a=Py_ssize_t, a_end=Py_ssize_t, b=Py_ssize_t, b_end=Py_ssize_t,
        c=Py_ssize_t, c_end=Py_ssize_t, d=Py_ssize_t, d_end=Py_ssize_t,
        first=Py_ssize_t, first_end=Py_ssize_t,
        size=Py_ssize_t, header_size=Py_ssize_t, sid="long long", start=Py_ssize_t,
    )
    cdef int _message(self, Py_ssize_t i, Py_ssize_t end, bint with_headers) except -1
    cdef inline long long _number(self, Py_ssize_t start, Py_ssize_t end, int most) noexcept
    cdef int _control(self, Py_ssize_t i, Py_ssize_t end) except -1
    cdef object _violation(self, str what, Py_ssize_t end)

    cpdef bytes subject(self)
    cpdef bytes reply(self)
    cpdef bytes headers(self)
    cpdef bytes payload(self)
    cpdef bytes line(self)
    @cython.locals(start=Py_ssize_t)
    cpdef int status(self) except -1
    @cython.locals(p="const char*", data=bytes)
    cdef bytes _cut(self, Py_ssize_t start, Py_ssize_t count)
