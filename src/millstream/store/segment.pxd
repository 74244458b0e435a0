cimport cython

from millstream.base.numbers cimport Numbers
from millstream.store.record cimport RecordBuffer
from millstream.store.subject_links cimport SubjectLinks
from millstream.store.subject_list cimport SubjectList
from millstream.store.waypoints cimport Waypoints

cdef Py_ssize_t _FILE_HEADER_SIZE
cdef Py_ssize_t _STRIDE
cdef unsigned int _HEADER_BIT
cdef unsigned int _SUBJECT_MASK
cdef Py_ssize_t _PASSES
cdef Py_ssize_t _MANY_PASSED

@cython.final
cdef class Segment:
    cdef readonly unsigned long long number
    cdef public unsigned long long start_seq
    cdef public unsigned long long base_seq
    cdef public unsigned long long last_seq
    cdef public long long first_timestamp
    cdef public long long last_timestamp
    cdef public bint times_fall
    cdef public Py_ssize_t size
    cdef public Py_ssize_t synced
    cdef public bint doubtful
    cdef public bint noted
    cdef public object file
    cdef readonly RecordBuffer pending
    cdef public RecordBuffer writing
    cdef public bint sealed
    cdef public bint summarized
    cdef public bint compressed
    cdef public Py_ssize_t count
    cdef public Py_ssize_t live
    cdef public Py_ssize_t live_bytes
    cdef public Py_ssize_t erased
    cdef public bint overdue
    cdef public bint due
    cdef public Py_ssize_t all_bytes
    cdef public Py_ssize_t with_headers
    cdef public int marks
    cdef public bytearray removed
    cdef public Numbers removals
    cdef public unsigned long long floor
    cdef public int pins
    cdef public int held
    cdef public Py_ssize_t epoch
    cdef readonly bint loaded
    cdef public bint touched
    cdef readonly Numbers offsets
    cdef readonly Numbers subject_of
    cdef readonly Numbers seqs
    cdef readonly Numbers others
    cdef readonly SubjectList subjects
    cdef SubjectLinks _links
    cdef Py_ssize_t _passed
    cdef public Waypoints waypoints
    cdef readonly Numbers timed
    cdef readonly Numbers times
    cdef Py_ssize_t _timed_end
    cdef readonly Numbers counts
    cdef readonly Numbers firsts
    cdef readonly Numbers lasts

    cpdef Py_ssize_t write(
        self, int kind, unsigned long long seq, long long timestamp, bytes subject,
        bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
    ) except -1
    @cython.locals(ordinal=Py_ssize_t, number="unsigned int", known=Py_ssize_t)
    cpdef Py_ssize_t note(
        self, unsigned long long seq, long long timestamp, bytes subject, bint has_headers, Py_ssize_t size
    ) except -1
    cpdef close(self)
    cdef int _note_time(self, Py_ssize_t ordinal, long long timestamp) except -1
    cpdef note_other(self, Py_ssize_t size)
    cpdef note_gap(self, Py_ssize_t end)
    cpdef _make_sparse(self, unsigned long long seq)
    cpdef RecordBuffer take_pending(self)
    cpdef drop_pending(self)
    cpdef return_pending(self, RecordBuffer taken)
    cpdef unsigned long long seq_at(self, Py_ssize_t ordinal) noexcept
    cpdef bint knows_seqs(self) noexcept
    cpdef Py_ssize_t first_not_below(self, unsigned long long seq) noexcept
    @cython.locals(ordinal=Py_ssize_t)
    cpdef Py_ssize_t ordinal_of(self, unsigned long long seq) noexcept
    @cython.locals(removed=bytearray)
    cpdef bint is_removed(self, Py_ssize_t ordinal) noexcept
    @cython.locals(ordinal=Py_ssize_t)
    cpdef bint holds(self, unsigned long long seq) noexcept
    cpdef Py_ssize_t next_live(self, Py_ssize_t ordinal) noexcept
    @cython.locals(removed=bytearray)
    cdef bint _all_removed(self, Py_ssize_t ordinal) noexcept
    cpdef bytes subject_at(self, Py_ssize_t ordinal)
    cpdef Py_ssize_t subject_number(self, Py_ssize_t ordinal) noexcept
    cpdef bint has_headers(self, Py_ssize_t ordinal) noexcept
    cpdef Py_ssize_t offset_at(self, Py_ssize_t ordinal) noexcept
    @cython.locals(end=Py_ssize_t, between=Py_ssize_t)
    cpdef Py_ssize_t end_of(self, Py_ssize_t ordinal) noexcept
    cpdef Py_ssize_t size_of(self, Py_ssize_t ordinal) noexcept
    cpdef Py_ssize_t next_match(self, Py_ssize_t ordinal, bytes wanted) noexcept
    cpdef Py_ssize_t next_of(self, Py_ssize_t number, Py_ssize_t ordinal) except -1
    @cython.locals(links=SubjectLinks, found=Py_ssize_t)
    cdef Py_ssize_t _find_of(self, Py_ssize_t number, Py_ssize_t ordinal) except -1
    cdef _drop_links(self)
    @cython.locals(flags="const unsigned char*", known=Py_ssize_t, number=Py_ssize_t, subject_of=Numbers)
    cpdef Py_ssize_t previous_match(self, Py_ssize_t ordinal, bytes wanted) noexcept
    @cython.locals(found=Py_ssize_t, ordinal=Py_ssize_t)
    cpdef Py_ssize_t count_live(self, Py_ssize_t start, Py_ssize_t end, bytes wanted) except -1
    @cython.locals(ordinal=Py_ssize_t, number=Py_ssize_t, last=Py_ssize_t, seen=set)
    cpdef list subjects_between(self, Py_ssize_t start, Py_ssize_t end)
    cpdef Py_ssize_t subject_id(self, bytes subject)
    @cython.locals(needed=Py_ssize_t)
    cpdef mark_removed(self, Py_ssize_t ordinal, Py_ssize_t size)
    @cython.locals(
        subject_of=Numbers, flags="const unsigned char*", known=Py_ssize_t, ordinal=Py_ssize_t,
        value="unsigned int", number=Py_ssize_t, with_headers=Py_ssize_t,
    )
    cpdef Py_ssize_t remove_range(self, Py_ssize_t start, Py_ssize_t end, bytes wanted, Numbers counts) except -1
    @cython.locals(ordinal=Py_ssize_t)
    cpdef Py_ssize_t nth_live(self, Py_ssize_t start, Py_ssize_t count) noexcept
    @cython.locals(whole=Py_ssize_t, rest=int)
    cpdef mark_all_removed(self)
    cpdef Py_ssize_t exposed(self) noexcept
    @cython.locals(ordinal=Py_ssize_t, blank=Py_ssize_t)
    cpdef list exposed_ordinals(self)
    @cython.locals(
        found=list, removed=bytearray, known=Py_ssize_t, was="const unsigned char*", index=Py_ssize_t,
        bits="unsigned char", bit=int,
    )
    cpdef list removed_since(self, bytes before)
    @cython.locals(
        fresh=Segment, subjects=SubjectList, table=Numbers, numbers=Numbers, nameless=Py_ssize_t,
        following=Py_ssize_t, ordinal=Py_ssize_t, value="unsigned int", number=Py_ssize_t, known=Py_ssize_t,
    )
    cpdef Segment relabelled(self, list ordinals)
    cpdef take_times(self, Numbers timed, Numbers times)
    cpdef load(self, Numbers offsets, Numbers subject_of, Numbers seqs, Numbers others, SubjectList subjects)
    cpdef adopt_tables(self, Segment other)
    cpdef become(self, Segment other)
    cpdef unload(self, Py_ssize_t stride=*)
    cpdef forget_sums(self)
