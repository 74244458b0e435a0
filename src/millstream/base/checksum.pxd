cimport cython

ctypedef unsigned int (*_Checksum)(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil

cdef unsigned int _ONES
cdef unsigned int _table[2048]
cdef _Checksum _best

cpdef unsigned int crc_of(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cpdef unsigned int crc_by_tables(bytes data)
@cython.locals(table="unsigned int*", crc="unsigned int", i=Py_ssize_t)
cdef unsigned int _crc_by_tables(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cpdef unsigned int crc32c(bytes data)
