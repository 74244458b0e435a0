from millstream.jetstream.consumers.ack_reader cimport AckSink
from millstream.jetstream.consumers.consumer cimport Consumer
from millstream.jetstream.consumers.ledger cimport Ledger

cdef class Acknowledging:
    cdef Consumer _consumer
    cdef Ledger _ledger
    cdef object _world
    cdef object _sample_percent
    cdef Py_ssize_t _settling
    cdef list _owed
    cdef long long _seen
    cdef readonly AckSink sink
