# Its classes stay Python's: tests put something else in the place of their methods.
cimport cython
