cdef class Singles:
    cdef readonly unsigned long long first
    cdef object _sseqs
    cdef Py_ssize_t _at
    cdef set _gone

    cdef _find_first(self)
    cpdef pop(self)
    cpdef skip_to(self, unsigned long long sseq)

cdef class LastOfEach:
    cdef readonly unsigned long long resume
    cdef readonly object log
    cdef tuple _patterns
    cdef list _gone
    cdef unsigned long long _floor
