cimport cython

from millstream.base.numbers cimport Numbers

@cython.final
cdef class SubjectLinks:
    cdef Numbers _next
    cdef Numbers _firsts
    cdef Numbers _lasts

    @cython.locals(ordinal=Py_ssize_t, number=Py_ssize_t, last=Py_ssize_t)
    cpdef extend(self, Numbers subject_of, unsigned int mask, Py_ssize_t subjects)
    cpdef Py_ssize_t first(self, Py_ssize_t number) noexcept
    cpdef Py_ssize_t last(self, Py_ssize_t number) noexcept
    cpdef Py_ssize_t next(self, Py_ssize_t ordinal) noexcept
    cpdef Py_ssize_t memory(self) noexcept
