cimport cython

cdef class Node:
    cdef public dict children
    cdef public Node star
    cdef public Node tail
    cdef public dict plain
    cdef public dict queues

    cpdef bint is_empty(self)

cdef class Matches:
    cdef public list plain
    cdef public dict queues

cdef class SubjectTree:
    cdef public Node root
    cdef public Py_ssize_t count
    cdef public Py_ssize_t inserts
    cdef public Py_ssize_t removes

    @cython.locals(node=Node, child=Node, index=Py_ssize_t, last=Py_ssize_t)
    cpdef insert(self, bytes pattern, bytes queue, object value)
    @cython.locals(node=Node, child=Node, index=Py_ssize_t, last=Py_ssize_t)
    cpdef remove(self, bytes pattern, bytes queue, object value)
    @cython.locals(index=Py_ssize_t, parent=Node)
    cpdef _prune(self, list path, list tokens)
    @cython.locals(found=Matches)
    cpdef Matches match(self, bytes subject)
    @cython.locals(found=Matches)
    cpdef Matches match_any_last(self, bytes prefix)
    @cython.locals(found=Matches)
    cpdef Matches match_any_tail(self, bytes prefix)
    @cython.locals(child=Node)
    cdef bint _collect_any_tail(self, Node node, list tokens, Py_ssize_t index, Matches found) except -1
    @cython.locals(child=Node)
    cdef bint _collect_any_last(self, Node node, list tokens, Py_ssize_t index, Matches found) except -1
    @cython.locals(child=Node, star=Node)
    cdef _collect(self, Node node, list tokens, Py_ssize_t index, Matches found)
    cdef _take(self, Node node, Matches found)
