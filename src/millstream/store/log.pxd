cimport cython

from millstream.store.commit cimport Commit
from millstream.store.index cimport SubjectIndex
from millstream.store.log_commits cimport LogCommits
from millstream.store.log_reader cimport LogReader
from millstream.store.log_removal cimport LogRemoval
from millstream.store.log_repair cimport LogRepair
from millstream.store.log_state cimport LogState
from millstream.store.log_upkeep cimport LogUpkeep
from millstream.store.log_writer cimport LogAppender
from millstream.store.next_commit cimport NextCommit
from millstream.store.record cimport Record
from millstream.store.segment cimport Segment
from millstream.store.segment_chain cimport SegmentChain

@cython.final
cdef class Log:
    cdef readonly LogState state
    cdef readonly SegmentChain chain
    cdef readonly SubjectIndex index
    cdef readonly NextCommit next_commit
    cdef readonly LogReader reader
    cdef readonly LogAppender writer
    cdef readonly LogCommits commits
    cdef readonly LogRemoval removal
    cdef readonly object losses
    cdef readonly LogRepair repair
    cdef readonly LogUpkeep upkeep

    cpdef bint has(self, unsigned long long seq) except -1
    cpdef bint get(self, unsigned long long seq, Record record) except -1
    cpdef bint peek(self, unsigned long long seq, Record record) except -1
    cpdef bint had(self, unsigned long long seq) except -1
    cpdef bint peek_removed(self, unsigned long long seq, Record record) except -1
    cpdef bytes subject_of(self, unsigned long long seq)
    cpdef Py_ssize_t size_of(self, unsigned long long seq) except -1
    cpdef bint has_headers(self, unsigned long long seq) except -1
    cpdef unsigned long long next_seq(self, unsigned long long seq) except? 0
    cpdef unsigned long long next_match(self, unsigned long long seq, bytes pattern) except? 0
    cpdef unsigned long long last_match(self, unsigned long long seq, bytes pattern) except? 0
    cpdef unsigned long long first_of(self, bytes subject) except? 0
    cpdef unsigned long long last_of(self, bytes subject) except? 0
    cpdef unsigned long long seq_at_time(self, long long timestamp) except? 0
    cpdef unsigned long long seq_behind(self, Py_ssize_t count) except 0
    cpdef unsigned long long count_of(self, bytes subject) except? 0
    cpdef unsigned long long append(
        self, bytes subject, bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
        long long timestamp, int marks,
    ) except 0
    cpdef skip_to(self, unsigned long long seq, long long timestamp)
    cpdef bint remove(self, unsigned long long seq) except -1
    cpdef bint erase(self, unsigned long long seq) except -1
    cpdef bint keep_of_newest(self, unsigned long long most) except -1
    cpdef Py_ssize_t remove_below(self, unsigned long long seq) except -1
    cpdef Py_ssize_t remove_matching(self, bytes pattern, unsigned long long below) except -1
    cpdef bint has_uncommitted(self) except *
    cpdef Py_ssize_t unwritten(self) except -1
    cpdef Py_ssize_t gathered(self) except -1
    cpdef Commit begin_commit(self, bint flush=*)
    cpdef end_commit(self, Commit commit)
    cpdef fail_commit(self, Commit commit)
    cpdef was_synced(self)
    @cython.locals(segments=list, segment=Segment)
    cpdef bint is_whole(self) except -1
    cpdef shed(self)
    cpdef Py_ssize_t age_removals(self) except -1
