cimport cython

from millstream.base.buffer cimport GrowingBuffer, read_little
from millstream.base.numbers cimport Numbers
from millstream.store.segment cimport Segment
from millstream.store.subject_list cimport SubjectList

cdef Py_ssize_t _SUBJECT_SIZE
cdef unsigned int _HEADER_BIT
cdef unsigned int _SUBJECT_MASK

@cython.final
cdef class SubjectSums:
    cdef readonly SubjectList names
    cdef public Numbers counts
    cdef readonly Numbers firsts
    cdef readonly Numbers lasts

    @cython.locals(size=Py_ssize_t)
    cpdef Py_ssize_t read(self, bytes data, Py_ssize_t at, Py_ssize_t count) except -1
    cpdef Py_ssize_t read_names(self, bytes data, Py_ssize_t at, Py_ssize_t count) except -1

@cython.locals(out=GrowingBuffer, size_width=Py_ssize_t, subject_width=Py_ssize_t)
cpdef bytes encode(Segment segment, Py_ssize_t all_bytes)
@cython.locals(
    names=SubjectList, counts=Numbers, firsts=Numbers, lasts=Numbers, number=Py_ssize_t, size=Py_ssize_t
)
cdef _put_subjects(GrowingBuffer out, Segment segment)
@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t _gap_at(Segment segment, Py_ssize_t ordinal) noexcept
@cython.locals(ordinal=Py_ssize_t, gap=Py_ssize_t, largest=Py_ssize_t)
cdef Py_ssize_t _largest_gap(Segment segment)
@cython.locals(ordinal=Py_ssize_t)
cdef _put_gaps(GrowingBuffer out, Segment segment, Py_ssize_t width)
@cython.locals(value="unsigned int")
cdef unsigned int _number_at(Segment segment, Py_ssize_t ordinal) noexcept
@cython.locals(ordinal=Py_ssize_t, largest="unsigned int", value="unsigned int", same=bint)
cdef int _subject_width(Segment segment)
@cython.locals(ordinal=Py_ssize_t)
cdef _put_numbers(GrowingBuffer out, Segment segment, Py_ssize_t width)
@cython.locals(tables=Segment, sums=SubjectSums)
cpdef load_tables(Segment segment, object summary)
@cython.locals(
    offsets=Numbers, table=Numbers, others=Numbers, seqs=Numbers, position=Py_ssize_t, count=Py_ssize_t,
    width=Py_ssize_t,
)
cdef _load(Segment tables, SubjectSums sums, object layout)
@cython.locals(counts=Numbers, firsts=Numbers, lasts=Numbers, number=Py_ssize_t)
cdef bint _sums_are_right(Segment tables, SubjectSums sums) except -1
