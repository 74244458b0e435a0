cimport cython

from millstream.subjects.overlap cimport PatternSet
from millstream.subjects.tree cimport SubjectTree

cdef Py_ssize_t _MOST_KNOWN
cdef Py_ssize_t _FEW
cdef bytes _ANY

@cython.final
cdef class FilterIndex:
    cdef dict _groups
    cdef SubjectTree _tree
    cdef PatternSet _set
    cdef readonly dict known

    @cython.locals(pattern=bytes, group=dict)
    cpdef add(self, tuple patterns, object member)
    @cython.locals(pattern=bytes, group=dict)
    cpdef discard(self, tuple patterns, object member)
    @cython.locals(found=tuple)
    cpdef tuple find(self, bytes subject)
    cpdef list colliding(self, bytes pattern)
    cdef list _patterns_beside(self, bytes pattern)
    cdef list _patterns_of(self, bytes subject)
