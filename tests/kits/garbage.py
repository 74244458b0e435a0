"""Collect the garbage of a test at its end, because errors of forgotten tasks are reported on collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collected() -> Iterator[None]:
    """Collect what becomes garbage in the block, ignoring everything that existed before.

    A test process holds many objects, and visiting all of them would take longer than most tests.
    """
    gc.freeze()
    yield
    gc.collect()
