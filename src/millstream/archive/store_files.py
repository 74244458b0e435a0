"""The folder of a nats-server that has stopped: accounts, streams, their blocks and consumers.

    <store>/jetstream/<account>/streams/<stream>/
        meta.inf, meta.sum [, meta.key]                    the configuration, and its hash
        msgs/<n>.blk [, <n>.key], msgs/index.db            messages (``blocks``), ``stream_index``
        obs/<consumer>/meta.inf, meta.sum, o.dat [, meta.key]      a consumer (``old_consumers``)
        __new_msgs__                                       a purge that did not end: it replaces `msgs`

Files are opened for reading only.  Every method raises ArchiveError for what cannot be read, and for blocks
larger than any server writes: a few bytes can decompress to very many.  Not here: what is done about damage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from millstream.archive.errors import ArchiveError
from millstream.archive.frames import read_sound_frames
from millstream.archive.meta_files import check_sum, created_in
from millstream.archive.old_consumers import decode_state
from millstream.archive.states import ArchivedConsumer, check_state
from millstream.archive.store_keys import AssetKey, StoreKeyError, StoreKeys
from millstream.archive.stream_index import HASH_SIZE, StreamIndex, sound_content
from millstream.golang.json import MOST_VALUES
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.stream_types import StreamConfig

_BLOCK: Final = re.compile(r"([0-9]{1,9})\.blk")
_COMPRESSED: Final = b"cmp"
_S2: Final = 1
_LARGEST_BLOCK: Final = 256 * 1024 * 1024  # nats-server begins a new one after 8 MiB; a message may have 64
_NO_CHECKSUM: Final = bytes(HASH_SIZE)  # the last eight bytes of a block without records

_Config = TypeVar("_Config", StreamConfig, ConsumerConfig)


class StoredBlock(msgspec.Struct):
    """A file with messages."""

    number: int
    path: str
    size: int


class BlockContent(msgspec.Struct):
    """The records of a block."""

    data: bytes
    damaged: int = 0  # bytes of the file in damaged frames; records in them may be altered or missing


def jetstream_folder(store: str) -> str:
    """Return the folder with the accounts of a store, given its `store_dir` or that folder itself."""
    inner = os.path.join(store, "jetstream")
    return inner if os.path.isdir(inner) else store


def stored_streams(store: str, keys: StoreKeys) -> Iterator[NatsServerStream]:
    """Yield all streams of all accounts, in the order of their names."""
    folder = jetstream_folder(store)
    for account in _folders(folder):
        streams = os.path.join(folder, account, "streams")
        for name in _folders(streams):
            if not name.startswith("."):  # a stream whose deletion had begun
                yield NatsServerStream(os.path.join(streams, name), account, name, keys)


class NatsServerStream:
    """One stream; see the module."""

    def __init__(self, folder: str, account: str, name: str, keys: StoreKeys) -> None:
        self.folder = folder
        self.account = account
        self.name = name
        self._keys = keys
        self._messages = _messages_folder(folder)

    @cached_property
    def _key(self) -> AssetKey | None:
        return self._asset_key(self.folder, self.name)

    @property
    def encrypted(self) -> bool:
        return self._key is not None

    def config(self) -> tuple[StreamConfig, int, str]:
        """Return the configuration, the creation time in ns, and the problem of its hash, if any."""
        text, problem = self._meta(self.folder, "stream", self.name, self._key)
        config = _decoded(text, StreamConfig)
        if config.name != self.name:
            raise ArchiveError(f"its configuration is of a stream {config.name!r}")
        return config, created_in(text), problem

    def blocks(self) -> list[StoredBlock]:
        """Return the blocks in their order."""
        found = []
        for name, path in self._message_files():
            match = _BLOCK.fullmatch(name)
            if match and not self._is_half_purged(int(match[1])):
                found.append(StoredBlock(int(match[1]), path, os.stat(path).st_size))
        return sorted(found, key=lambda each: each.number)

    def content(self, block: StoredBlock) -> BlockContent:
        """Return the records of a block, decrypted and decompressed."""
        data = self._block_bytes(block)
        if not data.startswith(_COMPRESSED) or len(data) < 5:
            return BlockContent(data)
        at = 4
        while at < len(data) and data[at] >= 0x80:  # the size of the content, which the frames give as well
            at += 1
        if data[3] != _S2 or len(data) - at - 1 < HASH_SIZE:
            raise ArchiveError("its compression is unknown")
        content, damaged = read_sound_frames(data[at + 1 : -HASH_SIZE], _LARGEST_BLOCK)
        return BlockContent(content + data[-HASH_SIZE:], damaged)

    def index(self, blocks: list[StoredBlock]) -> tuple[StreamIndex | None, bool]:
        """Return the state of the stream, if it is sound, and True if it describes exactly these blocks."""
        try:
            data = sound_content(self.name, _read(os.path.join(self._messages, "index.db")))
            index = StreamIndex(self._key.open(data) if self._key is not None else data)
        except ArchiveError:
            return None, False
        return index, self._describes(index, blocks)

    def _describes(self, index: StreamIndex, blocks: list[StoredBlock]) -> bool:
        if not blocks or blocks[-1].number != index.last_block or not index.blocks:
            return False
        if index.blocks[-1].number != index.last_block:
            return False
        there = {each.number for each in blocks}
        if any(each.messages and each.number not in there for each in index.blocks):
            return False
        if sum(each.messages for each in index.blocks) != index.messages:
            return False
        try:
            end = self._block_bytes(blocks[-1])[-HASH_SIZE:]
        except ArchiveError:
            return False
        return (end if len(end) == HASH_SIZE else _NO_CHECKSUM) == index.last_checksum

    def consumers(self) -> list[str]:
        """Return the names of the consumers."""
        folder = os.path.join(self.folder, "obs")
        return [name for name in _folders(folder) if os.path.exists(os.path.join(folder, name, "meta.inf"))]

    def consumer(self, name: str) -> tuple[ArchivedConsumer, str]:
        """Return a consumer, and the problem of its files, if any; raise ArchiveError if it is lost."""
        folder = os.path.join(self.folder, "obs", name)
        key = self._asset_key(folder, f"{self.name}.{name}")
        text, problem = self._meta(folder, "consumer", f"{self.name}/{name}", key)
        config = _decoded(text, ConsumerConfig)
        state = None
        path = os.path.join(folder, "o.dat")
        try:
            data = _read(path) if os.path.exists(path) else b""
            if data:
                state = decode_state(key.open(data) if key is not None else data)
                # A purge moves the floor and leaves these to the next write, which a kill can prevent.
                for seq in [each for each in state.pending if each <= state.floor_sseq]:
                    del state.pending[seq]
                check_state(name, state)
        except ArchiveError as error:
            state, problem = None, f"its state is lost, so it starts again: {error}"
        return ArchivedConsumer(name, config, state, created_in(text)), problem

    def _meta(self, folder: str, kind: str, name: str, key: AssetKey | None) -> tuple[bytes, str]:
        text = _read(os.path.join(folder, "meta.inf"))
        problem = ""
        try:
            check_sum(kind, name, text, _read(os.path.join(folder, "meta.sum")))
        except ArchiveError as error:
            problem = str(error)
        return key.open(text) if key is not None else text, problem

    def _asset_key(self, folder: str, context: str, name: str = "meta.key") -> AssetKey | None:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            return None
        if not self._keys:
            raise StoreKeyError("it is encrypted, and no key was given")
        return self._keys.asset_key(self.account, context, _read(path))

    def _block_bytes(self, block: StoredBlock) -> bytes:
        if block.size > _LARGEST_BLOCK:
            raise ArchiveError(f"it is larger than {_LARGEST_BLOCK} bytes")
        folder = os.path.dirname(block.path)
        key = self._asset_key(folder, f"{self.name}:{block.number}", f"{block.number}.key")
        data = _read(block.path)
        return key.decrypt(data) if key is not None else data

    def _message_files(self) -> Iterator[tuple[str, str]]:
        try:
            with os.scandir(self._messages) as scan:
                yield from ((each.name, each.path) for each in scan if each.is_file())
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unreadable(self._messages, error) from error

    def _is_half_purged(self, number: int) -> bool:
        """Return True for the new block of a purge that was interrupted when only its key had moved."""
        return os.path.exists(os.path.join(self.folder, "__new_msgs__", f"{number}.key")) and (
            self._messages == os.path.join(self.folder, "msgs")
        )


def _messages_folder(folder: str) -> str:
    new = os.path.join(folder, "__new_msgs__")
    if os.path.isdir(new) and any(_BLOCK.fullmatch(name) for name in os.listdir(new)):
        return new
    return os.path.join(folder, "msgs")


def _decoded(text: bytes, kind: type[_Config]) -> _Config:
    try:
        return decode_lenient(text, kind, MOST_VALUES)
    except JsonError as error:
        raise ArchiveError(f"its configuration is unreadable: {error}") from error


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as scan:
            return sorted(each.name for each in scan if each.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> ArchiveError:
    return ArchiveError(f"{path}: {error.strerror or error}")
