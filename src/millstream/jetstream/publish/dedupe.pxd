cimport cython

from millstream.base.buffer cimport GrowingBuffer, equal_parts
from millstream.base.numbers cimport Numbers

cdef Py_ssize_t _FORGOTTEN_AT_ONCE
cdef Py_ssize_t _SPARE
cdef int _SMALLEST_BITS
cdef int _HALF
cdef unsigned long long _LOW
cdef Py_ssize_t _MOSTLY_EMPTY

@cython.final
cdef class Dedupe(GrowingBuffer):
    cdef public long long window_ns
    cdef Py_ssize_t _known
    cdef Numbers _ends
    cdef Numbers _seqs
    cdef Numbers _times
    cdef Py_ssize_t _head
    cdef unsigned long long _cut_entries
    cdef unsigned long long _cut_bytes
    cdef int _bits
    cdef Numbers _slots
    cdef bytes _last_id
    cdef unsigned long long _last_seq

    @cython.locals(oldest_ns="long long", word="unsigned long long", entry=Py_ssize_t)
    cpdef unsigned long long find(self, bytes message_id, long long now_ns) except *
    @cython.locals(hashed="unsigned long long", slot=Py_ssize_t, number="unsigned long long")
    cpdef add(self, bytes message_id, unsigned long long seq, long long now_ns)
    cpdef bytes id_of(self, unsigned long long last_seq)
    cpdef clear(self)

    @cython.locals(mask=Py_ssize_t, slot=Py_ssize_t, word="unsigned long long")
    cdef Py_ssize_t _slot_of(self, bytes message_id, unsigned long long hashed) noexcept
    cdef Py_ssize_t _entry_of(self, unsigned long long word) noexcept
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t)
    cdef bint _is_id_of(self, Py_ssize_t entry, bytes message_id) noexcept
    cdef Py_ssize_t _start(self, Py_ssize_t entry) noexcept
    @cython.locals(mask=Py_ssize_t, slot=Py_ssize_t, home=Py_ssize_t, word="unsigned long long")
    cdef void _vacate(self, Py_ssize_t hole) noexcept
    @cython.locals(
        slots=Numbers, mask=Py_ssize_t, slot=Py_ssize_t, index=Py_ssize_t, word="unsigned long long"
    )
    cdef _resize(self, int bits)
    @cython.locals(
        head=Py_ssize_t, count=Py_ssize_t, stop=Py_ssize_t, start=Py_ssize_t, slot=Py_ssize_t,
        message_id=bytes, word="unsigned long long",
    )
    cdef _forget_old(self, long long oldest_ns)
    cdef long long _time_at(self, Py_ssize_t entry) noexcept
    @cython.locals(start=Py_ssize_t, rest=bytes)
    cdef _cut_off(self, Py_ssize_t count)

cdef Numbers _empty_table(int bits)
@cython.locals(at=Py_ssize_t)
cdef Numbers _from(Numbers numbers, Py_ssize_t index)
@cython.locals(value="long long")
cdef unsigned long long _hash_of(bytes message_id) except *
