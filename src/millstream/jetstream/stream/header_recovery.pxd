cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.jetstream.dedupe.window cimport Dedupe
from millstream.jetstream.publish.ttl cimport TtlExpiry
from millstream.store.cursor cimport Cursor
from millstream.store.marks cimport add_marks, with_headers
from millstream.store.record cimport Record

cdef bytes _MSG_ID
cdef bytes _TTL
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _BLANK

@cython.locals(
    record=Record, cursor=Cursor, seq="unsigned long long", wanted=int, others=int, marks=int, oldest="long long",
    dedupe=Dedupe, expiry=TtlExpiry, first="unsigned long long", last="unsigned long long",
)
cpdef restore(stream)
@cython.locals(block=bytes, marks=int, message_id=bytes, text=bytes, seconds="long long")
cdef int _restore_one(
    stream, Dedupe dedupe, TtlExpiry expiry, Record record, int wanted, long long oldest
) except -1
@cython.locals(block="const unsigned char*", at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, size=Py_ssize_t)
cdef bytes _value(Record record, bytes needle)
