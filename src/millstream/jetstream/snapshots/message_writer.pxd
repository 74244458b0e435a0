cimport cython

from millstream.archive.entries cimport EntryBuffer
from millstream.store.frozen cimport Frozen
from millstream.store.record cimport Record

cpdef bint fill(EntryBuffer buffer, Frozen frozen, Record record, Py_ssize_t most) except -1
