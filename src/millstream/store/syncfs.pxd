cdef extern from "<unistd.h>" nogil:
    int syncfs(int descriptor)
