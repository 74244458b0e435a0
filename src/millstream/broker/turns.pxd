from millstream.broker.connection cimport Tick
from millstream.broker.watchdog cimport Watchdog

cdef class Turns:
    cdef readonly Watchdog watchdog
    cdef object _now
    cdef object _loop
    cdef Tick _tick
    cdef object _sliced
