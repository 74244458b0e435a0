cimport cython

from millstream.store.log cimport Log
from millstream.store.record cimport Record

cdef long long _GRAINS
cdef long long _GRAIN_NS
cdef long long _LONGEST_S

@cython.final
cdef class TtlExpiry:
    cdef object _stream
    cdef Log _log
    cdef dict _buckets
    cdef list _order
    cdef Py_ssize_t _count
    cdef object _timer
    cdef object _timer_bucket
    cdef bint _running
    cdef bint _expiring
    cdef bint _compacting
    cdef bint _troubled
    cdef Record _record

    @cython.locals(number="long long")
    cpdef add(self, unsigned long long seq, long long timestamp, long long ttl_s)
    @cython.locals(seconds="long long")
    cpdef long long plain_ttl(self, bytes text) except? 0
