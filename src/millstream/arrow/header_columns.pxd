cimport cython
from cpython.array cimport array

from millstream.arrow.columns cimport Lists, Strings, grow
from millstream.protocol.header_lines cimport find_lines, line_end

cdef Py_ssize_t _MOST_LINES
cdef Py_ssize_t _NUMBERS
cdef Py_ssize_t _SMALLEST_LINE
cdef const unsigned char* _MSG_ID
cdef Py_ssize_t _MSG_ID_SIZE

@cython.final
cdef class HeaderColumns:
    cdef readonly bint wants_headers
    cdef readonly bint wants_msg_id
    cdef readonly Lists maps
    cdef readonly Strings keys
    cdef readonly Lists lists
    cdef readonly Strings values
    cdef readonly Strings msg_id
    cdef readonly Py_ssize_t msg_ids
    cdef array _there
    cdef Py_ssize_t _rows
    cdef array _lines
    cdef Py_ssize_t _most_lines

    @cython.locals(lines=Py_ssize_t)
    cpdef reserve(self, Py_ssize_t rows, Py_ssize_t line_bytes, Py_ssize_t most_lines)
    @cython.locals(lines="long long*")
    cdef bint has_many_lines(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    @cython.locals(lines="long long*", count=Py_ssize_t)
    cdef void add(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end, bint ordered) noexcept nogil
    @cython.locals(first=Py_ssize_t, key="long long", size="long long", other=Py_ssize_t, line=Py_ssize_t, other_size="long long")
    cdef void _add_map(
        self, const unsigned char* p, long long* lines, Py_ssize_t count, bint ordered
    ) noexcept nogil
    @cython.locals(line=Py_ssize_t)
    cdef void _add_value(self, const unsigned char* p, long long* lines, Py_ssize_t index) noexcept nogil
    @cython.locals(there="unsigned char*", index=Py_ssize_t, line=Py_ssize_t)
    cdef void _add_msg_id(self, const unsigned char* p, long long* lines, Py_ssize_t count) noexcept nogil
    cpdef clear(self)

@cython.locals(at=Py_ssize_t, stop=Py_ssize_t)
cpdef tuple in_order(bytes lines)
@cython.locals(index=Py_ssize_t)
cdef bint _same(const unsigned char* p, Py_ssize_t first, Py_ssize_t second, Py_ssize_t size) noexcept nogil
@cython.locals(name="const unsigned char*", index=Py_ssize_t)
cdef bint _is_msg_id(const unsigned char* p, Py_ssize_t at) noexcept nogil
