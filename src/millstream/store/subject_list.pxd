cimport cython

from millstream.base.buffer cimport GrowingBuffer, equal_parts
from millstream.base.numbers cimport Numbers

cdef Py_ssize_t _SMALLEST_TABLE
cdef Py_ssize_t _HASHED_AT_ONCE
cdef int _HALF
cdef unsigned long long _LOW

@cython.final
cdef class SubjectList(GrowingBuffer):
    cdef readonly Py_ssize_t count
    cdef Numbers _ends
    cdef Numbers _slots
    cdef Py_ssize_t _hashed
    cdef bint _twins

    @cython.locals(start=Py_ssize_t)
    cpdef bytes at(self, Py_ssize_t number)
    cpdef Py_ssize_t size_at(self, Py_ssize_t number) noexcept
    @cython.locals(start=Py_ssize_t)
    cpdef put_name(self, Py_ssize_t number, GrowingBuffer out)
    @cython.locals(number=Py_ssize_t)
    cpdef Py_ssize_t blank(self) noexcept
    @cython.locals(number=Py_ssize_t, first=Py_ssize_t)
    cpdef Py_ssize_t find(self, bytes subject) except? -2
    @cython.locals(slot=Py_ssize_t, known=Py_ssize_t, hashed="unsigned long long")
    cpdef Py_ssize_t add(self, bytes subject) except -1
    cpdef append_name(self, bytes data, Py_ssize_t start, Py_ssize_t size)
    @cython.locals(
        p="const unsigned char*", out="unsigned char*", ends=Numbers, known=Py_ssize_t, end=Py_ssize_t,
        position=Py_ssize_t, size=Py_ssize_t, total=Py_ssize_t, _=Py_ssize_t,
    )
    cpdef Py_ssize_t append_names(
        self, bytes data, Py_ssize_t at, Py_ssize_t count, Py_ssize_t head
    ) except -1
    @cython.locals(
        first=Py_ssize_t, number=Py_ssize_t, name=bytes, slot=Py_ssize_t, hashed="unsigned long long"
    )
    cdef _hash_some(self, Py_ssize_t most)
    cdef Py_ssize_t _start(self, Py_ssize_t number) noexcept
    @cython.locals(mask=Py_ssize_t, slot=Py_ssize_t, word="unsigned long long")
    cdef Py_ssize_t _slot(self, bytes subject, unsigned long long hashed) noexcept
    @cython.locals(start=Py_ssize_t, size=Py_ssize_t)
    cdef bint _is_subject(self, bytes subject, Py_ssize_t number) noexcept
    @cython.locals(
        size=Py_ssize_t, slots=Numbers, mask=Py_ssize_t, index=Py_ssize_t, slot=Py_ssize_t,
        word="unsigned long long",
    )
    cdef _grow_table(self)

cdef Numbers _empty_table(Py_ssize_t slots)
@cython.locals(value="long long")
cdef unsigned long long _hash_of(bytes subject) noexcept
