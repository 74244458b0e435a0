cimport cython

from millstream.store.cursor cimport Cursor
from millstream.store.log cimport Log
from millstream.store.record cimport Record
from millstream.store.segment cimport Segment

@cython.locals(
    record=Record, cursor=Cursor, segment=Segment, log=Log, seq="unsigned long long", wanted=int, oldest="long long"
)
cpdef restore(stream)
@cython.locals(ordinal=Py_ssize_t, found=list)
cdef list _with_headers(Log log, Segment segment)
@cython.locals(block=bytes, marks=int, message_id=bytes)
cdef int _restore_one(stream, Record record, int wanted, long long oldest) except -1
