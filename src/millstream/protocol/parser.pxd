cimport cython

from millstream.protocol.digits cimport read_number

cdef int _NEED_MORE
cdef int _PUB
cdef int _UNCLEAN_PUB
cdef int _UNKNOWN
cdef int _BAD_ARGUMENTS
cdef int _LINE_TOO_LONG
cdef int _PAYLOAD_TOO_BIG
cdef int _CONNECT_WANTED
cdef int _BAD_BODY
cdef int _CONNECT
cdef int _SUB
cdef int _UNSUB
cdef int _PING
cdef int _PONG
cdef int _INFO
cdef int _OK
cdef int _ERR
cdef int _LEAF_SUB
cdef int _LEAF_UNSUB
cdef unsigned char _TAB
cdef unsigned char _LF
cdef unsigned char _CR
cdef unsigned char _SPACE
cdef unsigned char _PLUS
cdef unsigned char _BAR
cdef unsigned char _LOWER
cdef object _WORD
cdef object _CONTROL
cdef int _MAX_DIGITS

@cython.final
cdef class Frame:
    cdef public bytes buf
    cdef public Py_ssize_t reply_start
    cdef public Py_ssize_t reply_size
    cdef public Py_ssize_t header_size
    cdef public Py_ssize_t body_start
    cdef public Py_ssize_t body_size

    cpdef bytes reply(self)
    cpdef bytes headers(self)
    cpdef bytes payload(self)

@cython.locals(frame=Frame)
cpdef Frame make_frame(bytes reply, bytes headers, bytes payload)

@cython.final
cdef class Parser:
    cdef public Py_ssize_t max_control_line
    cdef public Py_ssize_t max_payload
    cdef public bint headers_allowed
    cdef public bint connect_first
    cdef public bint leaf
    cdef readonly list queues
    cdef readonly Frame frame
    cdef readonly Py_ssize_t subject_start
    cdef readonly Py_ssize_t subject_size
    cdef readonly Py_ssize_t argument_start
    cdef readonly Py_ssize_t argument_end
    cdef bytes _buf
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end
    cdef bytes _chunk
    cdef Py_ssize_t _taken
    cdef object _frame
    cdef Py_ssize_t _missing

    cpdef feed(self, bytes data)
    @cython.locals(found=int)
    cpdef int next(self) except? -1
    @cython.locals(data=bytes, taken=Py_ssize_t, end=Py_ssize_t)
    cdef bint _advance(self) except -1
    @cython.locals(have=Py_ssize_t, count=Py_ssize_t)
    cdef bint _fill(self, bytes data, Py_ssize_t taken) except -1
    cdef bint _is_filled(self, Py_ssize_t have, Py_ssize_t count) except -1
    cpdef Py_ssize_t wants(self) noexcept
    @cython.locals(have=Py_ssize_t)
    cpdef object room(self)
    cpdef filled(self, Py_ssize_t count)
    cdef void _use_up(self, Py_ssize_t taken) noexcept
    @cython.locals(p="const unsigned char*", n=Py_ssize_t, c="unsigned char")
    cdef int _parse(self, Py_ssize_t i) except? -1
    cpdef bytes subject(self)
    @cython.locals(p="const unsigned char*", s="const unsigned char*", i=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t)
    cpdef bint subject_is(self, bytes subject)
    cpdef bytes argument(self)
    cpdef bytes line(self)
    cpdef bint has_rest(self)
    cpdef bint body_is_cut(self)

    @cython.locals(
        p="const unsigned char*", n=Py_ssize_t, line_start=Py_ssize_t, count=int, frame=Frame,
        plain=bint, found=int, tokens=list,
        a=Py_ssize_t, a_end=Py_ssize_t, b=Py_ssize_t, b_end=Py_ssize_t,
        c=Py_ssize_t, c_end=Py_ssize_t, d=Py_ssize_t, d_end=Py_ssize_t,
        size=Py_ssize_t, header_size=Py_ssize_t, end=Py_ssize_t,
    )
    cdef int _publish(self, Py_ssize_t i, bint with_headers) except? -1
    @cython.locals(tokens=list, first=Py_ssize_t, sign="unsigned char")
    cdef bint _name_queues(self, Py_ssize_t start, Py_ssize_t end, int numbers) except -1
    @cython.final
    cdef inline Py_ssize_t _number(self, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef Py_ssize_t _end_of_arguments(self, Py_ssize_t start, Py_ssize_t line_end) except? -1
    cdef int _keep_word(self, Py_ssize_t word_end) except? -1
    cdef int _cut_line(self, Py_ssize_t line_start) except? -1
    @cython.locals(start=Py_ssize_t, have=Py_ssize_t)
    cdef int _cut_body(self, Py_ssize_t missing) except? -1
    @cython.locals(first=int, second=int, found=int)
    cdef int _control(self, Py_ssize_t i) except? -1
    @cython.locals(found=int)
    cdef int _leaf_control(self, Py_ssize_t i, int first) except? -1
    @cython.locals(index=Py_ssize_t, seen=int, wanted=int)
    cdef int _keyword(self, Py_ssize_t i, bytes word) except? -1
    @cython.locals(p="const char*", at="const char*")
    cdef Py_ssize_t _find(self, int byte, Py_ssize_t start, Py_ssize_t end) except? -2
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, word_end=Py_ssize_t, found=int, ignored=bint)
    cdef int _line(self, Py_ssize_t i, bytes word, int op) except? -1

cdef list _tokens(bytes buf, Py_ssize_t start, Py_ssize_t end)
