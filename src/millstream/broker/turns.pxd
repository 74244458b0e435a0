cimport cython

from millstream.broker.connection cimport Tick
from millstream.broker.watchdog cimport Watchdog

cdef class Planned:
    cdef readonly str kind
    cdef readonly object callback
    cdef readonly tuple arguments
    cdef public object timer

    cpdef cancel(self)

cdef class Turns:
    cdef readonly Watchdog watchdog
    cdef readonly Py_ssize_t timers
    cdef object _now
    cdef object _loop
    cdef Tick _tick
    cdef object _sliced
    cdef object _soon
    cdef bint _soon_planned
    cdef double _timers_s

    @cython.locals(began=double)
    cdef _run(self, str kind, object callback, tuple arguments)
    cdef _line_up(self, Planned planned)
    cdef _plan_soon(self)
    @cython.locals(callback=object, arguments=tuple)
    cdef _begin(self, Planned planned)
