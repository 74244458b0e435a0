cimport cython

cdef int _NUMBERS
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _SPACE
cdef unsigned char _TAB
cdef unsigned char _COLON

cpdef Py_ssize_t lines_end(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
@cython.locals(at=Py_ssize_t)
cpdef Py_ssize_t lines_start(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
@cython.locals(at=Py_ssize_t)
cpdef Py_ssize_t line_end(const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
@cython.locals(count=Py_ssize_t, stop=Py_ssize_t, colon=Py_ssize_t, value=Py_ssize_t, last=Py_ssize_t)
cdef Py_ssize_t find_lines(
    const unsigned char* p, Py_ssize_t at, Py_ssize_t end, long long* lines, Py_ssize_t most, bint ordered
) noexcept nogil
@cython.locals(source="const unsigned char*", found="const unsigned char*")
cdef Py_ssize_t _find(const unsigned char* p, unsigned char byte, Py_ssize_t start, Py_ssize_t end) noexcept nogil
