cimport cython

from millrace.base.buffer cimport GrowingBuffer
from millrace.store.numbers cimport Numbers
from millrace.store.segment cimport Segment

cdef unsigned int _HEADER_BIT
cdef unsigned int _SUBJECT_MASK

cdef class SubjectCounts:
    cdef readonly list counts
    cdef readonly list firsts
    cdef readonly list lasts

@cython.locals(ordinal=Py_ssize_t, end=Py_ssize_t)
cdef Numbers _gaps(Segment segment)
@cython.locals(ordinal=Py_ssize_t, value="unsigned int", table=Numbers)
cdef Numbers _numbers(Segment segment)
@cython.locals(largest="unsigned long long", value="unsigned long long", index=Py_ssize_t)
cdef unsigned long long _largest(Numbers numbers)
@cython.locals(first="unsigned long long", largest="unsigned long long", index=Py_ssize_t, same=bint)
cdef int _narrowest(Numbers numbers)
@cython.locals(index=Py_ssize_t)
cdef _put_all(GrowingBuffer out, Numbers numbers, Py_ssize_t width)
@cython.locals(p="const unsigned char*", value="unsigned int", byte="unsigned int", index=Py_ssize_t)
cdef unsigned int _little(bytes data, Py_ssize_t at, Py_ssize_t width)
@cython.locals(offsets=Numbers, table=Numbers, others=Numbers, at=Py_ssize_t, position=Py_ssize_t, ordinal=Py_ssize_t, count=Py_ssize_t, width=Py_ssize_t, value="unsigned int")
cpdef load_tables(Segment segment, object summary)
