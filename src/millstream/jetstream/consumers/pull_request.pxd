cimport cython

cdef long long _UNRANKED

@cython.final
cdef class PullRequest:
    cdef public bytes reply
    cdef public long long left
    cdef public long long bytes_left
    cdef public long long delivered
    cdef public long long expires_ns
    cdef public long long heartbeat_ns
    cdef public long long heartbeat_due_ns
    cdef public bint no_wait
    cdef public bint formal
    cdef public str group
    cdef public long long min_pending
    cdef public long long min_ack_pending
    cdef public long long priority
    cdef public str pin_id
    cdef public bint waiting
    cdef public PullRequest next
    cdef public PullRequest previous

cpdef PullRequest parse_pull(bytes reply, bytes body, bytes headers, long long now_ns)
cdef PullRequest _parse_odd(bytes reply, bytes body, long long now_ns)
@cython.locals(request=PullRequest)
cdef PullRequest _formal(bytes reply, object asked, object now_ns)
