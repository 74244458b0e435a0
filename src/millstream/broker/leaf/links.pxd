cimport cython

from millstream.broker.leaf.connection cimport LeafConnection
from millstream.broker.router cimport SubjectSpace
from millstream.broker.routes cimport SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.parser cimport Frame
from millstream.subjects.tree cimport Matches

cdef Py_ssize_t _LARGE

@cython.final
cdef class AccountLinks:
    cdef readonly SubjectSpace space
    cdef readonly bytes loop_subject
    cdef readonly object interest

    @cython.locals(each=Subscription, members=list)
    cpdef bint are_among(self, Matches found) except -1
    @cython.locals(each=Subscription, members=list, distant=list, targets=list, target=Target)
    cpdef list take_links(self, Matches found, bytes subject)
    cpdef Py_ssize_t deliver(self, SubjectRoute route, Frame frame, Subscriber source) except? -1
    cpdef Py_ssize_t deliver_from(
        self, SubjectRoute route, Frame frame, LeafConnection link, list queues
    ) except? -1
    @cython.locals(
        taken=Py_ssize_t, members=list, local=list, group=list, subscriptions=list, target=Target, each=Target,
        distant=Target, owner=Subscriber, chosen=dict,
    )
    cdef Py_ssize_t _deliver(
        self, SubjectRoute route, Frame frame, Subscriber source, list queues, bint only_named
    ) except? -1
    @cython.locals(target=Target, total=Py_ssize_t, left=Py_ssize_t)
    cpdef Target choose(self, list members, Subscriber source)

@cython.locals(owner=Subscriber, link=LeafConnection)
cdef Py_ssize_t _weight(Target target, Subscriber source) except? -1
@cython.locals(link=LeafConnection, queues=list, each=Target)
cdef bint _send(Target target, Frame frame, Subscriber source, list group) except -1
cpdef bint is_named(Subscription subscription, list queues) except -1
