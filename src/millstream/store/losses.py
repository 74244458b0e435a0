"""Records of damage that was found, because a log continues without the damaged messages."""

from collections.abc import Callable
from typing import Final

import msgspec

MOST_LISTED: Final = 1000  # sequences of one place; that many tell enough


class Damage(msgspec.Struct):
    """One damaged place, found by a restart or a read; the rest of the log is intact."""

    path: str
    offset: int
    bytes: int
    reason: str
    sequences: list[int] = msgspec.field(
        default_factory=list
    )  # of messages that may have been there, the first ones


class Losses(msgspec.Struct):
    """All damage so far."""

    damages: list[Damage] = []
    messages: int = 0  # at most so many are gone: what was damaged cannot be counted exactly
    bytes: int = 0
    listener: Callable[[], None] | None = None  # called when there is more
    torn: list[tuple[int, int]] = []  # first and last sequence of places where a start found a lost sector
    reach: int = 0  # the last sequence that may have been used, if an origin sends lost messages again

    def add(self, damage: Damage, messages: int) -> None:
        self.damages.append(damage)
        self.messages += messages
        self.bytes += damage.bytes
        if self.listener is not None:
            self.listener()

    def last_untorn(self, last_seq: int) -> int:
        """Return the last sequence before everything that a power loss may have torn, at most `last_seq`."""
        return min([first - 1 for first, _ in self.torn], default=last_seq)

    def sequences(self) -> list[int]:
        """Return the sequences of all messages that may be lost, as far as known, in order."""
        return sorted({seq for damage in self.damages for seq in damage.sequences})
