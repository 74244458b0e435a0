cimport cython
from cpython.array cimport array

cdef unsigned int _SUBJECT_MASK

@cython.final
cdef class Picks:
    cdef readonly Py_ssize_t count
    cdef array _offsets
    cdef array _ends
    cdef array _seqs

    @cython.locals(
        places="const unsigned char*", numbers="const unsigned char*", bits="const unsigned char*",
        bit_count=Py_ssize_t, subjects="const unsigned char*", filtered=bint, flags=bytes,
        flag_p="const unsigned char*", flag_count="unsigned int", listed=bint, out_offsets="long long*",
        out_ends="long long*", out_seqs="long long*", found=Py_ssize_t, index=Py_ssize_t, bit=Py_ssize_t,
        number="unsigned int",
    )
    cdef _choose(
        self, Py_ssize_t count, bytes offsets, bytes seqs, long long first_seq, bytes removed,
        Py_ssize_t first_bit, bytes subject_of, bytes wanted,
    )
    cpdef long long seq(self, Py_ssize_t index) except *
    cpdef long long offset(self, Py_ssize_t index) except *
    cpdef long long end(self, Py_ssize_t index) except *
    @cython.locals(offsets="long long*", ends="long long*", first="long long", index=Py_ssize_t)
    cpdef Py_ssize_t group_end(self, Py_ssize_t start, long long most_bytes, long long widest_gap) except? -1

@cython.locals(number="unsigned int")
cdef unsigned int _number(const unsigned char* p, Py_ssize_t at) noexcept nogil
@cython.locals(number="unsigned long long")
cdef unsigned long long _long(const unsigned char* p, Py_ssize_t at) noexcept nogil
