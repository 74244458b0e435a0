cimport cython

from millstream.base.untracked cimport untrack
from millstream.base.wide_map cimport WideMap
from millstream.broker.connection cimport Connection
from millstream.broker.routes cimport Subscription
from millstream.protocol.parser cimport Parser
from millstream.subjects.match cimport valid_subscription

cdef bytes _OK
cdef bytes _SYSTEM_QUEUE
cdef Py_ssize_t _MAX_DIGITS
cdef unsigned char _SPACE
cdef unsigned char _TAB
cdef unsigned char _CR
cdef unsigned char _LF

@cython.final
cdef class Subscriptions:
    cdef object _broker

    @cython.locals(
        parser=Parser, words=list, count=Py_ssize_t, subject=bytes, queue=bytes, sid=bytes, refusal=bytes,
        subscription=Subscription,
    )
    cpdef subscribe(self, Connection connection)
    @cython.locals(max_tokens=Py_ssize_t, limit=Py_ssize_t)
    cdef bytes _refusal(self, Connection connection, bytes subject, bytes queue)
    @cython.locals(parser=Parser, words=list, count=Py_ssize_t, subscription=Subscription, most="long long")
    cpdef unsubscribe(self, Connection connection)
    cpdef remove(self, Connection connection, Subscription subscription)
    @cython.locals(held=WideMap, subscription=Subscription)
    cpdef bint remove_newest(self, Connection connection, Py_ssize_t count, list records) except? -1
    cdef _end(self, Connection connection, Subscription subscription)

@cython.locals(p="const unsigned char*", i=Py_ssize_t, begin=Py_ssize_t, c="unsigned char", words=list)
cdef list _words(bytes line, Py_ssize_t start, Py_ssize_t end)
cdef long long _limit(bytes argument) except? -1
