"""What can go wrong while streams are moved, beside what can go wrong on a link (`link.errors`).

TransferError
├── ServerLost            the server does not go on; running the command again may help
├── BadBackup             a folder does not hold a whole, sound backup
└── CopyDiffers           two copies of a stream are not the same
"""

from collections.abc import Sequence

from millstream.base.errors import MillstreamError


class TransferError(MillstreamError):
    """Base class of the errors of this package."""


class ServerLost(TransferError):
    """The server did not finish what it had begun."""


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
