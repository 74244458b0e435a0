cimport cython

cdef Py_ssize_t _WRITE_BYTES
cdef Py_ssize_t _SHORT

@cython.locals(data=bytes, room="char*", count=Py_ssize_t)
cpdef bytes read_at(int descriptor, long long offset, Py_ssize_t size)
@cython.locals(
    view="const unsigned char[::1]", p="const unsigned char*", size=Py_ssize_t, written=Py_ssize_t, count=Py_ssize_t, failed=int
)
cpdef write_at(int descriptor, long long offset, object data)
