"""The reading of streams for a query.  Streams of buckets are read on until nothing has come meanwhile.

A bucket that keeps one entry for each key drops it when the next one comes.  A key that is written again
while the bucket is read may be missed in the range that was planned; its new entry is behind it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from millstream.queries.dataset import Opener
from millstream.queries.relations import BUCKET_PREFIX
from millstream.tables.source import Selection, TableSource
from millstream.tables.stream_range import StreamRange

_MOST_ROUNDS: Final = 5  # after that, what comes during one short round is left to the next query


def planned_ranges(source: TableSource, stream: str, selection: Selection) -> Iterator[StreamRange]:
    """Yield the ranges to read; the next one is planned when the last one has been read."""
    is_open = selection.high is None and selection.until_ns is None
    rounds = _MOST_ROUNDS if is_open and stream.startswith(BUCKET_PREFIX) else 1
    for _ in range(rounds):
        part = source.plan(stream, selection)
        if part.high < part.low:
            return
        yield part
        selection = replace(selection, low=part.high + 1, from_ns=None)


def opener_of(source: TableSource) -> Opener:
    """Return the function that reads parts of streams from a server."""

    def batches(stream: str, selection: Selection) -> Iterator[Any]:
        for part in planned_ranges(source, stream, selection):
            yield from source.read(part, selection.columns)

    return batches
