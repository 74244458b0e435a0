cimport cython

@cython.final
cdef class Usage:
    cdef readonly long long bytes
    cdef public long long staged
    cdef public long long limit
    cdef Usage _whole

    cpdef add(self, long long change)
    cpdef long long left(self) noexcept
    cpdef bint whole_is_exhausted(self) noexcept

@cython.final
cdef class Resources:
    cdef readonly dict usage
    cdef public object limits
    cdef public long long max_buffered_messages
    cdef public long long max_buffered_size
    cdef public long long max_unwritten
    cdef public long long unwritten
    cdef public bint resting
    cdef public long long max_pending
    cdef public double erase_within_s
    cdef public Py_ssize_t ids_in_memory
    cdef public Py_ssize_t least_ids
    cdef public list accounts
    cdef readonly object staged
    cdef public Py_ssize_t batches
    cdef public long long batch_bytes
    cdef public long long max_batch_bytes
    cdef public Py_ssize_t fast_batches
