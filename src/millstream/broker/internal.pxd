cimport cython

from millstream.broker.routes cimport Subscriber, Target
from millstream.protocol.inlet cimport Responder
from millstream.protocol.outlet cimport Outlet
from millstream.protocol.parser cimport Frame

cdef class CallbackSubscriber(Subscriber):
    cdef object _callback
    cpdef bint deliver(self, Target target, Frame frame, Subscriber source) except? -1

cdef class Ourselves(Subscriber):
    pass

cdef class ServiceSubscriber(CallbackSubscriber):
    cdef Responder _responder
    cdef Outlet _outlet
    cpdef bint deliver(self, Target target, Frame frame, Subscriber source) except? -1
    @cython.locals(responder=Responder, outlet=Outlet)
    cdef bint _responds(self, Target target, Frame frame, Subscriber source) except -1

cdef class CaptureSubscriber(Subscriber):
    cdef object _take
    cdef bint _from_clients
    cdef object _refuse
    cdef readonly object traced
    cpdef bint deliver(self, Target target, Frame frame, Subscriber source) except? -1
    cpdef failed(self, Target target, Frame frame, object error)
