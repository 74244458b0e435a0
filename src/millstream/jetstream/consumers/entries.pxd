cimport cython

from millstream.base.buffer cimport GrowingBuffer

cdef unsigned long long _MASK
cdef unsigned long long _MOST
cdef int _VERSION
cdef int _CONFIG
cdef int _SNAPSHOT
cdef int _CHANGES
cdef int _DELETED
cdef int _CHECKPOINT
cdef int _LETTER
cdef int _STORED

cdef class NumberBuffer(GrowingBuffer):
    @cython.final
    @cython.locals(target="unsigned char*", position=Py_ssize_t, rest="unsigned long long")
    cdef inline int put_varint(self, unsigned long long value) except -1
    @cython.final
    @cython.locals(down="unsigned long long")
    cdef inline int put_step(self, unsigned long long step) except -1
    @cython.final
    cdef int put_count(self, Py_ssize_t count) except -1
    @cython.final
    @cython.locals(
        count=Py_ssize_t, index=Py_ssize_t, end=Py_ssize_t, down=bint,
        moment="unsigned long long", first_moment="unsigned long long",
        first_sseq="unsigned long long", first_dseq="unsigned long long", first_at="long long",
        last_sseq="unsigned long long", last_dseq="unsigned long long",
        next_sseq="unsigned long long", next_dseq="unsigned long long", next_at="long long",
    )
    cdef put_pending(self, list rows, unsigned long long sseq, unsigned long long dseq, long long at)
    @cython.final
    @cython.locals(
        count=Py_ssize_t, index=Py_ssize_t, end=Py_ssize_t, down=bint,
        first="unsigned long long", last="unsigned long long", following="unsigned long long",
    )
    cdef put_gone(self, list sseqs, unsigned long long sseq)
    @cython.final
    @cython.locals(next_sseq="unsigned long long", times="unsigned long long")
    cdef put_redelivered(self, list rows, unsigned long long sseq)

@cython.final
cdef class StateCopy:
    cdef NumberBuffer pending
    cdef NumberBuffer gone
    cdef NumberBuffer redelivered
    cdef Py_ssize_t pending_rows
    cdef Py_ssize_t gone_rows
    cdef Py_ssize_t redelivered_rows
    cdef tuple first_pending
    cdef tuple last_pending
    cdef unsigned long long first_gone
    cdef unsigned long long last_gone
    cdef tuple first_redelivered
    cdef tuple last_redelivered

    cpdef clear(self)
    cpdef add(self, list pending, list gone, list redelivered)

@cython.final
cdef class EntryWriter(NumberBuffer):
    cdef put_bytes(self, bytes data)
    cpdef put_section(self, unsigned long long link, changes)
    cdef put_copy(self, unsigned long long link, changes, StateCopy copy)
    cdef _put_head(self, unsigned long long link, changes)
    cdef _put_all(self, NumberBuffer other)

@cython.final
cdef class ConsumerEntryReader:
    cdef bytes _data
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end

    cdef Py_ssize_t rest(self)
    cdef inline int byte(self) except -1
    @cython.locals(value="unsigned long long", byte="unsigned long long", shift=int)
    cdef unsigned long long varint(self) except? 0
    @cython.locals(value="unsigned long long")
    cdef unsigned long long step(self) except? 0
    @cython.locals(size="unsigned long long", start=Py_ssize_t)
    cdef bytes bytes(self)
    @cython.locals(created="unsigned long long", sseq="unsigned long long", seq="unsigned long long")
    cdef letter(self)
    cdef section(self, entry)
    cdef unsigned long long _count(self) except? 0
    @cython.locals(
        rows=list, left="unsigned long long", head="unsigned long long", length="unsigned long long",
        way="unsigned long long", moment="unsigned long long", at="long long", _="unsigned long long",
    )
    cdef list _pending(self, unsigned long long sseq, unsigned long long dseq)
    @cython.locals(
        sseqs=list, left="unsigned long long", head="unsigned long long", length="unsigned long long",
        way="unsigned long long", _="unsigned long long",
    )
    cdef list _gone(self, unsigned long long sseq)
    @cython.locals(length="unsigned long long")
    cdef unsigned long long _length(self, unsigned long long head, unsigned long long left) except? 0
    @cython.locals(rows=list, left="unsigned long long", times="unsigned long long")
    cdef list _redelivered(self, unsigned long long sseq)

cdef long long _signed(unsigned long long value) noexcept
