cimport cython

from millstream.base.buffer cimport GrowingBuffer
from millstream.link.parser cimport LinkParser
from millstream.protocol.digits cimport digits_end, read_number

cdef Py_ssize_t _LINE_ROOM
cdef Py_ssize_t _LONGEST_SUBJECT
cdef int _NO_RESPONDERS
cdef bytes _SEQUENCE_KEY
cdef tuple _DUPLICATE_ENDS
cdef bytes _PUB
cdef bytes _HPUB
cdef unsigned char _BLANK
cdef bytes _CRLF
cdef object _ACK

@cython.final
cdef class Receipts:
    cdef readonly list sequences
    cdef readonly list origins
    cdef readonly set duplicates
    cdef readonly dict errors
    cdef readonly dict values
    cdef readonly Py_ssize_t open
    cdef readonly bint sealed
    cdef object _done

    cpdef refuse(self, error)
    cpdef seal(self)
    cdef _check_done(self)

cpdef bint is_publishable(bytes subject) noexcept
@cython.locals(token_start=Py_ssize_t, i=Py_ssize_t)
cpdef bint publishable_at(const unsigned char* p, Py_ssize_t size) noexcept

@cython.final
cdef class FrameBuffer(GrowingBuffer):
    @cython.locals(target="unsigned char*", origin="const unsigned char*")
    cdef inline void put_at(self, const unsigned char* source, Py_ssize_t count) noexcept
    cdef int make_room(self, Py_ssize_t extra) except -1
    cdef int put_unanswered(
        self,
        const unsigned char* subject, Py_ssize_t subject_size,
        const unsigned char* headers, Py_ssize_t header_size,
        const unsigned char* payload, Py_ssize_t payload_size,
    ) except -1
    cpdef clear(self)

@cython.final
cdef class PublishWindow:
    cdef readonly Py_ssize_t limit
    cdef readonly bytes inbox
    cdef public Py_ssize_t max_payload
    cdef readonly FrameBuffer frames
    cdef bytes _prefix
    cdef Py_ssize_t _prefix_size
    cdef Py_ssize_t _capacity
    cdef list _owners
    cdef list _places
    cdef list _subjects
    cdef long long _lowest
    cdef long long _next
    cdef Py_ssize_t _open
    cdef object _marks
    cdef bytes _known
    cdef object _origin

    cpdef Py_ssize_t free(self) noexcept
    cpdef Py_ssize_t open_count(self) noexcept
    cpdef object problem(self, bytes subject, Py_ssize_t header_size, Py_ssize_t payload_size)
    @cython.locals(number="long long")
    cpdef long long add(self, Receipts receipts, bytes subject, bytes headers, bytes payload) except *
    @cython.locals(place=Py_ssize_t, count=Py_ssize_t, subject=bytes, headers=bytes, payload=bytes)
    cpdef Py_ssize_t add_some(
        self, Receipts receipts, list messages, Py_ssize_t start, Py_ssize_t most_bytes
    ) except -1
    @cython.locals(number="long long", frames=FrameBuffer, slot=Py_ssize_t)
    cdef long long put(
        self, Receipts receipts,
        const unsigned char* subject, Py_ssize_t subject_size,
        const unsigned char* headers, Py_ssize_t header_size,
        const unsigned char* payload, Py_ssize_t payload_size,
    ) except *

    @cython.locals(number="long long", slot=Py_ssize_t, receipts=Receipts, place=Py_ssize_t)
    cpdef bint settle(self, LinkParser parser) except *
    @cython.locals(start=Py_ssize_t, end=Py_ssize_t)
    cdef long long _number_of(self, LinkParser parser) noexcept
    @cython.locals(
        p="const unsigned char*", base="const unsigned char*", expected="const unsigned char*",
        known=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, i=Py_ssize_t, end=Py_ssize_t, value="long long",
    )
    cdef bint _settle_fast(self, LinkParser parser, Receipts receipts, Py_ssize_t place) except *
    @cython.locals(payload=bytes, at=Py_ssize_t)
    cdef _settle_other(self, LinkParser parser, Receipts receipts, Py_ssize_t place)
    cdef _close_slot(self, Py_ssize_t slot, Receipts receipts)

    cpdef mark(self, double now)
    cpdef object oldest(self)
    cpdef Py_ssize_t expire(self, double written_before, double timeout_s) except -1
    cpdef Py_ssize_t fail_all(self, error) except -1
    @cython.locals(number="long long", count=Py_ssize_t, slot=Py_ssize_t, receipts=Receipts)
    cpdef Py_ssize_t deny(self, bytes subject, error) except -1
    @cython.locals(number="long long", count=Py_ssize_t, slot=Py_ssize_t, receipts=Receipts)
    cdef Py_ssize_t _give_up(self, long long upper, error) except -1
