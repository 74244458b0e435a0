cimport cython

from millstream.store.record cimport RecordBuffer, end_mark

@cython.locals(end=Py_ssize_t, target=Py_ssize_t, marked=bint)
cpdef tuple plan(RecordBuffer buffer, bint fill)
