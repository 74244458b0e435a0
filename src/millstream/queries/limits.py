"""Limits of one query."""

from typing import Final

import msgspec

MIB: Final = 1024 * 1024
LONGEST_QUERY: Final = 256 * 1024  # bytes of a query's text


class SqlLimits(msgspec.Struct, frozen=True):
    """Limits of what a query may use; 0 means no limit, except for memory and threads."""

    memory_mib: int = 1024
    time_s: float = 60.0
    rows: int = 0
    threads: int = 2
