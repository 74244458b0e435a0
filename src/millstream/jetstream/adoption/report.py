"""The result of an adoption: what was taken over of each stream, and what could not be."""

from __future__ import annotations

from typing import Final

import msgspec

MOST_RANGES: Final = 1000  # of the sequences of one damaged place that are listed


class BlockDamage(msgspec.Struct):
    """One damaged place in the messages of a stream."""

    file: str
    offset: int  # in the file, or in its content if that is compressed
    bytes: int
    reason: str
    # First and last sequence of each run of messages that are lost.
    sequences: list[tuple[int, int]] = msgspec.field(default_factory=list)
    exact: bool = True  # False: some of these sequences may have been deleted before

    def text(self) -> str:
        """Describe the damage for people."""
        runs = ", ".join(str(one) if one == two else f"{one} to {two}" for one, two in self.sequences[:20])
        more = ", …" if len(self.sequences) > 20 else ""
        lost = f"sequences {runs}{more}" if runs else "no message"
        doubt = "" if self.exact else " (unless they had been deleted)"
        return f"{self.file}, {self.bytes} bytes at {self.offset}: {self.reason}; lost: {lost}{doubt}"


class StreamReport(msgspec.Struct):
    """One stream."""

    account: str
    stream: str
    messages: int = 0
    bytes: int = 0  # as a stream's info counts them
    first_seq: int = 0
    last_seq: int = 0
    consumers: list[str] = []
    damage: list[BlockDamage] = []
    notes: list[str] = []  # what else is not as it was
    error: str = ""  # why it was not taken over

    @property
    def sound(self) -> bool:
        return not (self.damage or self.notes or self.error)


class AdoptionReport(msgspec.Struct):
    """A whole store."""

    store: str
    folder: str  # empty: nothing was written
    streams: list[StreamReport] = []

    @property
    def sound(self) -> bool:
        return all(each.sound for each in self.streams)
