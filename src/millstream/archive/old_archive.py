"""Read an archive of a server before 2.15: a tar of its files.

    meta.inf, meta.sum                  the configuration, and its hash
    msgs/<n>.blk                        messages (``blocks``)
    msgs/index.db                       ignored: the blocks contain everything
    obs/<consumer>/meta.inf, meta.sum, o.dat     a consumer (``old_consumers``)

Deletions may be at the end, so the whole tar has to be on disk before it is read.  No file is ever written
under a name from the archive.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from millstream.archive.errors import ArchiveError
from millstream.archive.meta_files import check_sum, created_in
from millstream.archive.old_consumers import decode_state
from millstream.archive.states import ArchivedConsumer, check_state
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.stream_types import StreamConfig

_BLOCK: Final = re.compile(r"msgs/(\d{1,9})\.blk")
_CONSUMER: Final = re.compile(r"obs/([^/]+)/(meta\.inf|meta\.sum|o\.dat)")
_LARGEST_FILE: Final = 64 * 1024 * 1024  # a block of messages, or the state of a consumer
_LARGEST_META: Final = 1024 * 1024
_MOST_FILES: Final = 65_536
_END: Final = 512  # bytes of zeros at the end of a tar, at least
_OUTSIDE: Final = re.compile(r"(?:^|/)\.\.(?:/|$)|^/")


class SeekableFile(Protocol):
    """A file that is read at any position."""

    def read(self, offset: int, size: int) -> bytes: ...

    def size(self) -> int: ...


@contextmanager
def open_old_archive(file: SeekableFile, account: str, stream: str) -> Iterator[OldArchive]:
    """Open a complete archive of this stream; raise ArchiveError if it is invalid, also while it is read."""
    try:
        with tarfile.open(fileobj=_Reader(file), mode="r:") as tar:
            yield OldArchive(tar, file, account, stream)
    except tarfile.TarError as error:
        raise ArchiveError("archive/tar: invalid tar header") from error


class OldArchive:
    """The files of an archive; see the module.  All methods raise ArchiveError."""

    def __init__(self, tar: tarfile.TarFile, file: SeekableFile, account: str, stream: str) -> None:
        self._tar = tar
        self._file = file
        self._stream = stream
        self._files: dict[str, tarfile.TarInfo] = {}
        end = 0
        for member in tar:
            if not member.isreg() or _OUTSIDE.search(member.name):
                raise ArchiveError(f"unexpected content (account={account})")
            self._files[member.name.removeprefix("./")] = member
            if len(self._files) > _MOST_FILES:
                raise ArchiveError("there are too many files in it")
            end = max(end, tar.offset)
        self._check_end(end)
        self.created = self._check_meta()  # ns since 1970; 0: not in the archive

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the content of each block of messages, in order."""
        for number in sorted(int(match[1]) for match in map(_BLOCK.fullmatch, self._files) if match):
            data = self._read(f"msgs/{number}.blk")
            assert data is not None
            yield number, data

    def consumers(self) -> list[ArchivedConsumer]:
        found = {match[1] for match in map(_CONSUMER.fullmatch, self._files) if match}
        consumers = []
        for name in sorted(found):
            try:
                consumers.append(self._consumer(name))
            except (ArchiveError, JsonError) as error:
                raise ArchiveError(f'error restoring consumer ["{name}"]: {error}') from error
        return consumers

    def _check_end(self, end: int) -> None:
        """Raise ArchiveError unless the tar ends properly: one cut between two files would look complete."""
        rest = self._file.read(end, _END)
        if len(rest) < _END or any(rest):
            raise ArchiveError("unexpected EOF")

    def _read(self, name: str) -> bytes | None:
        member = self._files.get(name)
        if member is None:
            return None
        if member.size > (_LARGEST_META if name.endswith(("meta.inf", "meta.sum")) else _LARGEST_FILE):
            raise ArchiveError(f"{name} is too large")
        file = self._tar.extractfile(member)
        data = file.read() if file is not None else b""
        if len(data) != member.size:
            raise ArchiveError("unexpected EOF")
        return data

    def _check_meta(self) -> int:
        """Return when the stream was created; raise ArchiveError if it is another stream."""
        text = self._read("meta.inf")
        if text is None:
            raise ArchiveError("open meta.inf: no such file or directory")
        try:
            config = decode_lenient(text, StreamConfig)
        except JsonError as error:
            raise ArchiveError(str(error)) from error
        if config.name != self._stream:
            raise ArchiveError("stream names do not match")
        check_sum("stream", config.name, text, self._read("meta.sum"))
        return created_in(text)

    def _consumer(self, name: str) -> ArchivedConsumer:
        text, digest = self._read(f"obs/{name}/meta.inf"), self._read(f"obs/{name}/meta.sum")
        if text is None or digest is None:
            missing = "meta.inf" if text is None else "meta.sum"
            raise ArchiveError(f"{missing}: no such file or directory")
        check_sum("consumer", f"{self._stream}/{name}", text, digest)
        config = decode_lenient(text, ConsumerConfig)
        data = self._read(f"obs/{name}/o.dat")
        state = decode_state(data) if data else None
        if state is not None:
            check_state(name, state)
        return ArchivedConsumer(name, config, state, created_in(text))


class _Reader(io.RawIOBase):
    """A file of the store, for ``tarfile``."""

    def __init__(self, file: SeekableFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size()}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LARGEST_FILE:  # a size from a header of the tar
            raise tarfile.ReadError("too large")
        data = self._file.read(self._at, size)
        self._at += len(data)
        return data
