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
    cdef readonly int failed_write
    cdef readonly int failed_sync
    cdef readonly long long took_ns
    cdef set _descriptors
    cdef object _thread

    @cython.locals(word="unsigned long long")
    cpdef _serve(self)
    cpdef begin(self, int descriptor, RecordBuffer buffer)
    cpdef write_now(self, int descriptor, RecordBuffer buffer)
    cdef _prepare(self, int descriptor, RecordBuffer buffer)
    @cython.locals(word="unsigned long long")
    cpdef bint collect(self) except *
    @cython.locals(now=timespec, began="long long")
    cdef void _write(self) noexcept nogil
    @cython.locals(written=Py_ssize_t, count=Py_ssize_t)
    cdef void _write_and_sync(self) noexcept nogil
