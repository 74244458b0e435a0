cimport cython

from millstream.base.untracked cimport keep

cdef Py_ssize_t _SPLIT_AT
cdef Py_ssize_t _PARTS
cdef Py_ssize_t _MASK
cdef Py_ssize_t _DROPPED_AT_ONCE
cdef int _SHIFT

@cython.final
cdef class WideMap:
    cdef dict _first
    cdef list _parts
    cdef Py_ssize_t _count
    cdef Py_ssize_t _last

    cpdef get(self, bytes key)
    cpdef put(self, bytes key, object value)
    cpdef remove(self, bytes key)
    @cython.locals(part=dict)
    cpdef take_one(self)
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t drop_some(self) except -1
    cpdef list list_values(self, Py_ssize_t part)
    cpdef list list_keys(self, Py_ssize_t part)
    cpdef Py_ssize_t parts(self)
    cpdef clear(self)
    cdef list _all(self)
    @cython.locals(bits=size_t)
    cdef dict _part(self, bytes key)
    @cython.locals(key=bytes, entries=dict)
    cdef _split(self)
