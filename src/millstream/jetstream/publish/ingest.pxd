cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.subjects.filter_index cimport FilterIndex
from millstream.jetstream.dedupe.window cimport Dedupe
from millstream.jetstream.publish.batch_fast_path cimport StagedMessage, BatchStaging
from millstream.jetstream.publish.refusals cimport Refusals
from millstream.jetstream.publish.ttl cimport TtlExpiry
from millstream.protocol.digits cimport digits_end, read_number
from millstream.protocol.parser cimport Frame
from millstream.protocol.replies cimport Replies
from millstream.protocol.trace_context cimport find_sampled
from millstream.store.log cimport Log

cdef bytes _END
cdef bytes _DUPLICATE_END
cdef int _MARK_MSG_ID
cdef int _MARK_TTL
cdef Py_ssize_t _MAX_HEADER_BYTES
cdef bytes _FAST_BATCH
cdef int _LAST_LETTER
cdef bytes _START
cdef bytes _OURS
cdef bytes _MSG_ID
cdef bytes _EXPECTED
cdef bytes _EXPECTED_LAST
cdef bytes _TTL
cdef bytes _ROLLUP
cdef bytes _INCREMENT
cdef bytes _END_OF_HEADERS
cdef int _ROOM
cdef int _UNKNOWN
cdef Py_ssize_t _WEIGHED_AT
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _BLANK
cdef unsigned char _PLUS
cdef unsigned char _MINUS

@cython.final
cdef class Ingest:
    cdef public bint fast_path
    cdef public Py_ssize_t max_size
    cdef public FilterIndex interest
    cdef public object limit
    cdef public object hold
    cdef public object weigh
    cdef Py_ssize_t _unweighed
    cdef public Py_ssize_t per_subject
    cdef public object counters
    cdef public TtlExpiry expiry
    cdef public object transform
    cdef public object roll_up
    cdef public bint answers
    cdef public object spans
    cdef Log _log
    cdef Dedupe _dedupe
    cdef BatchStaging _staging
    cdef object _now_ns
    cdef object _dirty
    cdef object _slow
    cdef Refusals _refusals
    cdef Replies _acks
    cdef bint _told
    cdef Py_ssize_t _untold
    cdef Py_ssize_t _id_start
    cdef Py_ssize_t _id_size
    cdef long long _ttl_s
    cdef bint _rolls_up
    cdef bint _disappointed
    cdef unsigned long long _last

    cpdef take(self, bytes subject, Frame frame)
    @cython.locals(
        now="long long", seq="unsigned long long", header_size=Py_ssize_t, published=bytes, marks=int, told=bint,
        room=int,
    )
    cdef _take(self, bytes subject, Frame frame)
    cdef bint _may_stage(self, Frame frame) except *
    @cython.locals(now="long long", seq="unsigned long long", message_id=bytes)
    cdef _pass_over(self, Frame frame)
    @cython.locals(
        p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, negative=bint,
        value="long long", text=bytes, body=bytes, seq="unsigned long long",
    )
    cdef bint _count(self, object counters, bytes subject, Frame frame) except *
    cpdef store(self, StagedMessage message, long long now)
    @cython.locals(p="const unsigned char*", message_id=bytes, seq="unsigned long long")
    cdef unsigned long long _store_once(self, bytes subject, Frame frame, long long now, int marks) except *
    @cython.locals(known="unsigned long long")
    cdef bint _is_duplicate(self, bytes message_id, Frame frame, long long now) except *
    cdef _keep_limits(self, bytes subject)
    @cython.locals(
        p="const unsigned char*", at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, found=bint, expected=bint,
        expected_last=bint,
    )
    cdef bint _needs_no_rules(self, bytes subject, Frame frame) except *
    @cython.locals(stop=Py_ssize_t, value="long long", last="unsigned long long")
    cdef bint _expect(self, bytes subject, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except *
    cdef bint _is_batched(self, Frame frame) except *
    @cython.locals(now="long long", last="long long")
    cpdef long long timestamp(self) except *
    cpdef acknowledge(self, bytes reply, unsigned long long seq, bytes end)
    cpdef tell(self, Py_ssize_t size=*)
    cpdef Replies hand_over(self, Py_ssize_t untold=*, Replies empty=*)
