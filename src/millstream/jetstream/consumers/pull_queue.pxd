cimport cython

from millstream.jetstream.consumers.pull_request cimport PullRequest

cdef long long _SECOND
cdef long long _PLENTY
cdef long long _WALKED_AT_ONCE

@cython.final
cdef class WaitingPulls:
    cdef public list statuses
    cdef readonly object groups
    cdef readonly long long count
    cdef readonly long long last_asked_ns
    cdef object _has_interest
    cdef PullRequest _head
    cdef PullRequest _tail
    cdef long long _one_shots
    cdef long long _due
    cdef long long _walked_ns
    cdef PullRequest _next
    cdef long long _next_due
    cdef PullRequest _claimant
    cdef long long _max_waiting
    cdef long long _max_batch
    cdef long long _max_expires
    cdef long long _max_bytes
    cdef bint _overflow
    cdef bint _pinning
    cdef bint _ranked
    cdef bint _plain

    cpdef configure(self, object config)
    @cython.locals(request=PullRequest)
    cpdef bint ask(self, bytes reply, bytes body, bytes headers, long long now_ns, long long num_pending, long long num_redeliveries) except *
    @cython.locals(available="long long", claimed="long long")
    cpdef bint add(self, PullRequest request, long long now_ns, long long num_pending, long long num_redeliveries) except *
    cdef bytes _refusal(self, PullRequest request, long long now_ns)
    @cython.locals(request=PullRequest)
    cpdef PullRequest current(self, long long now_ns, long long num_pending, long long num_ack_pending)
    @cython.locals(request=PullRequest, passed_over="long long", claiming=bint, stands_by=bint)
    cdef PullRequest _choose(self, long long now_ns, long long num_pending, long long num_ack_pending)
    @cython.locals(request=PullRequest, other=PullRequest)
    cpdef long long run_length(self) except *
    cpdef served(self, PullRequest request, long long size, long long now_ns, long long messages=*)
    cpdef too_big(self, PullRequest request)
    cpdef gone(self, PullRequest request, bint imported=*)
    cpdef bint pass_over(self, PullRequest request) except *
    cdef _forget_claim(self, PullRequest request)
    cpdef bint exhausted(self, long long now_ns, unsigned long long last_dseq, unsigned long long last_sseq) except *
    cpdef bint expire(self, long long now_ns, unsigned long long last_dseq, unsigned long long last_sseq) except *
    @cython.locals(due="long long", pin_due="long long")
    cpdef long long due(self) except *
    cpdef long long num_waiting(self, long long now_ns) except *
    cdef long long _walk(self, long long now_ns, bint ended) except *
    @cython.locals(walked_due="long long")
    cdef bint _walk_on(self, long long now_ns, bint ended) except *
    @cython.locals(request=PullRequest, following=PullRequest, claimed="long long", left="long long")
    cdef long long _look_at(self, PullRequest first, long long most, long long now_ns, bint ended) except *
    @cython.locals(request=PullRequest)
    cdef _beat(self, long long now_ns, unsigned long long last_dseq, unsigned long long last_sseq)
    @cython.locals(left="long long")
    cpdef deleted(self, long long most)
    @cython.locals(request=PullRequest)
    cpdef shut_down(self)
    cdef _end(self, PullRequest request, bytes status)
    cdef _expect(self, long long when_ns)
    @cython.locals(after=PullRequest)
    cdef _insert(self, PullRequest request)
    cdef _append(self, PullRequest request)
    @cython.locals(following=PullRequest)
    cdef _put_after(self, PullRequest before, PullRequest request)
    @cython.locals(before=PullRequest, following=PullRequest)
    cdef _unlink(self, PullRequest request)

cdef long long _earlier(long long due, long long other) noexcept
