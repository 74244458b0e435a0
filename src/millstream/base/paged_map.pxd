cimport cython

cdef int _BITS
cdef int _PLACES
cdef int _TRIES
cdef int _SPARE
cdef long long _NO_PAGE

@cython.final
cdef class PagedMap:
    cdef readonly Py_ssize_t count
    cdef dict _pages
    cdef list _order
    cdef unsigned long long _highest
    cdef bint _rising
    cdef long long _last
    cdef dict _page

    @cython.locals(page=dict)
    cpdef get(self, unsigned long long number)
    @cython.locals(page=dict, before=Py_ssize_t)
    cpdef put(self, unsigned long long number, value)
    @cython.locals(page=dict)
    cpdef take(self, unsigned long long number)
    cpdef unsigned long long first(self) except? 0
    @cython.locals(page=dict, place=int, tries=int, position=Py_ssize_t, page_number="unsigned long long")
    cpdef unsigned long long after(self, unsigned long long number) except? 0
    cpdef list pages(self)
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t drop_some(self) except -1
    @cython.locals(page_number="long long")
    cdef dict _page_of(self, unsigned long long number)
    @cython.locals(page=dict, order=list, position=Py_ssize_t)
    cdef dict _add_page(self, long long page_number)
    cdef _drop_page(self, long long page_number)

@cython.locals(found=int, key=int)
cdef int _lowest(dict page, int place, bint rising) except? -2
