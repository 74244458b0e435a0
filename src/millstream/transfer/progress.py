"""Who wants to know how far a transfer is.

Amounts are bytes of messages as servers count them, so that they fit what ``stream info`` says; what passes
the wire is packed.
"""

from typing import Protocol


class Progress(Protocol):
    """Told about one step after the other; several streams may be under way at the same time."""

    def begin(self, stream: str, step: str, total: int) -> None:
        """`step` says what is done, for example ``backup``; `total` is 0 if nobody knows."""

    def advance(self, stream: str, step: str, done: int) -> None: ...

    def end(self, stream: str, step: str) -> None: ...

    def say(self, text: str) -> None:
        """A line for people."""


class Silence:
    """Nobody wants to know."""

    def begin(self, stream: str, step: str, total: int) -> None:
        pass

    def advance(self, stream: str, step: str, done: int) -> None:
        pass

    def end(self, stream: str, step: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass
