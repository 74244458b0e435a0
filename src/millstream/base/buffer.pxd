cimport cython

cdef Py_ssize_t _SMALLEST
cdef Py_ssize_t _LARGE
cdef Py_ssize_t _KEEP
cdef int _LINE_END
cdef unsigned char _RETURN
cdef unsigned char _SMALL
cdef bint _LITTLE_HOST
cdef bytes _PAIRS

@cython.locals(digits=Py_ssize_t)
cpdef Py_ssize_t digits_of(unsigned long long value) noexcept
@cython.locals(
    source="const unsigned char*", value="unsigned long long", byte="unsigned long long", index=Py_ssize_t
)
cpdef unsigned long long read_little(const unsigned char* p, Py_ssize_t at, Py_ssize_t count) noexcept
@cython.locals(source="const unsigned char*")
cpdef bint same_bytes(const unsigned char* p, Py_ssize_t first, Py_ssize_t second, Py_ssize_t count) noexcept

cdef class GrowingBuffer:
    cdef bytearray _store
    cdef Py_ssize_t _capacity
    cdef readonly Py_ssize_t size

    @cython.locals(count=Py_ssize_t)
    cpdef append(self, bytes data)
    cpdef bytes take(self)
    @cython.locals(store="const char*")
    cpdef bytes peek(self)
    @cython.locals(store="const char*")
    cpdef bytes cut(self, Py_ssize_t start, Py_ssize_t count)
    @cython.final
    cdef inline int reserve(self, Py_ssize_t extra) except -1
    @cython.locals(capacity=Py_ssize_t)
    @cython.final
    cdef int _grow(self, Py_ssize_t extra) except -1
    @cython.locals(target="char*", origin="const char*")
    @cython.final
    cdef inline void put(self, bytes source, Py_ssize_t start, Py_ssize_t count) noexcept
    @cython.locals(target="unsigned char*")
    @cython.final
    cdef inline void put_byte(self, unsigned char value) noexcept
    @cython.locals(target="char*", origin="const char*")
    @cython.final
    cdef inline void put_part(self, GrowingBuffer other, Py_ssize_t start, Py_ssize_t count) noexcept
    @cython.locals(
        target="char*", pairs="const char*", position=Py_ssize_t, rest="unsigned long long",
        pair="unsigned int",
    )
    @cython.final
    cdef inline void put_number(self, unsigned long long value) noexcept
    @cython.locals(target="unsigned char*", rest="unsigned long long", index=Py_ssize_t)
    @cython.final
    cdef inline void put_little(self, unsigned long long value, Py_ssize_t count) noexcept

@cython.locals(first="const char*", second="const char*")
cpdef bint equal_bytes(bytes source, Py_ssize_t at, bytes other) except *

@cython.locals(
    p="const char*", at="const char*", last="const char*", first="const char*", count=Py_ssize_t
)
cpdef bint has_line(bytes source, Py_ssize_t start, Py_ssize_t end, bytes beginning) noexcept
@cython.locals(
    p="const unsigned char*", first="const unsigned char*",
    count=Py_ssize_t, last=Py_ssize_t, at=Py_ssize_t, i=Py_ssize_t,
)
cpdef bint has_line_like(bytes source, Py_ssize_t start, Py_ssize_t end, bytes beginning) noexcept

@cython.locals(first="const unsigned char*", second="const unsigned char*")
cpdef bint equal_parts(const unsigned char* p, Py_ssize_t at, const unsigned char* other, Py_ssize_t count) noexcept
