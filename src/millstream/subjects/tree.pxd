cimport cython

@cython.trashcan(True)
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

@cython.final
cdef class Paths:
    cdef Node node
    cdef Py_ssize_t depth
    cdef bint _here
    cdef list _left

    cdef bint next(self) except -1
    cdef void go_on(self, Node star, Node child) except *

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
    @cython.locals(node=Node, paths=Paths, size=Py_ssize_t)
    cdef bint _collect_any_tail(self, list tokens, Matches found) except -1
    @cython.locals(node=Node, paths=Paths, size=Py_ssize_t)
    cdef bint _collect_any_last(self, list tokens, Matches found) except -1
    @cython.locals(node=Node, child=Node, star=Node, paths=Paths, last=Py_ssize_t)
    cdef _collect(self, list tokens, Matches found)
    cdef _take(self, Node node, Matches found)
