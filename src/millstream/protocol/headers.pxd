cimport cython

cdef bytes _LINE

@cython.locals(needle=bytes, at=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
cpdef bytes find(bytes block, bytes key)
cpdef bytes without_status(bytes block)
