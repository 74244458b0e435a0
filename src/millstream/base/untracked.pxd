cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object thing)

cpdef untrack(object thing)
cpdef keep(dict where, object key, object value)
