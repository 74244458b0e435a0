cimport cython

from millstream.base.buffer cimport GrowingBuffer, read_little

@cython.final
cdef class Numbers(GrowingBuffer):
    cdef readonly Py_ssize_t width
    cdef readonly Py_ssize_t count

    cpdef push(self, unsigned long long value)
    @cython.locals(size=Py_ssize_t)
    cpdef void set(self, Py_ssize_t index, unsigned long long value) noexcept
    cpdef extend(self, list values)
    @cython.locals(
        p="const unsigned char*", out="unsigned char*", value="unsigned int", index=Py_ssize_t
    )
    cpdef push_sums(
        self, unsigned int first, bytes data, Py_ssize_t at, Py_ssize_t width, Py_ssize_t count
    )
    @cython.locals(
        p="const unsigned char*", out="unsigned char*", value="unsigned int", index=Py_ssize_t
    )
    cpdef push_shifted(
        self, bytes data, Py_ssize_t at, Py_ssize_t width, Py_ssize_t count, unsigned int top_bit
    )
    cdef _check_source(self, bytes data, Py_ssize_t at, Py_ssize_t width, Py_ssize_t count)
    @cython.locals(index=Py_ssize_t)
    cpdef list to_list(self)
    cpdef unsigned long long at(self, Py_ssize_t index) noexcept
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t first_not_below(self, unsigned long long value) noexcept
    @cython.locals(
        p="const unsigned char*", width=Py_ssize_t, index=Py_ssize_t, value="unsigned long long",
        least="unsigned long long",
    )
    cpdef bint rise_between(self, unsigned long long first, unsigned long long end) noexcept
    @cython.locals(
        p="const unsigned char*", c="unsigned char*", f="unsigned char*", n="unsigned char*",
        known=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, value="unsigned int", number="unsigned int",
        found="unsigned int", marked=Py_ssize_t,
    )
    cpdef Py_ssize_t tally(self, unsigned int mask, Numbers counts, Numbers firsts, Numbers lasts) noexcept
    @cython.locals(
        p="const unsigned char*", f="const unsigned char*", known=Py_ssize_t, index=Py_ssize_t,
        at=Py_ssize_t, number="unsigned int",
    )
    cpdef Py_ssize_t next_flagged(
        self, Py_ssize_t start, Py_ssize_t end, bytes flags, unsigned int mask
    ) noexcept
    @cython.locals(p="const unsigned char*", index=Py_ssize_t, at=Py_ssize_t, number="unsigned int")
    cpdef Py_ssize_t next_equal(
        self, Py_ssize_t start, Py_ssize_t end, unsigned int value, unsigned int mask
    ) noexcept
    @cython.locals(
        p="const unsigned char*", f="const unsigned char*", known=Py_ssize_t, index=Py_ssize_t,
        at=Py_ssize_t, number="unsigned int", found=Py_ssize_t,
    )
    cpdef Py_ssize_t count_flagged(
        self, Py_ssize_t start, Py_ssize_t end, bytes flags, unsigned int mask
    ) noexcept

cdef unsigned long long _MOST

cdef void _put(unsigned char* p, Py_ssize_t at, unsigned int value) noexcept
@cython.locals(value="unsigned int")
cdef unsigned int _little(const unsigned char* p, Py_ssize_t at, Py_ssize_t width) noexcept
@cython.locals(rest="unsigned long long")
cpdef bytes pack_rising(list values)
@cython.locals(byte="unsigned long long", last="unsigned long long", rest="unsigned long long", shift=int)
cpdef tuple unpack_rising(bytes data, Py_ssize_t position, Py_ssize_t count)
