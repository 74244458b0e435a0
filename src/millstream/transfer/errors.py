"""Errors of moving streams, besides those of a link (`link.errors`).

TransferError
├── ServerLost            the server stopped responding; running the command again may help
├── BadBackup             a folder does not contain a complete, sound backup
└── CopyDiffers           two copies of a stream differ
"""

from collections.abc import Sequence

from millstream.base.errors import MillstreamError


class TransferError(MillstreamError):
    """Base class of the errors of this package."""


class ServerLost(TransferError):
    """The server did not finish an operation."""


class BadBackup(TransferError):
    """The backup is unusable; nothing of it was restored."""

    def __init__(self, where: object, why: str) -> None:
        super().__init__(f"{where}: {why}")


class CopyDiffers(TransferError):
    """The copy differs from its source; `differences` lists how."""

    def __init__(self, stream: str, differences: Sequence[str]) -> None:
        self.stream = stream
        self.differences = list(differences)
        shown = "; ".join(self.differences[:5])
        more = f"; and {len(self.differences) - 5} more" if len(self.differences) > 5 else ""
        super().__init__(f"the copy of stream {stream} differs: {shown}{more}")
