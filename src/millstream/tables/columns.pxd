cimport cython

from millstream.base.buffer cimport same_bytes
from millstream.tables.memory cimport Memory, Texts, find_byte

cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _SPACE
cdef unsigned char _TAB
cdef unsigned char _COLON
cdef unsigned char _DOT
cdef bytes _FIRST_END
cdef int _FEW_HEADERS
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
    cdef Py_ssize_t[128] _places

    cdef _begin_lists(self)
    @cython.locals(lines=Py_ssize_t)
    cdef int add(
        self, const unsigned char* p, Py_ssize_t subject, Py_ssize_t subject_size, long long seq,
        long long time_ns, Py_ssize_t header, Py_ssize_t header_end, Py_ssize_t payload,
        Py_ssize_t payload_size, Py_ssize_t size,
    ) except -1
    @cython.locals(count=int)
    cdef int _add_headers(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(
        count=int, at=Py_ssize_t, line_end=Py_ssize_t, colon=Py_ssize_t, value=Py_ssize_t, value_end=Py_ssize_t
    )
    cdef int _find_headers(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept
    @cython.locals(i=int, j=int)
    cdef int _add_found(self, const unsigned char* p, int count) except -1
    @cython.locals(count=Py_ssize_t)
    cdef bint _same_name(self, const unsigned char* p, int i, int j) noexcept
    @cython.locals(found=dict, name=bytes, value=bytes, values=list)
    cdef int _add_many(self, bytes lines) except -1
    @cython.locals(at=Py_ssize_t)
    cdef Py_ssize_t _line_end(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) noexcept
    @cython.locals(line_end=Py_ssize_t, colon=Py_ssize_t, value=Py_ssize_t, known=bint)
    cdef int _add_id(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(at=Py_ssize_t, i=Py_ssize_t)
    cdef int _add_tokens(self, const unsigned char* p, Py_ssize_t start, Py_ssize_t end) except -1

    cpdef object flush(self, object schema)
    cdef object _array(self, str name, object kind)
    cdef object _texts(self, object kind, Texts texts, Py_ssize_t count)

cdef object _numbers(object kind, Memory memory, Py_ssize_t count)
cdef object _lists(object kind, Memory ends, Py_ssize_t count, object children)
