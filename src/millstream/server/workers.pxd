# Its class stays one of Python's: tests put something else in the place of its methods.
cimport cython
