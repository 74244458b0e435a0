cimport cython

from millrace.jetstream.archive.entries cimport EntryBuffer
from millrace.store.frozen cimport Frozen
from millrace.store.record cimport Record

cpdef bint fill(EntryBuffer buffer, Frozen frozen, Record record, Py_ssize_t most) except -1
