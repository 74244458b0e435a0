cimport cython

from millstream.base.buffer cimport read_little, same_bytes
from millstream.broker.routes cimport AckRoute, SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.parser cimport Frame
from millstream.protocol.replies cimport Replies
from millstream.subjects.match cimport is_one_word, matches
from millstream.subjects.tree cimport Matches, SubjectTree

cdef Py_ssize_t _MAX_ROUTES
cdef Py_ssize_t _FIXED_SIZE
cdef unsigned char _DOT
cdef Py_ssize_t _SHOWN
cdef Py_ssize_t _MAX_SCAN
cdef Py_ssize_t _MAX_SHORT
cdef Py_ssize_t _FEW
cdef long long _LONG
cdef long long _MOST_AT_ONCE
cdef Py_ssize_t _WIDE
cdef unsigned char _STAR
cdef unsigned char _TAIL
cdef unsigned char _DOLLAR
cdef Py_ssize_t _ACK_PREFIX_SIZE
cdef Py_ssize_t _DOTS_OF_VERSION_2
cdef int _NUMBERS
cdef Py_ssize_t _DIRECT_PREFIX_SIZE

@cython.final
cdef class SubjectSpace:
    cdef readonly str name
    cdef readonly SubjectTree tree
    cdef readonly dict routes
    cdef public object mapping
    cdef public bint traced
    cdef public object fan_out
    cdef public object links
    cdef readonly long long lookups
    cdef readonly long long cache_hits
    cdef readonly long long refused
    cdef dict _heads
    cdef dict _reply_groups
    cdef dict _acks
    cdef dict _getters
    cdef dict _crowds
    cdef dict _watchers
    cdef unsigned long long _random

    @cython.locals(
        p="const unsigned char*", subscription=Subscription, frame=Frame, group=list, data=bytes,
        at=Py_ssize_t, size=Py_ssize_t, end_size=Py_ssize_t, dot=Py_ssize_t,
        group_start=Py_ssize_t, group_size=Py_ssize_t, number="unsigned long long",
    )
    cpdef answer(self, Replies replies, bytes start)
    @cython.locals(dot=Py_ssize_t, prefix=bytes, group=list, found=Matches, each=Subscription)
    cdef list _reply_group(self, bytes reply)
    @cython.locals(dot=Py_ssize_t, start=bytes, group=list, found=Matches, route=AckRoute)
    cpdef AckRoute ack_route(self, bytes subject)
    @cython.locals(dot=Py_ssize_t, stream=bytes, group=list, each=Subscription)
    cpdef SubjectRoute direct_route(self, bytes subject)
    @cython.locals(found=Matches, group=list, plain=list, each=Subscription)
    cdef list _find_getters(self, bytes stream)
    @cython.locals(route=AckRoute)
    cdef _drop_acks(self)
    @cython.locals(literal=bint)
    cdef _changed(self, bytes pattern)
    cpdef clear(self)
    cdef _tell_watchers(self, bytes pattern, bint literal)
    cpdef subscribe(self, Subscription subscription)
    cpdef unsubscribe(self, Subscription subscription)
    @cython.locals(route=SubjectRoute, head=bytes, routes=dict)
    cpdef SubjectRoute route(self, bytes subject)
    @cython.locals(route=SubjectRoute, members=list, targets=list, linked=list)
    cdef SubjectRoute _route_to(self, Matches found, bytes subject)
    cdef bint _needs_merging(self, Matches found) except -1
    @cython.locals(found=Matches, head=bytes, routes=dict, route=SubjectRoute, one_more=bint)
    cpdef SubjectRoute crowd_route(self, bytes subject)
    cpdef refuse(self, bytes subject)
    @cython.locals(subscription=Subscription, seen_as=bytes, targets=list)
    cpdef list targets(self, list subscriptions, bytes subject)
    @cython.locals(route=SubjectRoute)
    cpdef drop_all_routes(self)
    @cython.locals(route=SubjectRoute, head=bytes, routes=dict)
    cdef _drop_route(self, bytes subject)
    @cython.locals(head=bytes, known=bytes, heads=list, each=bytes)
    cdef _drop_routes(self, bytes pattern)
    @cython.locals(routes=dict, subject=bytes, every=bint)
    cdef _drop_below(self, bytes head, bytes pattern)
    @cython.locals(dot=Py_ssize_t, prefix=bytes)
    cdef _drop_reply_groups(self, bytes pattern, bint literal)
    @cython.locals(group=list, subscription=Subscription, taken=Py_ssize_t)
    cpdef Py_ssize_t deliver_reply(self, bytes subject, Frame frame) except? -1
    @cython.locals(group=list, each=Subscription)
    cpdef SubjectRoute reply_route(self, bytes subject)
    @cython.locals(target=Target, taken=Py_ssize_t)
    cpdef Py_ssize_t deliver_parts(
        self, SubjectRoute route, bytes reply, bytes block, list parts, long long size
    ) except -2
    @cython.locals(frame=Frame, subject=bytes)
    cpdef confirm(self, list subjects)
    @cython.locals(target=Target, members=list, group=list, taken=Py_ssize_t)
    cpdef Py_ssize_t deliver(self, SubjectRoute route, Frame frame, Subscriber source) except? -1
    @cython.locals(members=list, group=list, taken=Py_ssize_t)
    cdef Py_ssize_t _deliver_wide(self, SubjectRoute route, Frame frame, Subscriber source) except? -1
    @cython.locals(each=Target, found=list, members=list, group=list)
    cpdef list targets_of(self, SubjectRoute route, Subscriber owner)
    @cython.locals(target=Target, taken=Py_ssize_t)
    cpdef Py_ssize_t deliver_part(
        self, SubjectRoute route, Py_ssize_t start, Py_ssize_t end, Frame frame, Subscriber source
    ) except? -1
    @cython.locals(target=Target, count=Py_ssize_t, start=Py_ssize_t, step=Py_ssize_t, index=Py_ssize_t)
    cpdef bint deliver_to_one(self, list members, Frame frame, Subscriber source) except? -1
    @cython.locals(count=Py_ssize_t, start=Py_ssize_t, step=Py_ssize_t, targets=list)
    cpdef bint deliver_to_one_of(self, list group, SubjectRoute route, Frame frame, Subscriber source) except? -1
    cpdef Py_ssize_t draw(self, Py_ssize_t count) except? -1

@cython.locals(first=Py_ssize_t, dot=Py_ssize_t)
cdef bytes _head_of(bytes subject)
@cython.locals(prefix=bytes)
cdef bint _is_spared(Subscription subscription, bytes subject) except -1
@cython.locals(first="unsigned char")
cdef bint _may_begin_an_ack(bytes pattern) except? -1
