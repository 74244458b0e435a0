"""Reports the progress of a transfer.

Amounts are bytes of messages as servers count them, to agree with ``stream info``; on the wire they are
compressed.
"""

from typing import Protocol


class TransferProgress(Protocol):
    """Receives progress step by step; several streams may be under way at the same time."""

    def begin(self, stream: str, step: str, total: int) -> None:
        """Start a step, for example ``backup``; `total` is 0 if unknown."""

    def advance(self, stream: str, step: str, done: int) -> None: ...

    def end(self, stream: str, step: str) -> None: ...

    def say(self, text: str) -> None:
        """Print a line."""


class Silence:
    """Ignores all progress."""

    def begin(self, stream: str, step: str, total: int) -> None:
        pass

    def advance(self, stream: str, step: str, done: int) -> None:
        pass

    def end(self, stream: str, step: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass
