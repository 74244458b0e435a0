cimport cython

from millstream.store.journal_batch cimport JournalBatch

cdef unsigned char _GO_BYTE
cdef Py_ssize_t _COLUMNS

@cython.final
cdef class JournalWriter:
    cdef int _wake_end
    cdef int _wake
    cdef int _done
    cdef int _done_end
    cdef JournalBatch _batch
    cdef long long* _cell
    cdef Py_ssize_t _rows
    cdef int _descriptor
    cdef const unsigned char* _data
    cdef Py_ssize_t _size
    cdef Py_ssize_t _position
    cdef readonly int failed
    cdef object _thread

    @cython.locals(byte="unsigned char")
    cpdef _serve(self)
    cpdef begin(self, int descriptor, JournalBatch batch, Py_ssize_t position)
    cpdef bint collect(self) except *
    @cython.locals(row=Py_ssize_t, at=Py_ssize_t, cell="long long*")
    cdef void _write_batch(self) noexcept nogil
    @cython.locals(number=int)
    cdef int _sync(self) noexcept nogil
    @cython.locals(written=Py_ssize_t, count=Py_ssize_t, number=int)
    cdef int _write(self, int descriptor, Py_ssize_t start, Py_ssize_t size, Py_ssize_t base) noexcept nogil

cdef long long* _cells(bytearray table) noexcept
