"""What was found damaged: kept for whoever asks, because a log goes on without it."""

from collections.abc import Callable
from typing import Final

import msgspec

MOST_LISTED: Final = 1000  # sequences of one place; that many tell enough


class Damage(msgspec.Struct):
    """One place that a restart or a read found broken; the rest of the log is untouched by it."""

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

    def add(self, damage: Damage, messages: int) -> None:
        self.damages.append(damage)
        self.messages += messages
        self.bytes += damage.bytes
        if self.listener is not None:
            self.listener()

    def sequences(self) -> list[int]:
        """Of all messages that may be gone, as far as they are known, in order."""
        return sorted({seq for damage in self.damages for seq in damage.sequences})
