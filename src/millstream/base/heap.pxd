cdef extern from "<malloc.h>" nogil:
    int mallopt(int name, int value)
    int malloc_trim(size_t pad)

cdef int _TRIM_THRESHOLD
cdef int _MMAP_THRESHOLD
cdef int _KEPT
cdef int _OWN_MAPPING

cpdef keep_freed_memory()
cpdef give_back()
