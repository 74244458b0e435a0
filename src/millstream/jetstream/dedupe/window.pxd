cimport cython

from millstream.base.siphash cimport SipHash
from millstream.jetstream.dedupe.generation cimport Generation
from millstream.jetstream.dedupe.recent cimport RecentIds

cdef Py_ssize_t _ANY_NUMBER
cdef long long _WITHOUT_WINDOW_NS

@cython.final
cdef class Dedupe:
    cdef public long long window_ns
    cdef public Py_ssize_t most
    cdef public Py_ssize_t least
    cdef public bint full
    cdef public object damaged
    cdef readonly RecentIds recent
    cdef readonly RecentIds older
    cdef readonly list generations
    cdef unsigned long long _reached
    cdef SipHash _hash
    cdef bytes _hashed
    cdef bytes _last_id
    cdef unsigned long long _last_seq

    @cython.locals(oldest_ns="long long", found="unsigned long long")
    cpdef unsigned long long find(self, bytes message_id, long long now_ns) except? 0
    @cython.locals(generation=Generation)
    cdef unsigned long long _find_older(self, long long oldest_ns, unsigned long long found) except? 0
    @cython.locals(grew=bint)
    cpdef add(self, bytes message_id, unsigned long long seq, long long now_ns)
    cpdef bytes id_of(self, unsigned long long last_seq)
