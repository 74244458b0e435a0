cimport cython

cdef unsigned char _DOT
cdef unsigned char _STAR
cdef unsigned char _TAIL
cdef unsigned char _BLANK
cdef unsigned char _CR
cdef unsigned char _LF
cdef unsigned char _FORM_FEED
cdef unsigned char _TAB

@cython.locals(s="const unsigned char*", i=Py_ssize_t, size=Py_ssize_t)
cpdef bint is_one_word(bytes subject)

@cython.locals(s="const unsigned char*", c="unsigned char", i=Py_ssize_t, size=Py_ssize_t, token_size=Py_ssize_t)
cpdef bint valid_literal_subject(bytes subject)

@cython.locals(s="const unsigned char*", c="unsigned char", i=Py_ssize_t, token_size=Py_ssize_t)
cpdef bint valid_subscription(bytes subject)

@cython.locals(
    s="const unsigned char*", p="const unsigned char*",
    i=Py_ssize_t, j=Py_ssize_t, subject_size=Py_ssize_t, pattern_size=Py_ssize_t,
)
cpdef bint matches(bytes subject, bytes pattern)
cpdef bint is_subset(bytes subset, bytes pattern)
cpdef bint collide(bytes left, bytes right)

@cython.locals(k="const unsigned char*", i=Py_ssize_t, digest="unsigned long long")
cpdef unsigned long long fnv_1a(bytes key)
