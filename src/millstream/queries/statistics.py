"""Statistics of a query: what was read for it, and what came of it."""

import msgspec

ICEBERG = "iceberg"  # the transport of rows that come from a table


class ScanStatistics(msgspec.Struct):
    """The reading of one scan of a stream or table."""

    stream: str
    columns: list[str]
    first: int  # sequences, both included; 0 for a table
    last: int
    subjects: list[str]
    transport: str
    messages: int = 0
    bytes: int = 0
    table: str = ""
    files: int = 0  # data files that were not skipped
    file_bytes: int = 0  # the size of these files
    gaps: list[tuple[int, int]] = []  # sequences that neither the table nor the stream has


class QueryStatistics(msgspec.Struct):
    """The reading and the result of a query."""

    rows: int = 0
    truncated: bool = False  # there are more rows than the limit allows
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0
    scans: list[ScanStatistics] = []
