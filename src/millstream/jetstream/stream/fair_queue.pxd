cimport cython

@cython.final
cdef class FairQueue:
    cdef readonly object publisher
    cdef dict _publisher_of
    cdef dict _items_of
    cdef object _turns

    cpdef add(self, object item, object publisher)
    cpdef discard(self, object item)
    cpdef object pop(self)
