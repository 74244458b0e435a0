cimport cython
from libc.string cimport memcpy

# Of the compiler, not of ours; setup.py compiles this module with -mcrc32, which allows them.
cdef extern from *:
    unsigned long long __builtin_ia32_crc32di(unsigned long long crc, unsigned long long word) noexcept nogil
    unsigned int __builtin_ia32_crc32qi(unsigned int crc, unsigned char byte) noexcept nogil

cdef extern from "cpuid.h":
    int __get_cpuid(
        unsigned int leaf, unsigned int* a, unsigned int* b, unsigned int* c, unsigned int* d
    ) noexcept nogil

cdef unsigned int _ONES
cdef unsigned int _FEATURES
cdef unsigned int _SSE_4_2

@cython.locals(a="unsigned int", b="unsigned int", c="unsigned int", d="unsigned int")
cpdef bint has_instruction() noexcept
cpdef size_t address() noexcept
@cython.locals(crc="unsigned long long", word="unsigned long long", i=Py_ssize_t)
cdef unsigned int _crc_by_instruction(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
