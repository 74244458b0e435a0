cimport cython

@cython.final
cdef class LogState:
    cdef public unsigned long long first_seq
    cdef public unsigned long long last_seq
    cdef public long long last_timestamp
    cdef public unsigned long long committed
    cdef public Py_ssize_t messages
    cdef public Py_ssize_t record_bytes
    cdef public Py_ssize_t with_headers

    cpdef start_at(self, unsigned long long seq)
    cpdef is_empty_now(self)
