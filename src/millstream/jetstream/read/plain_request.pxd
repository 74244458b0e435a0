cimport cython

from millstream.protocol.digits cimport digits_end, read_number

cdef bytes _SEQ
cdef bytes _LAST
cdef bytes _NEXT
cdef bytes _TIME
cdef bytes _NO_HEADERS
cdef bytes _TRUE
cdef bytes _FALSE
cdef unsigned char _QUOTE
cdef unsigned char _BACKSLASH
cdef unsigned char _SPACE
cdef unsigned char _LAST_PRINTABLE
cdef unsigned char _ZERO
cdef unsigned char _COLON
cdef unsigned char _COMMA
cdef unsigned char _OPEN
cdef unsigned char _CLOSE
cdef unsigned char _DASH
cdef unsigned char _POINT
cdef unsigned char _UPPER_T
cdef unsigned char _UPPER_Z
cdef Py_ssize_t _LONGEST_FRACTION
cdef Py_ssize_t _SHORTEST_TIME
cdef int _FIRST_YEAR
cdef int _LAST_YEAR
cdef long long _SECOND
cdef long long _DAYS_OF_400_YEARS
cdef long long _DAYS_TO_1970
cdef int _HAS_NO_HEADERS
cdef int _HAS_SEQ
cdef int _HAS_LAST
cdef int _HAS_NEXT
cdef int _HAS_TIME

@cython.final
cdef class PlainGet:
    cdef readonly int has
    cdef readonly unsigned long long seq
    cdef readonly bytes subject
    cdef readonly long long start_time
    cdef readonly bint bare
    cdef Py_ssize_t _at

    cpdef bint read(self, bytes buf, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(name=bytes, other=int, subject=bytes, text=bytes)
    cdef bint _read_pair(self, bytes buf, Py_ssize_t end) except -1
    cdef bint _is_new(self, int field) noexcept
    @cython.locals(p="const unsigned char*")
    cdef void _skip_space(self, bytes buf, Py_ssize_t end) noexcept
    cdef bint _ends(self, bytes buf, Py_ssize_t end) noexcept
    @cython.locals(p="const unsigned char*")
    cdef bint _passes(self, bytes buf, Py_ssize_t end, unsigned char wanted) noexcept
    @cython.locals(p="const unsigned char*", start=Py_ssize_t, at=Py_ssize_t, byte="unsigned char")
    cdef bytes _text(self, bytes buf, Py_ssize_t end)
    @cython.locals(p="const unsigned char*", start=Py_ssize_t, at=Py_ssize_t, value="long long")
    cdef bint _number(self, bytes buf, Py_ssize_t end) noexcept
    @cython.locals(word=bytes)
    cdef bint _flag(self, bytes buf, Py_ssize_t end) except -1
    @cython.locals(
        p="const unsigned char*", size=Py_ssize_t, year="long long", month="long long", day="long long",
        hour="long long", minute="long long", second="long long", fraction="long long", count=Py_ssize_t,
        seconds="long long",
    )
    cdef bint _time(self, bytes text) except -1

cdef long long _days_of(long long year, long long month) noexcept
@cython.locals(moved="long long", era="long long", of_era="long long", of_year="long long")
cdef long long _days_since_1970(long long year, long long month, long long day) noexcept
