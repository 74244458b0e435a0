cimport cython

from millstream.base.buffer cimport GrowingBuffer, equal_bytes
from millstream.jetstream.consumers.ledger cimport Ledger
from millstream.protocol.outlet cimport Outlet, long_part, send_long
from millstream.protocol.parser cimport Frame
from millstream.protocol.trace_context cimport find_sampled
from millstream.store.cursor cimport Cursor
from millstream.store.record cimport Record

cdef int _DONE
cdef int _END
cdef int _FULL
cdef int _NOBODY
cdef int _TOO_BIG
cdef int _TIRED
cdef unsigned char _DOT
cdef bytes _CRLF
cdef bytes _HEADER_LINE
cdef bytes _SIZE
cdef Py_ssize_t _MAX_NUMBERS
cdef Py_ssize_t _REACH
cdef Py_ssize_t _LONG

@cython.final
cdef class Delivery:
    cdef public bint settles
    cdef public bint headers_only
    cdef public Py_ssize_t max_pending
    cdef public long long pending
    cdef readonly Py_ssize_t sent
    cdef readonly Py_ssize_t sent_bytes
    cdef public Py_ssize_t too_big
    cdef public bytes extra_header
    cdef public Py_ssize_t reach
    cdef public object spans
    cdef Ledger _ledger
    cdef bytes _reply_start
    cdef Record _record
    cdef Frame _frame
    cdef GrowingBuffer _buffer
    cdef bytes _subject
    cdef object _payload
    cdef unsigned long long _seq
    cdef unsigned long long _deliveries

    @cython.locals(ledger=Ledger, record=Record, size=Py_ssize_t)
    cpdef int run(self, Cursor cursor, Outlet outlet, Py_ssize_t most, Py_ssize_t most_bytes, long long now) except -1
    cpdef release(self)
    cpdef Py_ssize_t size_of(self, Record record, long long deliveries, long long pending) except -1
    @cython.locals(receivers=Py_ssize_t)
    cpdef Py_ssize_t send(self, Outlet outlet) except -1
    @cython.locals(frame=Frame)
    cdef _record_sent(self, object spans)
    @cython.locals(
        buffer=GrowingBuffer, frame=Frame, start=bytes, size=Py_ssize_t, own=Py_ssize_t, copied=Py_ssize_t
    )
    cdef Py_ssize_t _prepare(self, Record record, unsigned long long deliveries, unsigned long long pending) except -1
    @cython.locals(block=bytes, payload=bytes, size=Py_ssize_t)
    cdef Py_ssize_t _put_changed(self, Record record) except -1
    @cython.locals(size=Py_ssize_t)
    cdef bint _is_subject_of(self, Record record) except -1
