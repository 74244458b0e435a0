cimport cython

cdef Py_ssize_t _SHORT

@cython.locals(data=bytes, room="char*", count=Py_ssize_t)
cpdef bytes read_at(int descriptor, long long offset, Py_ssize_t size)
