"""The archive format of servers before 2.15: a tar of their files.

    meta.inf, meta.sum                  the configuration, and its hash
    msgs/<n>.blk                        messages (``blocks``)
    msgs/index.db                       ignored: the blocks contain everything
    obs/<consumer>/meta.inf, meta.sum, o.dat

Deletions may be at the end, so the whole tar is written to disk before it is read.  No file is ever written
under a name from the archive.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.archive.consumer_states import ArchivedConsumer, check_state
from millstream.archive.errors import ArchiveError
from millstream.archive.highway import HighwayHash
from millstream.archive.old_consumers import decode_state
from millstream.base.errors import UNREADABLE_JSON
from millstream.golang.time import TimeError, parse_time
from millstream.jetstream.snapshots.blocks import BlockLoader
from millstream.jetstream.snapshots.loader import Loaded, LogWriter
from millstream.jetstream.snapshots.messages import LoadLimits, MessageLoader
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.stream_types import StreamConfig

if TYPE_CHECKING:
    from millstream.jetstream.stream.staging_folder import Staging
    from millstream.store.fs import File

_BLOCK: Final = re.compile(r"msgs/(\d{1,9})\.blk")
_CONSUMER: Final = re.compile(r"obs/([^/]+)/(meta\.inf|meta\.sum|o\.dat)")
_LARGEST_FILE: Final = 64 * 1024 * 1024  # a block of messages, or the state of a consumer
_LARGEST_META: Final = 1024 * 1024
_MOST_FILES: Final = 65_536
_END: Final = 512  # bytes of zeros at the end of a tar, at least
_OUTSIDE: Final = re.compile(r"(?:^|/)\.\.(?:/|$)|^/")


class OldLoading:
    """Reads an older archive; see the module."""

    complete = False  # everything up to the end is read

    def __init__(
        self, staging: Staging, account: str, config: StreamConfig, limits: LoadLimits, now_ns: int
    ) -> None:
        self.announced = 0
        self._staging = staging
        self._account = account
        self._config = config
        self._limits = limits
        self._now_ns = now_ns
        self._tar = staging.open_spool()
        self._files: dict[str, tarfile.TarInfo] = {}

    def feed(self, data: bytes) -> None:
        self._tar.append(data)
        self.announced = self._tar.size()
        if not self._limits.hold(self.announced):
            raise self._limits.refusal()

    def finish(self) -> Loaded:
        try:
            return self._take_apart()
        except tarfile.TarError as error:
            raise ArchiveError("archive/tar: invalid tar header") from error
        finally:
            self._tar.close()
            self._staging.drop_spool()

    def _take_apart(self) -> Loaded:
        with tarfile.open(fileobj=_Reader(self._tar), mode="r:") as tar:
            end = 0
            for member in tar:
                if not member.isreg() or _OUTSIDE.search(member.name):
                    raise ArchiveError(f"unexpected content (account={self._account})")
                self._files[member.name.removeprefix("./")] = member
                if len(self._files) > _MOST_FILES:
                    raise ArchiveError("there are too many files in it")
                end = max(end, tar.offset)
            self._check_end(end)
            created = self._check_meta(tar)
            self._limits.hold(0)  # from now on messages count, not the tar
            loaded = Loaded(self._staging.begin_log(1), created=created)
            self._load_messages(tar, loaded)
            loaded.consumers = self._consumers(tar)
        return loaded

    def _check_end(self, end: int) -> None:
        """Raise ArchiveError unless the tar ends properly: one cut between two files would look complete."""
        rest = self._tar.read(end, _END)
        if len(rest) < _END or any(rest):
            raise ArchiveError("unexpected EOF")

    def _read(self, tar: tarfile.TarFile, name: str) -> bytes | None:
        member = self._files.get(name)
        if member is None:
            return None
        if member.size > (_LARGEST_META if name.endswith(("meta.inf", "meta.sum")) else _LARGEST_FILE):
            raise ArchiveError(f"{name} is too large")
        file = tar.extractfile(member)
        data = file.read() if file is not None else b""
        if len(data) != member.size:
            raise ArchiveError("unexpected EOF")
        return data

    def _check_meta(self, tar: tarfile.TarFile) -> int:
        """Return when the stream was created; raise ArchiveError if it is another stream."""
        text = self._read(tar, "meta.inf")
        if text is None:
            raise ArchiveError("open meta.inf: no such file or directory")
        try:
            config = decode_lenient(text, StreamConfig)
        except JsonError as error:
            raise ArchiveError(str(error)) from error
        if config.name != self._config.name:
            raise ArchiveError("stream names do not match")
        _check_sum("stream", config.name, text, self._read(tar, "meta.sum"))
        return _created(text)

    def _load_messages(self, tar: tarfile.TarFile, loaded: Loaded) -> None:
        messages = MessageLoader(loaded.log, self._limits, self._now_ns)
        writer = LogWriter(loaded.log)
        blocks = BlockLoader(self._config.name, messages)
        numbers = sorted(int(match[1]) for match in map(_BLOCK.fullmatch, self._files) if match)
        for number in numbers:
            data = self._read(tar, f"msgs/{number}.blk")
            assert data is not None
            blocks.load(number, data)
            time.sleep(0)  # yield to other threads
            writer.write_if_due()
        messages.skip_to(blocks.highest, blocks.highest_timestamp)
        writer.write(sync=True)

    def _consumers(self, tar: tarfile.TarFile) -> list[ArchivedConsumer]:
        found = {match[1] for match in map(_CONSUMER.fullmatch, self._files) if match}
        consumers = []
        for name in sorted(found):
            try:
                consumers.append(self._consumer(tar, name))
            except (ArchiveError, JsonError) as error:
                raise ArchiveError(f'error restoring consumer ["{name}"]: {error}') from error
        return consumers

    def _consumer(self, tar: tarfile.TarFile, name: str) -> ArchivedConsumer:
        text, digest = self._read(tar, f"obs/{name}/meta.inf"), self._read(tar, f"obs/{name}/meta.sum")
        if text is None or digest is None:
            missing = "meta.inf" if text is None else "meta.sum"
            raise ArchiveError(f"{missing}: no such file or directory")
        _check_sum("consumer", f"{self._config.name}/{name}", text, digest)
        config = decode_lenient(text, ConsumerConfig)
        data = self._read(tar, f"obs/{name}/o.dat")
        state = decode_state(data) if data else None
        if state is not None:
            check_state(name, state)
        return ArchivedConsumer(name, config, state, _created(text))


def _check_sum(kind: str, name: str, text: bytes, digest: bytes | None) -> None:
    """Raise ArchiveError if the metadata of a stream or consumer was altered."""
    found = HighwayHash(hashlib.sha256(name.encode()).digest()).sum(text).hex().encode()
    if digest is not None and digest.strip() != found:
        raise ArchiveError(f"{kind} metadata does not match its checksum")


def _created(text: bytes) -> int:
    """Return ns since 1970, or 0 if the metadata has no creation time."""
    try:
        found: Any = msgspec.json.decode(text)
        return max(int(parse_time(found["Created"])), 0)
    except (KeyError, TypeError, TimeError, *UNREADABLE_JSON):
        return 0


class _Reader(io.RawIOBase):
    """A file of the store, for ``tarfile``."""

    def __init__(self, file: File) -> None:
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
