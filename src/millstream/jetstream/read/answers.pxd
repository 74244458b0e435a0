cimport cython

from millstream.base.buffer cimport GrowingBuffer, digits_of, equal_bytes, has_line_like
from millstream.protocol.outlet cimport Outlet, long_part, send_long
from millstream.protocol.parser cimport Frame
from millstream.store.cursor cimport Cursor
from millstream.store.log cimport Log
from millstream.store.record cimport Record

cdef int _OVER
cdef int _DONE
cdef int _END
cdef int _NOBODY
cdef int _TIRED
cdef bytes _SUBJECT
cdef bytes _SEQUENCE
cdef bytes _TIME
cdef bytes _LEFT
cdef bytes _LAST
cdef bytes _END_OF_BLOCK
cdef bytes _CRLF
cdef bytes _FIRST_LINE
cdef unsigned char _POINT
cdef unsigned char _ZONE
cdef bytes _ZEROS
cdef bytes _VERSION
cdef bytes _TWO_ENDS
cdef tuple _OURS
cdef long long _SECOND
cdef long long _DAY
cdef Py_ssize_t _TIME_OF_DAY
cdef bytes _TWO_DIGITS
cdef unsigned char _COLON
cdef Py_ssize_t _FRACTION_DIGITS
cdef Py_ssize_t _MOST_LINES
cdef Py_ssize_t _REACH
cdef Py_ssize_t _LONG

@cython.final
cdef class DirectBatch:
    cdef public object request
    cdef readonly bytes reply
    cdef readonly Outlet outlet
    cdef public bint bare
    cdef public long long left
    cdef public long long left_bytes
    cdef public long long pending
    cdef public unsigned long long last

@cython.final
cdef class DirectSending:
    cdef readonly Py_ssize_t sent
    cdef readonly Py_ssize_t sent_bytes
    cdef public Py_ssize_t reach
    cdef bytes _stream
    cdef Record _record
    cdef Frame _frame
    cdef GrowingBuffer _buffer
    cdef object _payload
    cdef long long _day
    cdef bytes _day_text

    @cython.locals(record=Record)
    cpdef int run(self, Cursor cursor, DirectBatch batch, Py_ssize_t most, Py_ssize_t most_bytes) except -1
    cpdef Py_ssize_t put(self, Record record, DirectBatch batch) except -1
    @cython.locals(record=Record)
    cpdef bint one(self, Log log, unsigned long long seq, bytes reply, Outlet outlet, bint bare) except -1
    cpdef Py_ssize_t lone(self, Record record, bytes reply, Outlet outlet, bint bare) except -1
    cdef Py_ssize_t _send(self, bytes reply, Outlet outlet) except -1
    cdef int _prepare_bare(self, Record record) except -1
    @cython.locals(frame=Frame, buffer=GrowingBuffer, start=Py_ssize_t, size=Py_ssize_t)
    cdef int _put_payload(self, Record record) except -1
    @cython.locals(frame=Frame, buffer=GrowingBuffer, stream=bytes, own=Py_ssize_t, copied=Py_ssize_t)
    cdef int _prepare(self, Record record, DirectBatch batch) except -1
    @cython.locals(
        buffer=GrowingBuffer, second="long long", fraction="long long", day="long long", digits=Py_ssize_t,
        text=bytes, moment=object,
    )
    cdef int _put_time(self, long long timestamp) except -1

@cython.locals(start=Py_ssize_t, end=Py_ssize_t, buf=bytes)
cdef bint _says_nothing_of_ours(Record record) except? -1
