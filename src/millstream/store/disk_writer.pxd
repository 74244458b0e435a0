cimport cython

from millstream.store.record cimport RecordBuffer, seal_records

cdef unsigned char _GO_BYTE

@cython.final
cdef class DiskWriter:
    cdef int _wake_end
    cdef int _wake
    cdef int _done
    cdef int _done_end
    cdef RecordBuffer _buffer
    cdef int _descriptor
    cdef unsigned char* _data
    cdef Py_ssize_t _size
    cdef Py_ssize_t _sealed
    cdef Py_ssize_t _base
    cdef readonly int failed_write
    cdef readonly int failed_sync
    cdef object _thread

    @cython.locals(byte="unsigned char")
    cpdef _serve(self)
    cpdef begin(self, int descriptor, RecordBuffer buffer)
    cpdef bint collect(self) except *
    @cython.locals(written=Py_ssize_t, count=Py_ssize_t)
    cdef void _write(self) noexcept nogil
