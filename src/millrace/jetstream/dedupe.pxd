cimport cython

from millrace.store.numbers cimport Numbers

cdef Py_ssize_t _SPARE

@cython.final
cdef class Dedupe:
    cdef public long long window_ns
    cdef dict _seen
    cdef list _ids
    cdef Numbers _seqs
    cdef Numbers _times
    cdef Py_ssize_t _head
    cdef bytes _last_id
    cdef unsigned long long _last_seq

    cpdef unsigned long long find(self, bytes message_id, long long now_ns) except *
    cpdef add(self, bytes message_id, unsigned long long seq, long long now_ns)
    cpdef bytes id_of(self, unsigned long long last_seq)
    cpdef clear(self)
    @cython.locals(head=Py_ssize_t, message_id=bytes)
    cdef _forget_old(self, long long oldest_ns)
    cdef long long _time_at(self, Py_ssize_t index) noexcept
    @cython.locals(seqs=Numbers, times=Numbers, index=Py_ssize_t)
    cdef _drop(self, Py_ssize_t count)
