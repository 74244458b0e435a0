cimport cython

from millstream.base.buffer cimport GrowingBuffer
from millstream.base.checksum cimport crc_of
from millstream.store.record cimport RecordBuffer

cdef Py_ssize_t _ALIGNMENT
cdef Py_ssize_t _HEADER_SIZE
cdef Py_ssize_t _CHECKED
cdef Py_ssize_t _ENTRY_SIZE
cdef Py_ssize_t _CELL
cdef Py_ssize_t _ROW
cdef Py_ssize_t _ERROR_AT
cdef Py_ssize_t _KEPT

@cython.final
cdef class JournalBatch(GrowingBuffer):
    cdef readonly Py_ssize_t count
    cdef readonly GrowingBuffer table

    cpdef clear(self)
    @cython.locals(
        key_size=Py_ssize_t, header_size=Py_ssize_t, records_size=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t,
        target="char*", origin="const char*",
    )
    cpdef add(
        self, bytes key, unsigned long long segment, Py_ssize_t base, bytes header, RecordBuffer records,
        int descriptor,
    )
    @cython.locals(end=Py_ssize_t, whole=Py_ssize_t, crc="unsigned int", checked="const unsigned char*")
    cpdef finish(self, bytes mark, unsigned long long order)
    @cython.locals(at=Py_ssize_t)
    cpdef int error_of(self, Py_ssize_t row) except -1
    @cython.locals(target="char*")
    cdef int _put_zeros(self, Py_ssize_t count) except -1
    @cython.locals(table=GrowingBuffer, target="char*")
    cdef void _put_cell(self, long long value) noexcept
