cimport cython

from millstream.base.buffer cimport read_little

@cython.final
cdef class DeletedSequences:
    cdef readonly unsigned long long first
    cdef readonly unsigned long long last
    cdef bytes _data
    cdef Py_ssize_t _words
    cdef dict _nodes
    cdef unsigned long long _span
    cdef unsigned long long _base
    cdef Py_ssize_t _bits

    @cython.locals(base="unsigned long long", bit="unsigned long long", word="unsigned long long")
    cpdef bint has(self, unsigned long long seq) except -1

@cython.final
cdef class StreamIndex:
    cdef bytes _data
    cdef Py_ssize_t _at
    cdef readonly unsigned long long messages
    cdef readonly unsigned long long first_seq
    cdef readonly long long first_time
    cdef readonly unsigned long long last_seq
    cdef readonly long long last_time
    cdef readonly list blocks
    cdef readonly unsigned long long last_block
    cdef readonly bytes last_checksum

    @cython.locals(count="unsigned long long")
    cdef Py_ssize_t _count(self) except -1
    @cython.locals(left=Py_ssize_t, size="unsigned long long", total="unsigned long long")
    cdef _skip_subjects(self, int version)
    @cython.locals(
        number="unsigned long long", first="unsigned long long", last="unsigned long long",
        deleted="unsigned long long", used="unsigned long long",
    )
    cdef _block(self, int version)
    cdef bytes _set(self)
    @cython.locals(start=Py_ssize_t)
    cdef bytes _take(self, unsigned long long size)
    @cython.locals(p="const unsigned char*", data=bytes, value="unsigned long long", shift=int, byte="unsigned long long")
    cdef unsigned long long _number(self) except? 0
    @cython.locals(value="unsigned long long", half="long long")
    cdef long long _signed(self) except? 0
