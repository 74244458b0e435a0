cimport cython

from millstream.archive.blocks cimport BlockReader
from millstream.archive.entries cimport EntryBuffer, EntryReader
from millstream.archive.stream_index cimport DeletedSequences
from millstream.store.frozen cimport Frozen
from millstream.store.log cimport Log
from millstream.store.record cimport Record

cdef int _MARK_MSG_ID
cdef int _MARK_TTL
cdef int _MARK_SCHEDULE
cdef bytes _MSG_ID
cdef bytes _TTL
cdef bytes _SCHEDULE
cdef unsigned long long _LARGEST_SEQ
cdef long long _AHEAD

@cython.final
cdef class MessageLoader:
    cdef readonly Log log
    cdef public unsigned long long last_seq
    cdef readonly bint ended
    cdef Py_ssize_t _max_payload
    cdef Py_ssize_t _max_size
    cdef Py_ssize_t _max_subject
    cdef object _limits
    cdef long long _extra
    cdef long long _most
    cdef long long _held
    cdef object _now_ns

    @cython.locals(count=Py_ssize_t)
    cpdef bint take(self, EntryReader reader, Py_ssize_t most) except -1
    @cython.locals(count=Py_ssize_t)
    cpdef bint take_records(self, BlockReader reader, Py_ssize_t most, DeletedSequences deleted=*) except -1
    @cython.locals(log=Log, marks=int, block=bytes, stored="long long")
    cpdef add(
        self, bytes subject, bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
        unsigned long long seq, long long timestamp,
    )
    @cython.locals(last="long long")
    cpdef skip_to(self, unsigned long long seq, long long timestamp=*)
    cdef _hold(self, long long stored)
    cdef _check_subject(self, bytes subject, unsigned long long seq)
    cdef bint _is_over(self, bytes block, long long timestamp) except -1

@cython.locals(marks=int)
cdef int _marks_of(bytes block) except -1

cpdef bint fill(EntryBuffer buffer, Frozen frozen, Record record, Py_ssize_t most) except -1
