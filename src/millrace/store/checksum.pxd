cimport cython

cdef unsigned int _ONES
cdef unsigned int _table[2048]

@cython.locals(table="unsigned int*", crc="unsigned int", i=Py_ssize_t)
cpdef unsigned int crc_of(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cpdef unsigned int crc32c(bytes data)
