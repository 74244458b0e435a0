cimport cython
from cpython.array cimport array

from millstream.arrow.columns cimport Lists, Numbers32, Numbers64, Strings, grow
from millstream.arrow.header_columns cimport HeaderColumns
from millstream.protocol.header_lines cimport lines_end, lines_start
from millstream.arrow.picks cimport Picks
from millstream.arrow.text cimport is_utf8
from millstream.base.checksum cimport crc_of

cdef Py_ssize_t _MOST_ROWS
cdef Py_ssize_t _MOST_BYTES
cdef unsigned int _MESSAGE
cdef unsigned int _HEADERS
cdef unsigned int _ERASED
cdef Py_ssize_t _HEADER_SIZE
cdef unsigned int _SIZE_MASK
cdef unsigned int _KIND_SHIFT
cdef unsigned char _DOT
cdef Py_ssize_t _MOST_LINES
cdef Py_ssize_t _SUBJECT
cdef Py_ssize_t _SUBJECT_SIZE
cdef Py_ssize_t _LINES
cdef Py_ssize_t _LINES_SIZE
cdef Py_ssize_t _DATA
cdef Py_ssize_t _DATA_SIZE
cdef Py_ssize_t _RAW
cdef Py_ssize_t _RAW_SIZE
cdef Py_ssize_t _STATE
cdef Py_ssize_t _SEQ
cdef Py_ssize_t _TIME
cdef Py_ssize_t _NUMBERS
cdef int _PLAIN
cdef int _ODD
cdef int _MENDED
cdef int _SOUND
cdef int _GONE
cdef int _FLAWED

@cython.final
cdef class Batch:
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t record_bytes
    cdef readonly list damaged
    cdef readonly Strings stream
    cdef readonly Strings subject
    cdef readonly Numbers64 seq
    cdef readonly Numbers64 time
    cdef readonly Strings data
    cdef readonly HeaderColumns headers
    cdef readonly Numbers64 time_ns
    cdef readonly Numbers32 size
    cdef readonly Lists tokens
    cdef readonly Strings token_texts
    cdef readonly Strings headers_raw
    cdef bytes _name
    cdef bint _wants_stream
    cdef bint _wants_subject
    cdef bint _wants_seq
    cdef bint _wants_time
    cdef bint _wants_data
    cdef bint _wants_time_ns
    cdef bint _wants_size
    cdef bint _wants_tokens
    cdef bint _wants_headers_raw
    cdef bint _reads_headers
    cdef array _table
    cdef array _flaws
    cdef Py_ssize_t _flaw_count
    cdef Py_ssize_t _noted
    cdef Py_ssize_t _odd
    cdef Py_ssize_t _most_lines
    cdef Py_ssize_t _subject_bytes
    cdef Py_ssize_t _line_bytes
    cdef Py_ssize_t _raw_bytes
    cdef Py_ssize_t _data_bytes
    cdef bytes _beside

    cpdef clear(self)
    cpdef Py_ssize_t take(
        self, bytes data, Py_ssize_t place, Picks picks, Py_ssize_t start, Py_ssize_t end
    ) except -1
    @cython.locals(
        p="const unsigned char*", have=Py_ssize_t, offsets="long long*", seqs="long long*", table="long long*",
        flaws="long long*", index=Py_ssize_t,
    )
    cdef Py_ssize_t _note(
        self, bytes data, Py_ssize_t place, Picks picks, Py_ssize_t start, Py_ssize_t end
    ) except -1
    @cython.locals(
        at=Py_ssize_t, first="unsigned int", size=Py_ssize_t, kind="unsigned int", subject_size=Py_ssize_t,
        subject=Py_ssize_t, rest=Py_ssize_t, block_size=Py_ssize_t, block=Py_ssize_t, odd=bint, row=Py_ssize_t,
        data=Py_ssize_t, lines=Py_ssize_t, last=Py_ssize_t, raw_size=Py_ssize_t,
    )
    cdef int _note_one(
        self, const unsigned char* p, Py_ssize_t have, Py_ssize_t place, long long offset, long long seq,
        long long* table,
    ) noexcept nogil
    cdef _mend(self, bytes data)
    cdef _reserve(self)
    @cython.locals(
        p="const unsigned char*", b="const unsigned char*", name="const unsigned char*", name_size=Py_ssize_t,
        table="long long*", index=Py_ssize_t, row=Py_ssize_t, source="const unsigned char*", lines=Py_ssize_t,
        mended=bint,
    )
    cdef _fill(self, bytes data, bytes beside)
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t)
    cdef void _split(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t size) noexcept nogil

@cython.locals(value="unsigned int")
cdef unsigned int _number(const unsigned char* p, Py_ssize_t at) noexcept nogil
@cython.locals(value="unsigned long long")
cdef unsigned long long _long(const unsigned char* p, Py_ssize_t at) noexcept nogil
cdef long long _signed(const unsigned char* p, Py_ssize_t at) noexcept nogil
