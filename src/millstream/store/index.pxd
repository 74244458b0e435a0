cimport cython

from millstream.base.buffer cimport equal_bytes
from millstream.base.untracked cimport untrack
from millstream.base.wide_map cimport WideMap
from millstream.base.numbers cimport Numbers
from millstream.store.subject_list cimport SubjectList

@cython.final
@cython.no_gc
cdef class SubjectNode:
    cdef public object children
    cdef public unsigned long long count
    cdef public unsigned long long first
    cdef public unsigned long long last
    cdef public bint first_exact
    cdef public bint last_exact

@cython.final
cdef class SubjectIndex:
    cdef SubjectNode _root
    cdef readonly Py_ssize_t subjects
    cdef public SubjectNode newest
    cdef readonly bytes newest_subject
    cdef SubjectNode _parent
    cdef bytes _head
    cdef SubjectNode _found
    cdef bytes _found_subject
    cdef dict _dots
    cdef readonly Py_ssize_t looked_at

    @cython.locals(node=SubjectNode, child=SubjectNode, token=bytes, parent=SubjectNode, last=SubjectNode)
    cpdef SubjectNode find(self, bytes subject)
    @cython.locals(node=SubjectNode, child=SubjectNode, token=bytes)
    cdef SubjectNode _find_parent(self, bytes subject)
    @cython.locals(p="const unsigned char*", at=Py_ssize_t)
    cdef bint _is_below_parent(self, bytes subject) except -1
    cpdef discount_node(self, SubjectNode node, unsigned long long seq)
    @cython.locals(node=SubjectNode, token=bytes, parent=SubjectNode)
    cpdef SubjectNode add(self, bytes subject, unsigned long long seq)
    @cython.locals(node=SubjectNode)
    cpdef append(self, bytes subject, unsigned long long seq)
    @cython.locals(node=SubjectNode)
    cpdef remove(self, bytes subject, unsigned long long seq)
    cpdef count_one(self, SubjectNode node, unsigned long long seq)
    @cython.locals(node=SubjectNode)
    cpdef add_many(self, bytes subject, unsigned long long count, unsigned long long first, unsigned long long last)
    @cython.locals(number=Py_ssize_t)
    cpdef add_sums(self, SubjectList names, Numbers counts, Numbers firsts, Numbers lasts)
    @cython.locals(node=SubjectNode)
    cpdef discount(self, bytes subject, unsigned long long seq)
    @cython.locals(node=SubjectNode)
    cpdef discount_many(self, bytes subject, unsigned long long count, unsigned long long below)
    @cython.locals(
        tokens=list, end=Py_ssize_t, depth=Py_ssize_t, open_end=bint, counts=bint, below=bint, wild=bint,
        total=Py_ssize_t, nodes=list, depths=list, node=SubjectNode, child=SubjectNode,
    )
    cpdef Py_ssize_t count_between(
        self, bytes pattern, unsigned long long first, unsigned long long last, Py_ssize_t most
    ) except? -2
    @cython.locals(node=SubjectNode, token=bytes)
    cpdef bint is_covered_by(self, bytes pattern) except -1
    @cython.locals(node=SubjectNode, position=Py_ssize_t)
    cpdef _prune(self, list path, list tokens)
    cdef _forget_depth(self, Py_ssize_t dots)

@cython.locals(token=bytes, child=SubjectNode, found=list)
cdef list _branches(dict children)
@cython.locals(only=SubjectNode, wide=WideMap, found=list, part=Py_ssize_t)
cdef list _children(SubjectNode node, bytes token, Py_ssize_t most)

cdef Py_ssize_t _WIDE_AT
cdef int _DOT
cdef Py_ssize_t _FREED_AT_ONCE

@cython.locals(small=dict, wide=WideMap)
cdef SubjectNode _child(SubjectNode node, bytes token)
@cython.locals(small=dict, wide=WideMap)
cdef _put_child(SubjectNode node, bytes token, SubjectNode child)
cdef _drop_child(SubjectNode node, bytes token)
