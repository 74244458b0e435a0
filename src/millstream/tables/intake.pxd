cimport cython

from millstream.base.buffer cimport equal_parts
from millstream.tables.columns cimport Columns
from millstream.tables.memory cimport find_byte
from millstream.link.parser cimport LinkParser
from millstream.protocol.ack_subject cimport AckNumbers
from millstream.protocol.digits cimport digits_end, read_number
from millstream.protocol.header_lines cimport lines_end

cdef int _NEED_MORE
cdef int _OTHER
cdef int _FOREIGN
cdef int _STATUS
cdef int _FULL
cdef int _FINISHED
cdef int _LOST
cdef int _ADDED
cdef int _OP_NEED_MORE
cdef int _OP_MSG
cdef Py_ssize_t _MAX_ROWS
cdef Py_ssize_t _MAX_BYTES
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _SPACE
cdef unsigned char _COLON
cdef unsigned char _DOT
cdef unsigned char _DOLLAR
cdef int _FIRST_LINE
cdef int _DIRECT_LINES
cdef int _SIZE_LINES
cdef int _GAPS_KEPT

@cython.final
cdef class Intake:
    cdef readonly Columns columns
    cdef readonly long long received
    cdef readonly long long last
    cdef readonly long long pending
    cdef readonly int op
    cdef readonly list gaps
    cdef long long _high
    cdef long long _delivered
    cdef bytes _reply_prefix
    cdef bint _direct
    cdef bint _sizes
    cdef tuple _patterns
    cdef AckNumbers _numbers

    cpdef object flush(self, object schema)
    @cython.locals(columns=Columns, op=int, code=int)
    cpdef int take(self, LinkParser parser, long long sid) except -1
    cpdef restart(self)
    @cython.locals(joined=bytes, end=Py_ssize_t)
    cpdef int add(self, bytes subject, long long seq, long long time_ns, bytes headers, bytes payload) except -1
    @cython.locals(
        p="const unsigned char*", end=Py_ssize_t, numbers=AckNumbers, size=Py_ssize_t, header_end=Py_ssize_t,
        start=Py_ssize_t,
    )
    cdef int _take_delivered(self, LinkParser parser) except -1
    @cython.locals(
        p="const unsigned char*", start=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t,
    )
    cdef Py_ssize_t _numbers_start(self, LinkParser parser) except -1
    cdef object _strange_reply(self, LinkParser parser)
    @cython.locals(
        p="const unsigned char*", begin=Py_ssize_t, end=Py_ssize_t, first=Py_ssize_t, at=Py_ssize_t,
        subject=Py_ssize_t, subject_size=Py_ssize_t, seq="long long", time_ns="long long",
    )
    cdef int _take_direct(self, LinkParser parser) except -1
    @cython.locals(i=Py_ssize_t)
    cdef Py_ssize_t _last_lines(
        self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end, int lines
    ) except -1
    @cython.locals(i=Py_ssize_t)
    cdef long long _number_after_colon(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept
    @cython.locals(
        i=Py_ssize_t, year="long long", month="long long", day="long long", days="long long",
        minutes="long long", seconds="long long", fraction="long long", scale="long long", stop=Py_ssize_t,
    )
    cdef long long _time_after_colon(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) except *
    cdef int _row(
        self, const unsigned char* p, Py_ssize_t subject, Py_ssize_t subject_size, long long seq,
        long long time_ns, Py_ssize_t header, Py_ssize_t header_end, Py_ssize_t payload,
        Py_ssize_t payload_size, Py_ssize_t size,
    ) except -1
    cdef int _note_gap(self, long long seq) except -1
    cdef bint _is_wanted(self, bytes subject) except *
