"""What can go wrong with a store, told so that an operator can act."""

from millstream.base.errors import MillstreamError


class StoreError(MillstreamError):
    """An operation on a file failed, or a file is not what it should be."""

    def __init__(
        self,
        op: str,
        path: str,
        reason: str,
        *,
        seq: int | None = None,
        hint: str = "",
        recoverable: bool = False,
    ) -> None:
        self.op = op  # what was tried: `write`, `sync`, `open`…
        self.path = path
        self.seq = seq  # the record it was about, if it was about one
        self.hint = hint  # what a person can do
        self.recoverable = recoverable  # may heal without a restart, e.g. when disk space returns
        at = f" (sequence {seq})" if seq is not None else ""
        super().__init__(f"cannot {op} {path}{at}: {reason}{'; ' + hint if hint else ''}")
