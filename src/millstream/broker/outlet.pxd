cimport cython

from millstream.broker.router cimport SubjectSpace
from millstream.broker.routes cimport SubjectRoute, Subscription, Target
from millstream.protocol.outlet cimport Outlet
from millstream.protocol.parser cimport Frame
from millstream.subjects.match cimport is_one_word

cdef Py_ssize_t _MAX_SUBJECTS
cdef Py_ssize_t _EXACT

cdef class SubjectOutlet(Outlet):
    cdef SubjectSpace _space
    cdef bytes _destination
    cdef bytes _queue
    cdef SubjectRoute _route
    cdef list _closest
    cdef dict _seen_as
    cdef bytes _last_subject
    cdef SubjectRoute _last_seen

    @cython.locals(seen=SubjectRoute)
    cpdef Py_ssize_t send(self, bytes subject, Frame frame) except -1
    @cython.locals(seen=SubjectRoute)
    cpdef Py_ssize_t send_parts(
        self, bytes subject, bytes reply, bytes block, list parts, long long size
    ) except -2
    @cython.locals(route=SubjectRoute, seen=SubjectRoute)
    cdef SubjectRoute _route_as(self, bytes subject)
    @cython.locals(route=SubjectRoute, members=list, target=Target, group=list, subscription=Subscription)
    cpdef bint has_interest(self) except? -1
    @cython.locals(route=SubjectRoute, members=list, target=Target, subscription=Subscription, group=list)
    cpdef bint is_named(self) except? -1
    @cython.locals(origin=Subscription)
    cdef bint _names(self, Subscription subscription, bytes subject) except? -1
    @cython.locals(route=SubjectRoute, closest=list, members=list, target=Target)
    cpdef bint behind(self) except? -1
    @cython.locals(
        closest=list, longest=Py_ssize_t, found=list, members=list, length=Py_ssize_t, target=Target
    )
    cdef list _find_closest(self, SubjectRoute route)
    @cython.locals(subject=bytes, position=Py_ssize_t)
    cdef Py_ssize_t _fixed(self, Target target) except -1
    @cython.locals(route=SubjectRoute)
    cdef SubjectRoute _find_route(self)
    @cython.locals(route=SubjectRoute, seen=SubjectRoute, members=list)
    cdef SubjectRoute _see_as(self, bytes subject)

cdef class AnswerOutlet(Outlet):
    cdef SubjectSpace _space
    cpdef Py_ssize_t send(self, bytes subject, Frame frame) except -1
    @cython.locals(space=SubjectSpace)
    cpdef Py_ssize_t send_parts(
        self, bytes subject, bytes reply, bytes block, list parts, long long size
    ) except -2
