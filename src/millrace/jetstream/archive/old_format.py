"""The form of older archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.jetstream.archive.errors import ArchiveError
from millrace.jetstream.archive.loading import Loaded, LoadLimits

if TYPE_CHECKING:
    from millrace.jetstream.archive.staging import Staging
    from millrace.jsapi.stream_types import StreamConfig


class OldLoading:
    def __init__(self, staging: Staging, config: StreamConfig, limits: LoadLimits, now_ns: int) -> None:
        raise ArchiveError("archive/tar: invalid tar header")

    complete = False
    announced = 0

    def feed(self, data: bytes) -> None: ...

    def finish(self) -> Loaded:
        raise NotImplementedError
