cimport cython

from millstream.base.numbers cimport Numbers

@cython.final
cdef class Waypoints:
    cdef readonly unsigned long long base_seq
    cdef readonly Numbers offsets
    cdef readonly Numbers ordinals
    cdef readonly Numbers seqs
    cdef readonly Numbers times
    cdef Py_ssize_t _size

    @cython.locals(
        ordinal=Py_ssize_t, count=Py_ssize_t, offset=Py_ssize_t, end=Py_ssize_t, behind=Py_ssize_t,
        offsets=Numbers, seqs=Numbers, size=Py_ssize_t, stride=Py_ssize_t,
    )
    cpdef _choose(self, Numbers offsets, Numbers seqs, Py_ssize_t size, Py_ssize_t stride)
    cpdef Py_ssize_t before(self, unsigned long long seq) noexcept
    cpdef take_times(self, Numbers ordinals, Numbers times)
    cpdef Py_ssize_t ordinal_end(self, Py_ssize_t index, Py_ssize_t count) noexcept
    cpdef Py_ssize_t start(self, Py_ssize_t index) noexcept
    cpdef Py_ssize_t end(self, Py_ssize_t index) noexcept
