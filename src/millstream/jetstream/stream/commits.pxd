cimport cython

from millstream.jetstream.stream.committed_log cimport Committing
from millstream.jetstream.consumers.commit_waiters cimport AwaitingCommit
from millstream.jetstream.dedupe.window cimport Dedupe
from millstream.jetstream.publish.ingest cimport Ingest
from millstream.jetstream.resources cimport Resources, Usage
from millstream.protocol.replies cimport Replies
from millstream.store.log cimport Log

cdef long long _UNTOLD_BYTES
cdef long long _LOOKS
cdef double _REST_S

cdef class StreamCommits(Committing):
    cdef readonly object world
    cdef readonly Resources resources
    cdef readonly Usage usage
    cdef readonly Py_ssize_t counted
    cdef public Ingest ingest
    cdef public Dedupe dedupe
    cdef readonly AwaitingCommit awaiting_commit
    cdef public object failure
    cdef public bint backlogged
    cdef public bint out_of_room
    cdef public bint ages
    cdef public bytes _ack_start
    cdef Replies _waiting_acks
    cdef Replies _committing_acks
    cdef Replies _durable_acks
    cdef public Py_ssize_t _damages_told
    cdef Py_ssize_t _unwritten
    cdef list _gone
    cdef Py_ssize_t _gone_committing
    cdef Py_ssize_t _gone_durable
    cdef bint _ahead

    @cython.locals(committing=Replies, gone=list)
    cpdef commit_begins(self)
    @cython.locals(
        resources=Resources, log=Log, unwritten=Py_ssize_t, gathered="long long", messages_left="long long",
        bytes_left="long long", untold="long long", acks=Replies,
    )
    cpdef commit_waits(self)
    @cython.locals(done=Replies)
    cpdef commit_durable(self)
    @cython.locals(acks=Replies, gone=list)
    cpdef commit_ended(self)
    cdef list _take_gone(self, list gone)
    @cython.locals(log=Log)
    cpdef Py_ssize_t bytes(self) except? -1
    cpdef count_as(self, Py_ssize_t size)
    @cython.locals(resources=Resources, most="long long")
    cdef _weigh(self, Py_ssize_t unwritten)
