"""Read an archive as it arrives, check every byte, and store its content in a log.

    loading = Loading(begin, …)
    loading.feed(chunk) …                    # ArchiveError or StoreError: nothing of it may be used
    loaded = loading.finish()                # the same errors if anything is missing

`begin` creates the log once the archive gives its first sequence.  Records are written from time to time and
synced at the end.  Runs in a worker, one call after the other.

The first bytes tell whether it is a current archive (``EntryLoading``) or an older one (``OldLoading``).
Not here: the bytes of either (`millstream.archive`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from millstream.archive.blocks import BlockReader
from millstream.archive.entries import MAGIC, EntryReader
from millstream.archive.errors import ArchiveError, ended, invalid
from millstream.archive.frames import FrameReader
from millstream.archive.old_archive import OldArchive, open_old_archive
from millstream.archive.states import CONSUMERS, ArchivedConsumer, decode_consumer, decode_stream
from millstream.jetstream.snapshots.messages import LoadLimits, MessageLoader
from millstream.jsapi.stream_types import StreamState
from millstream.store.log import Log

if TYPE_CHECKING:
    from millstream.jetstream.stream.staging_folder import Staging
    from millstream.jsapi.stream_types import StreamConfig

_AT_ONCE: Final = 64  # messages; then yield to other threads, which would wait for 5 ms
_WRITTEN_AT_ONCE: Final = 4 * 1024 * 1024  # bytes collected before they are written
_LARGEST_STATE: Final = 256 * 1024  # bytes of state.json
_LARGEST_CONSUMER: Final = 16 * 1024 * 1024
_MOST_OFCONSUMERS: Final = 64 * 1024 * 1024  # bytes of all consumers
_AT_A_STEP: Final = 8 * 1024 * 1024  # bytes decompressed before others have their turn


class Loaded(msgspec.Struct):
    """A stream that was read."""

    log: Log
    consumers: list[ArchivedConsumer] = []
    created: int = 0  # ns since 1970; 0: not in the archive


class LogWriter:
    """Writes the records collected in a log that only this thread uses."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._written = 0

    def write_if_due(self) -> None:
        if self._log.record_bytes - self._written >= _WRITTEN_AT_ONCE:
            self.write(sync=False)

    def write(self, *, sync: bool) -> None:
        self._written = self._log.record_bytes
        commit = self._log.begin_commit(flush=sync)
        if commit is not None:
            commit.run(sync=sync)
            self._log.end_commit(commit)


class EntryLoading:
    """Reads the entries of an archive in order: state, consumers, messages, end."""

    def __init__(self, begin: Callable[[int], Log], limits: LoadLimits, now_ns: int) -> None:
        self._begin = begin
        self._limits = limits
        self._now_ns = now_ns
        self._entries = EntryReader()
        self._entries.most = _LARGEST_STATE
        self._consumer_bytes = 0
        self._state: StreamState | None = None
        self._consumers: list[ArchivedConsumer] = []
        self._messages: MessageLoader | None = None
        self._writer: LogWriter | None = None

    @property
    def complete(self) -> bool:
        """Return True if the rest of the archive, if any, is ignored."""
        return self._messages is not None and self._messages.ended

    @property
    def announced(self) -> int:
        """Return the size of all messages according to the archive."""
        return self._state.bytes if self._state is not None else 0

    def feed(self, data: bytes) -> None:
        if self.complete:
            return
        self._entries.feed(data)
        while self._messages is None:
            if not self._entries.next():
                return
            if self._entries.too_large:
                raise invalid()
            self._take_entry()
        assert self._writer is not None
        while self._messages.take(self._entries, _AT_ONCE):
            time.sleep(0)
            self._writer.write_if_due()
        self._writer.write_if_due()

    def _take_entry(self) -> None:
        """Read an entry that is not a message: the state, then as many consumers as it says."""
        entries = self._entries
        name, body = entries.name().decode(errors="replace"), entries.body()
        if self._state is None:
            self._state = decode_stream(name, body)
            entries.most = _LARGEST_CONSUMER
        else:
            self._consumer_bytes += len(name) + len(body)
            if self._consumer_bytes > _MOST_OFCONSUMERS:
                raise ArchiveError("its consumers are too large")
            if not name.startswith(CONSUMERS):
                raise ArchiveError(f'expected consumer, found "{name}"')
            self._consumers.append(decode_consumer(name.removeprefix(CONSUMERS), body))
        if len(self._consumers) >= self._state.consumer_count:
            self._begin_messages(self._state)

    def _begin_messages(self, state: StreamState) -> None:
        limits = self._limits
        # Where an empty log begins is nowhere on disk, so its used sequences are written: see ``finish``.
        log = self._begin(max(state.first_seq, 1) if state.messages else 1)
        self._messages = MessageLoader(log, limits, self._now_ns)
        self._writer = LogWriter(log)
        self._entries.most = limits.max_payload

    def _cut_short(self) -> ArchiveError:
        """Return the error for an archive that ends too early."""
        entries = self._entries
        if entries.between:
            return ended()
        if not entries.cut:
            return invalid()
        if self._state is None:
            return ArchiveError(f"error in state.json: {invalid()}")
        if self._messages is not None:
            return ArchiveError(f"failed to read message sequence {entries.seq}: {invalid()}")
        name = entries.name().decode(errors="replace").removeprefix(CONSUMERS)
        return ArchiveError(f'failed to decode consumer "{name}" state: {invalid()}')

    def finish(self) -> Loaded:
        if not self.complete:
            raise self._cut_short()
        assert self._state is not None
        assert self._messages is not None
        assert self._writer is not None
        self._messages.skip_to(self._state.last_seq)
        self._writer.write(sync=True)
        return Loaded(self._messages.log, self._consumers)


class OldLoading:
    """Reads an archive of a server before 2.15: first all of it to disk, then its content."""

    complete = False  # everything up to the end is read

    def __init__(
        self, staging: Staging, account: str, config: StreamConfig, limits: LoadLimits, now_ns: int
    ) -> None:
        self.announced = 0
        self._staging = staging
        self._account = account
        self._stream = config.name
        self._limits = limits
        self._now_ns = now_ns
        self._tar = staging.open_spool()

    def feed(self, data: bytes) -> None:
        self._tar.append(data)
        self.announced = self._tar.size()
        if not self._limits.hold(self.announced):
            raise self._limits.refusal()

    def finish(self) -> Loaded:
        try:
            with open_old_archive(self._tar, self._account, self._stream) as archive:
                self._limits.hold(0)  # from now on messages count, not the tar
                loaded = Loaded(self._staging.begin_log(1), created=archive.created)
                self._load_messages(archive, loaded.log)
                loaded.consumers = archive.consumers()
            return loaded
        finally:
            self._tar.close()
            self._staging.drop_spool()

    def _load_messages(self, archive: OldArchive, log: Log) -> None:
        messages = MessageLoader(log, self._limits, self._now_ns)
        writer = LogWriter(log)
        reader = BlockReader(self._stream)
        for number, data in archive.blocks():
            reader.begin(number, data)
            while messages.take_records(reader, _AT_ONCE):
                time.sleep(0)
            writer.write_if_due()
        messages.skip_to(reader.highest, reader.highest_timestamp)
        writer.write(sync=True)


class ArchiveLoading(Protocol):
    """Reads an archive of one format."""

    @property
    def complete(self) -> bool:
        """Return True if the rest of the archive is ignored."""

    @property
    def announced(self) -> int: ...

    def feed(self, data: bytes) -> None: ...

    def finish(self) -> Loaded: ...


class Loading:
    """Reads an archive of any format."""

    def __init__(self, entries: EntryLoading, make_old: Callable[[], ArchiveLoading]) -> None:
        self._frames = FrameReader()
        self._pieces: Iterator[bytes] = iter(())
        self._first = b""  # bytes collected until the format is known
        self._entries = entries
        self._make_old = make_old
        self._form: ArchiveLoading | None = None

    @property
    def announced(self) -> int:
        """Return the expected size of the stream; 0 while unknown."""
        return self._form.announced if self._form is not None else 0

    def feed(self, data: bytes) -> None:
        """Read all of a chunk."""
        self.begin(data)
        while self.step():
            pass

    def begin(self, data: bytes) -> None:
        """Set the chunk that the following steps read."""
        self._pieces = self._frames.feed(data)

    def step(self) -> bool:
        """Read some of the chunk, which may decompress to very much; return False if it is used up."""
        done = 0
        while done < _AT_A_STEP:
            if self._form is not None and self._form.complete:
                return False  # as in nats-server, the rest is ignored
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._take(piece)
            done += len(piece)
        return True

    def _take(self, piece: bytes) -> None:
        if self._form is None:
            self._first += piece
            if len(self._first) < len(MAGIC):
                return
            is_new = self._first.startswith(MAGIC)
            self._form = self._entries if is_new else self._make_old()
            piece = self._first
        self._form.feed(piece)

    def finish(self) -> Loaded:
        """Return the stream at the end of the archive; raise ArchiveError if it is incomplete."""
        if self._form is None:
            self._frames.finish()
            raise ArchiveError("unexpected EOF") if self._first else ended()
        if not self._form.complete:
            self._frames.finish()
        return self._form.finish()
