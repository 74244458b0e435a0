cimport cython

from millstream.jetstream.stream.committed_log cimport Committing

@cython.final
cdef class FairQueue:
    cdef readonly object publisher
    cdef dict _publisher_of
    cdef dict _streams_of
    cdef object _turns

    cpdef add(self, Committing stream, object publisher)
    cpdef discard(self, Committing stream)
    @cython.locals(stream=Committing)
    cpdef Committing pop(self)
