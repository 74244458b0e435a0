cimport cython

from millstream.base.buffer cimport same_bytes
from millstream.protocol.header_lines cimport find_lines, lines_start
from millstream.tables.memory cimport Memory, Texts

cdef unsigned char _DOT
cdef bytes _FIRST_END
cdef int _FEW_LINES
cdef Py_ssize_t _NUMBERS
cdef bytes _MESSAGE_ID
cdef Py_ssize_t _MESSAGE_ID_SIZE

@cython.final
cdef class Columns:
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t volume
    cdef str _stream
    cdef bint _want_subject
    cdef bint _want_seq
    cdef bint _want_time
    cdef bint _want_time_ns
    cdef bint _want_size
    cdef bint _want_headers
    cdef bint _parse_headers
    cdef bint _want_data
    cdef bint _want_id
    cdef bint _want_tokens
    cdef bint _want_raw
    cdef Texts _subjects
    cdef Memory _seqs
    cdef Memory _times
    cdef Memory _times_ns
    cdef Memory _sizes
    cdef Memory _map_ends
    cdef Texts _keys
    cdef Memory _list_ends
    cdef Texts _values
    cdef Texts _data
    cdef Texts _ids
    cdef Memory _ids_known
    cdef Memory _token_ends
    cdef Texts _tokens
    cdef Texts _raw
    cdef int _key_count
    cdef int _value_count
    cdef int _token_count
    cdef long long[128] _lines

    cdef _begin_lists(self)
    @cython.locals(lines=Py_ssize_t)
    cdef int add(
        self, const unsigned char* p, Py_ssize_t subject, Py_ssize_t subject_size, long long seq,
        long long time_ns, Py_ssize_t header, Py_ssize_t header_end, Py_ssize_t payload,
        Py_ssize_t payload_size, Py_ssize_t size,
    ) except -1
    @cython.locals(count=Py_ssize_t)
    cdef object _add_lines(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(i=Py_ssize_t, j=Py_ssize_t, first=Py_ssize_t, other=Py_ssize_t, size=Py_ssize_t)
    cdef int _add_headers(self, const unsigned char* p, Py_ssize_t count) except -1
    cdef int _add_value(self, const unsigned char* p, Py_ssize_t line) except -1
    @cython.locals(i=Py_ssize_t, line=Py_ssize_t, key=Py_ssize_t, size=Py_ssize_t)
    cdef object _add_id(self, const unsigned char* p, Py_ssize_t count)
    @cython.locals(found=dict, name=bytes, value=bytes, values=list, ids=list, first=bytes)
    cdef object _add_many(self, bytes lines)
    @cython.locals(at=Py_ssize_t, i=Py_ssize_t)
    cdef int _add_tokens(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) except -1

    cpdef object flush(self, object schema)
    cdef object _array(self, str name, object kind)
    cdef object _texts(self, object kind, Texts texts, Py_ssize_t count)

cdef object _numbers(object kind, Memory memory, Py_ssize_t count)
cdef object _lists(object kind, Memory ends, Py_ssize_t count, object children)
