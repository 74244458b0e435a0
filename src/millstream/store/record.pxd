cimport cython

from millstream.base.buffer cimport GrowingBuffer, read_little
from millstream.base.checksum cimport crc_of

cdef int _MESSAGE
cdef int _HEADERS
cdef int _ERASED
cdef int _LAST_KIND
cdef Py_ssize_t _HEADER_SIZE
cdef unsigned int _SIZE_MASK
cdef Py_ssize_t _MAX_SUBJECT
cdef int _KIND_SHIFT
cdef int _WHOLE
cdef int _CUT
cdef int _DAMAGED
cdef list _spare
cdef Py_ssize_t _MOST_SPARES
cdef Py_ssize_t _SMALLEST_SPARE
cdef Py_ssize_t _SMALL_SPARE
cdef Py_ssize_t _LARGE_RECORD
cdef Py_ssize_t _SEALED_AT_ONCE
cdef Py_ssize_t _QUICK_SEAL

cpdef Py_ssize_t record_size(Py_ssize_t subject_size, Py_ssize_t header_size, Py_ssize_t body_size)

@cython.final
cdef class RecordBuffer(GrowingBuffer):
    cdef public Py_ssize_t base
    cdef public Py_ssize_t room
    cdef public Py_ssize_t filled
    cdef public unsigned long long next_seq
    cdef Py_ssize_t _sealed

    @cython.locals(subject_size=Py_ssize_t, total=Py_ssize_t)
    cpdef Py_ssize_t add(
        self, int kind, unsigned long long seq, long long timestamp, bytes subject,
        bytes source, Py_ssize_t start, Py_ssize_t header_size, Py_ssize_t size,
    ) except -1
    @cython.locals(p="unsigned char*", at=Py_ssize_t, end=Py_ssize_t, base=Py_ssize_t)
    cpdef seal(self)
    @cython.locals(store=bytearray)
    cpdef recycle(self)
    cpdef bytes slice(self, Py_ssize_t start, Py_ssize_t size)

@cython.locals(size="unsigned int")
cdef void seal_records(unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t base) noexcept nogil

@cython.locals(mark=bytearray, p="unsigned char*")
cpdef bytes end_mark(unsigned long long seq, Py_ssize_t position)
@cython.locals(i=Py_ssize_t)
cdef void _put_little(
    unsigned char* p, Py_ssize_t at, unsigned long long value, Py_ssize_t count
) noexcept nogil

@cython.locals(buffer=RecordBuffer)
cpdef blank_record(
    bytearray data, Py_ssize_t at, Py_ssize_t size, unsigned long long seq, long long timestamp, Py_ssize_t position
)

cdef unsigned int _crc_of_record(const unsigned char* p, Py_ssize_t at, Py_ssize_t size, Py_ssize_t position) noexcept nogil

@cython.final
cdef class Record:
    cdef readonly bytes buf
    cdef readonly int kind
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t size
    cdef readonly unsigned long long seq
    cdef readonly long long timestamp
    cdef readonly Py_ssize_t subject_start
    cdef readonly Py_ssize_t subject_size
    cdef readonly Py_ssize_t header_size
    cdef readonly Py_ssize_t body_start
    cdef readonly Py_ssize_t body_size

    @cython.locals(
        p="const unsigned char*", first="unsigned int", size="unsigned int", kind=int,
        subject_size=Py_ssize_t, position=Py_ssize_t, header_size=Py_ssize_t,
    )
    cpdef int read(self, bytes buf, Py_ssize_t at, Py_ssize_t end, bint verify, Py_ssize_t base=*) except? -2
    cpdef bint is_message(self) noexcept
    cpdef bint is_numbered(self) noexcept
    cpdef bytes subject(self)
    cpdef bytes headers(self)
    cpdef bytes payload(self)

cpdef Py_ssize_t size_in(const unsigned char* p, Py_ssize_t at) noexcept
@cython.locals(kind=int)
cpdef unsigned long long seq_in(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
cpdef long long time_in(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
cdef long long _read_signed(const unsigned char* p, Py_ssize_t at) noexcept

@cython.locals(piece=bytearray)
cpdef bint has_large_spares() except -1
