"""Garbage of a test, collected at its end: errors of forgotten tasks are told when they are collected."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collected() -> Iterator[None]:
    """Collect what becomes garbage in the block, and look at nothing that was there before.

    A test process keeps much, and looking at all of it would take longer than most tests.
    """
    gc.freeze()
    yield
    gc.collect()
