cimport cython

from millstream.protocol.inlet cimport Inlet
from millstream.protocol.parser cimport Frame
from millstream.subjects.match cimport is_one_word

cdef class Subscriber:
    cpdef bint deliver(self, Target target, Frame frame, Subscriber source) except? -1
    cpdef bint takes_parts(self) except? -1
    cpdef bint deliver_parts(
        self, Target target, bytes reply, bytes block, list parts, long long size
    ) except? -1
    @cython.locals(frame=Frame)
    cpdef answer(
        self, Subscription subscription, bytes replies, Py_ssize_t at, Py_ssize_t size, bytes start,
        unsigned long long number, Py_ssize_t end_size,
    )
    cpdef failed(self, Target target, Frame frame, object error)
    cpdef bint behind(self) except? -1
    cpdef bint is_link(self) noexcept
    cpdef bint gone(self) except? -1
    cpdef hold(self)
    cpdef let_go(self)

@cython.final
cdef class Subscription:
    cdef readonly Subscriber owner
    cdef readonly bytes subject
    cdef readonly bytes queue
    cdef readonly bytes sid
    cdef public long long delivered
    cdef public long long max
    cdef public bint closed
    cdef public object rewrite
    cdef public tuple spared
    cdef public Subscription origin
    cdef public list shadows
    cdef public bint traceable
    cdef public Inlet inlet

@cython.final
cdef class Target:
    cdef readonly Subscription subscription
    cdef readonly Subscriber owner
    cdef readonly bytes subject
    cdef readonly bytes via
    cdef bytes _prefix

    cpdef bytes prefix(self)

@cython.final
cdef class SubjectRoute:
    cdef readonly bytes subject
    cdef readonly list plain
    cdef readonly list queues
    cdef public list groups
    cdef public list wide
    cdef public bytes found_for
    cdef public bint linked
    cdef public bint special
    cdef public bint sliced
    cdef public bint valid

    @cython.locals(seen=SubjectRoute, each=Target, members=list)
    cpdef SubjectRoute renamed(self, bytes subject)
    @cython.locals(found=Py_ssize_t)
    cpdef Py_ssize_t receivers(self)

@cython.final
cdef class AckRoute:
    cdef readonly bytes start
    cdef readonly list group
    cdef readonly Inlet inlet
    cdef public bint valid
