cimport cython

from millstream.jetstream.read.answers cimport DirectSending
from millstream.jetstream.read.plain_request cimport PlainGet
from millstream.protocol.inlet cimport Responder
from millstream.protocol.outlet cimport Outlet
from millstream.protocol.parser cimport Frame
from millstream.store.log cimport Log

cdef int _HAS_LAST
cdef int _HAS_NEXT
cdef int _HAS_SEQ
cdef int _HAS_TIME
cdef int _WANTED

cdef class DirectGets(Responder):
    cdef object _stream
    cdef DirectSending _sending
    cdef Py_ssize_t _key_start
    cdef PlainGet _plain

    cpdef bint respond(self, bytes subject, Frame frame, Outlet outlet) except -1
    @cython.locals(plain=PlainGet, bare=bint, seq="unsigned long long")
    cdef bint _respond(self, Log log, bytes subject, Frame frame, Outlet outlet) except -1
    @cython.locals(asked=int, seq="unsigned long long")
    cdef unsigned long long _chosen(self, Log log, PlainGet plain) except? 0

cdef unsigned long long _last_of(Log log, bytes subject) except? 0
