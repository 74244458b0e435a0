cimport cython
from posix.time cimport timespec

from millstream.store.record cimport RecordBuffer, seal_records

cdef extern from "<fcntl.h>" nogil:
    int FALLOC_FL_KEEP_SIZE
    int fallocate(int descriptor, int mode, long long start, long long size)

cdef extern from "<sys/stat.h>" nogil:
    cdef struct FileFacts "stat":
        long long st_blocks
    int fstat(int descriptor, FileFacts* found)

cdef extern from "<sys/statvfs.h>" nogil:
    cdef struct DiskFacts "statvfs":
        long long f_bavail
        long long f_frsize
    int fstatvfs(int descriptor, DiskFacts* found)

cdef extern from "<sys/uio.h>" nogil:
    cdef struct Part "iovec":
        void* iov_base
        size_t iov_len
    Py_ssize_t pwritev(int descriptor, const Part* parts, int number, long long position)

cdef Py_ssize_t _PAGE
cdef bytes _zeros
cdef unsigned long long _GO_WORD
cdef Py_ssize_t _WORD_SIZE
cdef long long _SECOND_NS
cdef Py_ssize_t _PIECE
cdef long long _SMALL_FILE
cdef long long _MOST_AHEAD
cdef long long _FULL_DISK
cdef long long _BLOCK

@cython.locals(base="long long", size="long long", room="long long")
cpdef allocate_ahead(int descriptor, RecordBuffer buffer)
@cython.locals(disk=DiskFacts)
cdef bint _has_room(int descriptor) noexcept
@cython.locals(now=timespec, found="long long")
cdef long long _now_ns() noexcept nogil
@cython.locals(end="long long", ahead="long long", file=FileFacts, disk=DiskFacts)
cdef void _allocate(int descriptor, long long base, long long size, long long room) noexcept nogil

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
    cdef Py_ssize_t _room
    cdef Py_ssize_t _filled
    cdef Py_ssize_t _target
    cdef bytes _mark
    cdef unsigned char* _mark_data
    cdef Py_ssize_t _mark_size
    cdef const unsigned char* _zero_data
    cdef Part _parts[2]
    cdef readonly int failed_write
    cdef readonly int failed_sync
    cdef readonly long long took_ns
    cdef set _descriptors
    cdef object _thread

    @cython.locals(word="unsigned long long")
    cpdef _serve(self)
    cpdef begin(self, int descriptor, RecordBuffer buffer, bint fill=*)
    cpdef write_now(self, int descriptor, RecordBuffer buffer, bint fill=*)
    cdef _prepare(self, int descriptor, RecordBuffer buffer, bint fill)
    cdef _ended(self)
    @cython.locals(word="unsigned long long")
    cpdef bint collect(self) except *
    @cython.locals(began="long long")
    cdef void _write(self) noexcept nogil
    @cython.locals(end=Py_ssize_t, count=Py_ssize_t)
    cdef void _write_and_sync(self) noexcept nogil
    @cython.locals(written=Py_ssize_t, count=Py_ssize_t, number=int, marked=Py_ssize_t, problem=int)
    cdef int _write_records(self) noexcept nogil
