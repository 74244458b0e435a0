"""A commit that is one write and one sync, on a simulated file: what a ``DiskWriter`` does."""

from __future__ import annotations

import contextlib
import errno
from typing import Protocol

from millstream.store import fill
from millstream.store.errors import StoreError
from millstream.store.record import RecordBuffer


class PagedFile(Protocol):
    """A file that is written at any place."""

    def write_at(self, offset: int, data: bytes) -> None: ...

    def write_page(self, offset: int, data: bytes) -> None:
        """Write bytes of one page, all of them or none."""

    def sync(self) -> None: ...


def write_plainly(file: PagedFile, buffer: RecordBuffer, *, ahead: bool) -> tuple[int, int]:
    """Write and sync records, and zeros `ahead` of the next; return the error numbers of write and sync."""
    buffer.seal()
    target, mark = fill.plan(buffer, fill=ahead)
    try:
        if buffer.size:
            file.write_at(buffer.base, buffer.peek() + mark)
    except StoreError:
        buffer.filled = max(buffer.filled, target)
        return errno.EIO, 0
    end = max(buffer.filled, buffer.base + buffer.size + len(mark))
    with contextlib.suppress(StoreError):  # zeros are no part of the commit
        while end < target:
            count = min(target - end, fill.PAGE - end % fill.PAGE)
            file.write_page(end, bytes(count))
            end += count
    buffer.filled = end
    try:
        file.sync()
    except StoreError:
        return 0, errno.EIO
    return 0, 0
