cimport cython

from millstream.store.log cimport Log
from millstream.store.segment cimport Segment

@cython.locals(segment=Segment)
cpdef add_marks(Log log, unsigned long long seq, int marks)
@cython.locals(segment=Segment)
cpdef list with_headers(Log log, unsigned long long first)
@cython.locals(ordinal=Py_ssize_t, found=list)
cdef list _with_headers(Segment segment)
