"""Errors of moving streams.

TransferError
├── RequestRefused        the server answered with an error
│   ├── StreamMissing
│   └── StreamExists
├── ServerLost            no response, or the connection is gone; running the command again may help
│   └── NoJetStream       no response to JetStream API requests: it is off, or has no leader
├── BadBackup             a folder does not contain a complete, intact backup
└── CopyDiffers           two copies of a stream are not the same
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from millstream.base.errors import MillstreamError
from millstream.jsapi.errors import Err

_NOT_FOUND: Final = Err.STREAM_NOT_FOUND.value[1]
_EXISTS: Final = {Err.STREAM_NAME_IN_USE.value[1], Err.STREAM_NAME_IN_USE_RESTORE.value[1]}


class TransferError(MillstreamError):
    """Base class of the errors of this package."""


class RequestRefused(TransferError):
    """The server refused; the numbers are those of `millstream.jsapi.errors.Err`."""

    def __init__(self, status: int, code: int, description: str) -> None:
        self.status = status
        self.code = code
        self.description = description
        super().__init__(f"{description} ({code})")


class StreamMissing(RequestRefused):
    """There is no such stream."""


class StreamExists(RequestRefused):
    """A stream of that name exists; it was not changed."""


class ServerLost(TransferError):
    """There was no response in time."""


class NoJetStream(ServerLost):
    """JetStream is not enabled on the server, or not for this account."""


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


def refusal(error: Mapping[str, Any]) -> RequestRefused:
    """Convert the error of a response to the matching exception."""
    status, code = int(error.get("code", 0)), int(error.get("err_code", 0))
    kind: type[RequestRefused] = RequestRefused
    if code == _NOT_FOUND:
        kind = StreamMissing
    elif code in _EXISTS:
        kind = StreamExists
    return kind(status, code, str(error.get("description", "")))
