"""Errors of the store, worded so that an operator can act."""

from millstream.base.errors import MillstreamError


class StoreError(MillstreamError):
    """An operation on a file failed, or a file is invalid."""

    def __init__(
        self,
        op: str,
        path: str,
        reason: str,
        *,
        seq: int | None = None,
        hint: str = "",
        recoverable: bool = False,
        full: bool = False,
    ) -> None:
        self.op = op  # what was tried: `write`, `sync`, `open`…
        self.path = path
        self.seq = seq  # the record it was about, if it was about one
        self.hint = hint  # what a person can do
        self.recoverable = recoverable  # may heal without a restart, e.g. when disk space returns
        self.full = full  # there is no room
        self._rest = f" (sequence {seq})" if seq is not None else ""
        self._rest += f": {reason}{'; ' + hint if hint else ''}"
        super().__init__(f"cannot {op} {path}{self._rest}")

    @property
    def client_text(self) -> str:
        """Return the message for clients, with the file's path within the store only."""
        return f"cannot {self.op} {_within_store(self.path)}{self._rest}"


def _within_store(path: str) -> str:
    _, found, inside = path.rpartition("/jetstream/")
    return inside if found else path.rpartition("/")[2]


def client_text(error: Exception) -> str:
    """Return the message about an error for clients."""
    return error.client_text if isinstance(error, StoreError) else str(error)
