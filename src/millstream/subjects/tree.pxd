cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.base.untracked cimport keep, untrack
from millstream.base.wide_map cimport WideMap

cdef unsigned char _DOT
cdef unsigned char _STAR
cdef unsigned char _TAIL

@cython.final
@cython.trashcan(True)
cdef class Node:
    cdef bytes _token
    cdef Node _only
    cdef WideMap _children
    cdef public Node star
    cdef public Node tail
    cdef object _value
    cdef dict _values
    cdef public dict queues

    cpdef bint is_empty(self)
    @cython.locals(branches=Py_ssize_t)
    cdef inline bint has_values(self)
    cdef bint has_one_branch(self)
    cdef Node child_at(self, bytes pattern, Py_ssize_t start, Py_ssize_t end)
    cdef inline Node child(self, bytes token)
    cdef inline bint has_children(self)
    @cython.locals(node=Node)
    cdef Node add_child(self, bytes token)
    cdef drop_child(self, bytes token)
    cpdef Py_ssize_t child_parts(self)
    cpdef list children(self, Py_ssize_t part)
    @cython.locals(members=dict)
    cdef add(self, bytes queue, object value)
    @cython.locals(members=dict)
    cdef discard(self, bytes queue, object value)
    cpdef take(self, list plain)
    cpdef Py_ssize_t value_count(self, bytes queue) except? -1

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

    @cython.locals(node=Node, tokens=list, token=bytes, number=Py_ssize_t)
    cpdef Node find(self, bytes pattern)
    @cython.locals(
        node=Node, child=Node, p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t
    )
    cpdef insert(self, bytes pattern, bytes queue, object value)
    @cython.locals(
        node=Node, child=Node, stump=Node, p="const unsigned char*", size=Py_ssize_t, start=Py_ssize_t,
        end=Py_ssize_t, cut_start=Py_ssize_t, cut_end=Py_ssize_t,
    )
    cpdef remove(self, bytes pattern, bytes queue, object value)
    @cython.locals(p="const unsigned char*")
    cdef _cut(self, Node stump, bytes pattern, Py_ssize_t start, Py_ssize_t end)
    cpdef clear(self)
    @cython.locals(found=Matches)
    cpdef Matches match(self, bytes subject)
    @cython.locals(found=Matches)
    cpdef Matches match_any_last(self, bytes prefix)
    @cython.locals(found=Matches)
    cpdef Matches match_any_tail(self, bytes prefix, int least=*)
    @cython.locals(node=Node, paths=Paths, size=Py_ssize_t)
    cdef bint _collect_any_tail(self, list tokens, int least, Matches found) except -1
    cdef bint _collect_stars(self, Node node, int most, Matches found) except -1
    @cython.locals(node=Node, paths=Paths, size=Py_ssize_t)
    cdef bint _collect_any_last(self, list tokens, Matches found) except -1
    @cython.locals(node=Node, child=Node, star=Node, paths=Paths, last=Py_ssize_t)
    cdef _collect(self, list tokens, Matches found)
    @cython.locals(members=dict)
    cdef _take(self, Node node, Matches found)
