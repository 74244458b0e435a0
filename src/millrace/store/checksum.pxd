cimport cython

# The processor's own instruction for this polynomial, where there is one: five times as fast as tables.
cdef extern from *:
    """
    #include <string.h>
    #if defined(__x86_64__) && defined(__GNUC__)
    static inline int millrace_has_crc32c(void) {
        return __builtin_cpu_supports("sse4.2");
    }
    __attribute__((target("sse4.2")))
    static inline unsigned int millrace_crc32c(unsigned int start, const unsigned char* p, Py_ssize_t size) {
        unsigned long long crc = start, word;
        for (; size >= 8; size -= 8, p += 8) {
            memcpy(&word, p, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; size > 0; size--, p++) crc = __builtin_ia32_crc32qi((unsigned int)crc, *p);
        return (unsigned int)crc;
    }
    #else
    static inline int millrace_has_crc32c(void) { return 0; }
    static inline unsigned int millrace_crc32c(unsigned int start, const unsigned char* p, Py_ssize_t size) {
        return start;
    }
    #endif
    """
    bint millrace_has_crc32c() nogil
    unsigned int millrace_crc32c(unsigned int start, const unsigned char* p, Py_ssize_t size) nogil

cdef unsigned int _ONES
cdef unsigned int _table[2048]
cdef bint _by_instruction

@cython.locals(table="unsigned int*", crc="unsigned int", i=Py_ssize_t, source="const unsigned char*")
cpdef unsigned int crc_of(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cpdef unsigned int crc_by_tables(bytes data)
@cython.locals(table="unsigned int*", crc="unsigned int", i=Py_ssize_t)
cdef unsigned int _crc_by_tables(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cpdef unsigned int crc32c(bytes data)
