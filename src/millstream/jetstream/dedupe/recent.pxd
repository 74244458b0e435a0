cimport cython

from millstream.base.numbers cimport Numbers

cdef Py_ssize_t _FORGOTTEN_AT_ONCE
cdef Py_ssize_t _SPARE
cdef int _SMALLEST_BITS
cdef int _COUNTED_BITS
cdef int _HALF
cdef unsigned long long _LOW
cdef Py_ssize_t _MOSTLY_EMPTY
cdef Py_ssize_t _WORDS

@cython.final
cdef class RecentIds:
    cdef public unsigned long long first_seq
    cdef readonly Py_ssize_t known
    cdef Numbers _entries
    cdef Py_ssize_t _head
    cdef unsigned long long _cut_entries
    cdef int _bits
    cdef Numbers _slots
    cdef Py_ssize_t _counted
    cdef Py_ssize_t _free
    cdef unsigned long long _free_high
    cdef unsigned long long _free_low

    @cython.locals(slot=Py_ssize_t, word="unsigned long long", at=Py_ssize_t)
    cpdef unsigned long long find(self, unsigned long long high, unsigned long long low, long long oldest_ns) noexcept
    @cython.locals(slot=Py_ssize_t, number="unsigned long long", entries=Numbers)
    cpdef bint add(
        self, unsigned long long high, unsigned long long low, unsigned long long seq, long long now_ns
    ) except *
    @cython.locals(head=Py_ssize_t, count=Py_ssize_t, stop=Py_ssize_t, slot=Py_ssize_t, word="unsigned long long")
    cpdef forget_old(self, long long oldest_ns)
    @cython.locals(
        mask=Py_ssize_t, slot=Py_ssize_t, hashed="unsigned long long", word="unsigned long long", at=Py_ssize_t
    )
    cdef Py_ssize_t _slot_of(self, unsigned long long high, unsigned long long low) noexcept
    cdef Py_ssize_t _entry_of(self, unsigned long long word) noexcept
    @cython.locals(mask=Py_ssize_t, slot=Py_ssize_t, home=Py_ssize_t, word="unsigned long long")
    cdef void _vacate(self, Py_ssize_t hole) noexcept
    @cython.locals(
        slots=Numbers, mask=Py_ssize_t, slot=Py_ssize_t, index=Py_ssize_t, word="unsigned long long"
    )
    cdef _resize(self, int bits)
    cpdef Py_ssize_t held(self) noexcept
    cdef Py_ssize_t _count(self) noexcept
    cdef long long _time_at(self, Py_ssize_t entry) noexcept
    @cython.locals(at=Py_ssize_t)
    cdef _cut_off(self, Py_ssize_t count)
    cdef _weigh(self, Py_ssize_t size)

cdef Numbers _empty_table(int bits)
