cimport cython

from millstream.store.record cimport RecordBuffer, seal_records

cdef extern from *:
    """
    #include <fcntl.h>
    #include <sys/stat.h>
    #include <sys/statvfs.h>

    static long long allocated_bytes(int descriptor) {
        struct stat found;
        return fstat(descriptor, &found) < 0 ? -1 : (long long)found.st_blocks * 512;
    }

    static long long free_bytes(int descriptor) {
        struct statvfs found;
        return fstatvfs(descriptor, &found) < 0 ? -1 : (long long)found.f_bavail * (long long)found.f_frsize;
    }

    static int allocate_blocks(int descriptor, long long start, long long size) {
    #ifdef FALLOC_FL_KEEP_SIZE
        return fallocate(descriptor, FALLOC_FL_KEEP_SIZE, start, size);
    #else
        return -1;
    #endif
    }
    """
    long long allocated_bytes(int descriptor) noexcept nogil
    long long free_bytes(int descriptor) noexcept nogil
    int allocate_blocks(int descriptor, long long start, long long size) noexcept nogil

cdef unsigned char _GO_BYTE
cdef Py_ssize_t _PIECE
cdef long long _SMALL_FILE
cdef long long _MOST_AHEAD
cdef long long _FULL_DISK

@cython.locals(base="long long", size="long long", room="long long")
cpdef allocate_ahead(int descriptor, RecordBuffer buffer)
@cython.locals(end="long long", ahead="long long")
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
    cdef object _thread

    @cython.locals(byte="unsigned char")
    cpdef _serve(self)
    cpdef begin(self, int descriptor, RecordBuffer buffer)
    cpdef bint collect(self) except *
    @cython.locals(written=Py_ssize_t, count=Py_ssize_t)
    cdef void _write(self) noexcept nogil
