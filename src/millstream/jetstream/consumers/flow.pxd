from millstream.jetstream.consumers.feed cimport Feed

cdef long long _LARGEST_WINDOW
cdef long long _FIRST_WINDOW
cdef long long _NS
cdef long long _SHORTEST_PAUSE_NS

cdef class FlowWindow:
    cdef readonly long long window
    cdef readonly long long outstanding
    cdef readonly bytes subject
    cdef long long _asked_at

    cpdef bint is_blocked(self) noexcept
    cpdef long long room(self) noexcept
    cpdef bint sent(self, long long size) noexcept
    cpdef ask(self, bytes subject)
    cpdef bint answer(self, bytes subject) except -1

cdef class Rate:
    cdef double _bytes_per_second
    cdef double _burst
    cdef double _tokens
    cdef long long _at

    cpdef sent(self, long long size)

cdef class OriginalPace:
    cdef readonly unsigned long long last_sseq
    cdef long long _last_timestamp
    cdef long long _due

    cpdef sent(self, long long timestamp)
