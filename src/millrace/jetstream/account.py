"""JetStream of one account: its streams, on disk and running, and what they use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from millrace.jetstream.committer import Committer
from millrace.jetstream.options import AccountJetStreamOptions
from millrace.jetstream.restoring import restore
from millrace.jetstream.stream import Stream
from millrace.jsapi.account_types import AccountInfo, AccountLimits, ApiStats
from millrace.jsapi.codec import decode_lenient, encode
from millrace.jsapi.enums import StorageType
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.go_time import Time
from millrace.jsapi.go_types import Struct, always, always_new
from millrace.jsapi.limits import API_LEVEL
from millrace.jsapi.stream_types import StreamConfig
from millrace.store.errors import StoreError
from millrace.store.fs import FileSystem, MemoryFileSystem
from millrace.store.recovery import open_log

if TYPE_CHECKING:
    from millrace.jetstream.ports import World
    from millrace.store.log import Log

_log = logging.getLogger("millrace.jetstream")


class StreamMeta(Struct):
    """`meta.json` of a stream: what the log does not know."""

    config: StreamConfig = always_new(StreamConfig)
    created: Time = always(Time(0))


class AccountJetStream:
    """All streams of an account."""

    def __init__(
        self,
        name: str,
        world: World,
        options: AccountJetStreamOptions,
        *,
        fs: FileSystem,
        folder: str,
        domain: str = "",
        sync: bool = True,
    ) -> None:
        self.name = name
        self.world = world
        self.options = options
        self.domain = domain
        self.streams: dict[str, Stream] = {}
        self.committer = Committer(world)
        self.api_total = 0
        self.api_errors = 0
        self._fs = fs
        self._memory = MemoryFileSystem()
        self._folder = folder
        self._sync = sync

    # -- streams ----------------------------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        found = self.streams.get(name)
        if found is None:
            raise ApiError(Err.STREAM_NOT_FOUND)
        return found

    def add(self, config: StreamConfig) -> Stream:
        """Create a stream from a configuration that was checked; it is on disk when this returns."""
        created = self.world.now_ns()
        log = self._open_log(config)
        stream = Stream(self, config, created, log, sync=self._sync)
        self._write_meta(stream)
        self.streams[config.name] = stream
        stream.start()
        return stream

    def update(self, stream: Stream, config: StreamConfig) -> None:
        subjects_changed = stream.config.subjects != config.subjects
        stream.configure(config)
        self._write_meta(stream)
        if subjects_changed:
            stream.listen_anew()

    def delete(self, stream: Stream) -> None:
        """Remove a stream and its files; gone when this returns."""
        stream.stop()
        del self.streams[stream.name]
        stream.log.close()
        fs = self._memory if stream.in_memory else self._fs
        fs.remove_folder(self._stream_folder(stream.name))

    def recover(self) -> None:
        """Start the streams that are on disk."""
        for name in self._fs.list(f"{self._folder}/streams"):
            try:
                self._recover_one(name)
            except (StoreError, ApiError, msgspec.MsgspecError) as error:
                _log.error("account %s: stream %s cannot be started: %s", self.name, name, error)

    def _recover_one(self, name: str) -> None:
        meta = decode_lenient(self._fs.read_all(f"{self._stream_folder(name)}/meta.json"), StreamMeta)
        stream = Stream(self, meta.config, int(meta.created), self._open_log(meta.config), sync=self._sync)
        restore(stream)
        self.streams[name] = stream
        stream.start()

    def _open_log(self, config: StreamConfig) -> Log:
        fs: FileSystem = self._memory if config.storage is StorageType.MEMORY else self._fs
        return open_log(fs, f"{self._stream_folder(config.name)}/log", first_seq=max(config.first_seq, 1))

    def _stream_folder(self, name: str) -> str:
        return f"{self._folder}/streams/{name}"

    def _write_meta(self, stream: Stream) -> None:
        if not stream.in_memory:
            meta = StreamMeta(config=stream.config, created=Time(stream.created_ns))
            self._fs.replace(f"{self._stream_folder(stream.name)}/meta.json", encode(meta))

    def stop(self) -> None:
        """Take nothing more and make everything durable."""
        for stream in self.streams.values():
            stream.stop()
            self.committer.flush(stream)
            stream.log.close()

    def report_failure(self, stream: Stream, error: StoreError) -> None:
        """A disk does not take writes any more."""
        # The advisory goes to the system account, which the engine knows.

    # -- what it uses -----------------------------------------------------------------------------

    def used(self, storage: StorageType) -> int:
        return sum(stream.bytes() for stream in self.streams.values() if stream.config.storage is storage)

    def reserved(self, storage: StorageType) -> int:
        return sum(
            max(stream.config.max_bytes, 0)
            for stream in self.streams.values()
            if stream.config.storage is storage
        )

    def info(self) -> AccountInfo:
        limits = self.options
        return AccountInfo(
            memory=self.used(StorageType.MEMORY),
            storage=self.used(StorageType.FILE),
            reserved_memory=self.reserved(StorageType.MEMORY),
            reserved_storage=self.reserved(StorageType.FILE),
            streams=len(self.streams),
            consumers=sum(stream.consumer_count for stream in self.streams.values()),
            limits=AccountLimits(
                max_memory=limits.max_memory,
                max_storage=limits.max_store,
                max_streams=limits.max_streams,
                max_consumers=limits.max_consumers,
                max_ack_pending=limits.max_ack_pending,
                memory_max_stream_bytes=limits.memory_max_stream_bytes,
                storage_max_stream_bytes=limits.store_max_stream_bytes,
                max_bytes_required=limits.max_bytes_required,
            ),
            domain=self.domain,
            api=ApiStats(level=API_LEVEL, total=self.api_total, errors=self.api_errors),
        )
