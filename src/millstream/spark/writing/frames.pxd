cimport cython

from millstream.link.publish_window cimport FrameBuffer, PublishWindow, Receipts, publishable_at

cdef bytes _NATS
cdef bytes _MSG_ID_NAME
cdef bytes _START
cdef bytes _MSG_ID
cdef bytes _TTL
cdef bytes _EXPECTED
cdef bytes _COLON
cdef unsigned char _SEPARATOR
cdef bytes _CRLF
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _LOWER
cdef Py_ssize_t _NUMBER_ROOM
cdef bytes _EMPTY

@cython.final
cdef class TextColumn:
    cdef bint nullable
    cdef const unsigned char[::1] _validity
    cdef const int[::1] _offsets
    cdef const unsigned char[::1] _values
    cdef Py_ssize_t _bit

    @cython.locals(at=Py_ssize_t)
    cpdef bint is_null(self, Py_ssize_t row) noexcept
    cdef inline Py_ssize_t begin(self, Py_ssize_t row) noexcept
    cdef inline Py_ssize_t size(self, Py_ssize_t row) noexcept
    cdef inline const unsigned char* at(self, Py_ssize_t begin, Py_ssize_t size) noexcept
    @cython.locals(begin=Py_ssize_t)
    cpdef bytes text(self, Py_ssize_t row)

@cython.final
cdef class HeaderColumn:
    cdef bint nullable
    cdef const unsigned char[::1] _validity
    cdef const int[::1] _offsets
    cdef Py_ssize_t _bit
    cdef TextColumn names
    cdef bint listed
    cdef const int[::1] _lists
    cdef TextColumn values

    cdef inline Py_ssize_t first(self, Py_ssize_t row) noexcept
    @cython.locals(at=Py_ssize_t)
    cdef inline Py_ssize_t after(self, Py_ssize_t row) noexcept
    cdef inline Py_ssize_t first_value(self, Py_ssize_t entry) noexcept
    cdef inline Py_ssize_t after_values(self, Py_ssize_t entry) noexcept

@cython.final
cdef class RowFrames:
    cdef readonly Py_ssize_t row_count
    cdef public Py_ssize_t max_payload
    cdef readonly unsigned long long first_id
    cdef readonly bytes id_start
    cdef readonly str problem
    cdef readonly Py_ssize_t measured
    cdef readonly list sent
    cdef bytes _subject
    cdef bytes _fixed_lines
    cdef bint _allow_nats_headers
    cdef TextColumn _subjects
    cdef TextColumn _data
    cdef HeaderColumn _headers
    cdef TextColumn _ids
    cdef TextColumn _streams
    cdef TextColumn _sequences
    cdef TextColumn _ttls
    cdef TextColumn _expected
    cdef FrameBuffer _lines
    cdef bint _has_id
    cdef const unsigned char* _subject_at
    cdef Py_ssize_t _subject_size
    cdef const unsigned char* _payload_at
    cdef Py_ssize_t _payload_size

    cpdef Py_ssize_t encode(
        self, PublishWindow window, Receipts receipts, Py_ssize_t row, Py_ssize_t flush_at
    ) except -1
    @cython.locals(row=Py_ssize_t)
    cpdef Py_ssize_t encode_again(
        self, PublishWindow window, Receipts receipts, list rows, Py_ssize_t place, Py_ssize_t flush_at
    ) except -1
    @cython.locals(lines=FrameBuffer, header_at="const unsigned char*")
    cdef _add(self, PublishWindow window, Receipts receipts, Py_ssize_t row)
    @cython.locals(stop=Py_ssize_t)
    cpdef Py_ssize_t measure(self, Py_ssize_t row, Py_ssize_t most_rows, Py_ssize_t most_bytes) except -1
    @cython.locals(lines=FrameBuffer, header_at="const unsigned char*")
    cpdef Py_ssize_t encode_batched(
        self, FrameBuffer frames, bytes batch_line, Py_ssize_t number, Py_ssize_t row,
        Py_ssize_t last_number, Py_ssize_t most_bytes,
    ) except -1
    @cython.locals(lines=FrameBuffer)
    cdef bint _prepare_batched(self, Py_ssize_t row, bytes batch_line, Py_ssize_t number) except *
    @cython.locals(lines=FrameBuffer)
    cdef bint _prepare(self, Py_ssize_t row) except *
    @cython.locals(lines=FrameBuffer, data=TextColumn, begin=Py_ssize_t)
    cdef bint _finish(self, Py_ssize_t row) except *
    @cython.locals(column=TextColumn)
    cdef bint _take_subject(self, Py_ssize_t row) except *
    @cython.locals(
        headers=HeaderColumn, names=TextColumn, values=TextColumn, lines=FrameBuffer, entry=Py_ssize_t,
        value=Py_ssize_t, size=Py_ssize_t, value_size=Py_ssize_t,
        at="const unsigned char*", value_at="const unsigned char*",
    )
    cdef bint _put_headers(self, Py_ssize_t row) except *
    @cython.locals(
        lines=FrameBuffer, streams=TextColumn, sequences=TextColumn, size=Py_ssize_t, digits=Py_ssize_t,
        at="const unsigned char*",
    )
    cdef bint _put_id(self, Py_ssize_t row) except *
    @cython.locals(lines=FrameBuffer, size=Py_ssize_t, at="const unsigned char*")
    cdef bint _put_column(self, bytes name, TextColumn column, Py_ssize_t row, str what) except *
    cpdef bytes subject_of(self, Py_ssize_t row)
    cpdef bytes payload_of(self, Py_ssize_t row)

@cython.locals(i=Py_ssize_t)
cdef bint is_header_name(const unsigned char* p, Py_ssize_t size) noexcept
@cython.locals(i=Py_ssize_t)
cdef bint is_header_value(const unsigned char* p, Py_ssize_t size) noexcept
@cython.locals(i=Py_ssize_t)
cdef bint same_letters(const unsigned char* p, const unsigned char* lower, Py_ssize_t size) noexcept
