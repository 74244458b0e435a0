cimport cython

from millstream.store.cursor cimport Cursor
from millstream.store.marks cimport add_marks, with_headers
from millstream.store.record cimport Record

@cython.locals(
    record=Record, cursor=Cursor, seq="unsigned long long", wanted=int, oldest="long long"
)
cpdef restore(stream)
@cython.locals(block=bytes, marks=int, message_id=bytes)
cdef int _restore_one(stream, Record record, int wanted, long long oldest) except -1
