cimport cython

from millstream.store.record cimport RecordBuffer, end_mark

cdef Py_ssize_t _SMALL_COMMIT
cdef Py_ssize_t _LEAST_AHEAD
cdef Py_ssize_t _MOST_AHEAD
cdef Py_ssize_t _PAGE
cdef Py_ssize_t _HEADER_SIZE

@cython.locals(ahead=Py_ssize_t)
cpdef Py_ssize_t fill_target(Py_ssize_t end, Py_ssize_t room) except -1
@cython.locals(end=Py_ssize_t, target=Py_ssize_t, marked=bint)
cpdef tuple plan(RecordBuffer buffer, bint fill)
