cimport cython

from millstream.store.subject_list cimport SubjectList
from millstream.subjects.match cimport matches

@cython.locals(flags=bytearray, number=Py_ssize_t)
cpdef bytes flags_between(SubjectList subjects, Py_ssize_t start, Py_ssize_t end, bytes pattern)
@cython.locals(flags=bytearray, number=Py_ssize_t, subject=bytes, pattern=bytes)
cdef bytes _tried(SubjectList subjects, Py_ssize_t start, Py_ssize_t end, tuple patterns)
