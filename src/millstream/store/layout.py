"""Describe the files of a log and where its messages lie, for people and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from millstream.store.commit import segment_path
from millstream.store.segment import FILE_HEADER_SIZE

if TYPE_CHECKING:
    from millstream.store.log import Log

FIRST_RECORD: Final = FILE_HEADER_SIZE  # offset in a file


class FileFacts(msgspec.Struct, frozen=True):
    """One segment of a log and its file."""

    number: int
    size: int  # bytes, with those that are not written yet
    messages: int  # with removed ones
    live: int
    sealed: bool
    compressed: bool
    loaded: bool  # its tables are in memory
    held: bool  # somebody reads it as it was


def layout(log: Log) -> list[FileFacts]:
    """Return the files of a log, in order."""
    return [
        FileFacts(
            segment.number,
            segment.size,
            segment.count,
            segment.live,
            segment.sealed,
            segment.compressed,
            segment.loaded,
            segment.held > 0,
        )
        for segment in log.chain.segments
    ]


class RecordPlace(msgspec.Struct, frozen=True):
    """The record of one message on disk."""

    path: str
    offset: int
    size: int


def place_of(log: Log, seq: int) -> RecordPlace:
    """Return where a message lies, removed or not; raise KeyError if there is none."""
    segment = log.chain.segment_of(seq)
    if segment is not None:
        log.reader.load(segment)
        if segment.holds(seq):
            ordinal = segment.first_not_below(seq)
            path = segment_path(log.folder, segment.number)
            return RecordPlace(path, segment.offset_at(ordinal), segment.size_of(ordinal))
    raise KeyError(seq)
