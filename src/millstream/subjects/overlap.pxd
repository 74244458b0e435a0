cimport cython

cdef bytes _STAR
cdef bytes _TAIL

@cython.final
cdef class _Node:
    cdef dict children
    cdef Py_ssize_t ends

@cython.final
cdef class PatternSet:
    cdef _Node _root
    cdef Py_ssize_t _steps_left

    @cython.locals(node=_Node, following=_Node, token=bytes)
    cpdef add(self, bytes pattern)
    @cython.locals(node=_Node, above=_Node, token=bytes, path=list)
    cpdef remove(self, bytes pattern)
    @cython.locals(pattern=str)
    cpdef add_all(self, object patterns)
    @cython.locals(pattern=str)
    cpdef remove_all(self, object patterns)
    cpdef allow(self, Py_ssize_t most_steps)
    @cython.locals(node=_Node, found=_Node, token=bytes, each=bytes, nodes=list, following=list)
    cpdef bint collides(self, bytes pattern) except? -1
    @cython.locals(
        node=_Node, token=bytes, each=bytes, start=bytes, nodes=list, following=list, starts=list,
        starts_there=list, index=Py_ssize_t,
    )
    cpdef list colliding(self, bytes pattern)
    @cython.locals(token=bytes, below=_Node, nodes=list, starts=list)
    cdef _list_below(self, _Node node, bytes start, list found)
    @cython.locals(
        node=_Node, found=_Node, tail=_Node, token=bytes, each=bytes, nodes=list, following=list,
        covering=Py_ssize_t,
    )
    cpdef bint covers_twice(self, bytes subset) except? -1
    cdef _count(self, Py_ssize_t steps)
