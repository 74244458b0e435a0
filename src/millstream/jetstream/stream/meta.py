"""The metadata beside a stream's log: configuration and creation time, in two copies with checksums.

    meta.json      <crc32c of the rest, 8 hex digits> <JSON>
    meta.copy      the same, written after it

If one copy is damaged, the other is read and the damaged one is rewritten.  A stream that is deleted is first
moved away by one rename of its folder, so that a crash in between leaves no half stream.
"""

from __future__ import annotations

import logging
import os
from itertools import chain
from typing import Final

from millstream.base.checksum import crc32c
from millstream.base.checksum_repair import changed_byte
from millstream.base.owned import Owned
from millstream.golang.json import MOST_VALUES
from millstream.golang.time import Time
from millstream.jsapi.codec import JsonError, decode_written, encode
from millstream.jsapi.go_types import Struct, always, always_new
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem

_log = logging.getLogger("millstream.jetstream")

_FIRST: Final = "meta.json"
_SECOND: Final = "meta.copy"
# Every name in the folder of a stream, also while it is created, restored or deleted.
STREAM_FILES: Final = Owned(
    files=r"(meta\.json|meta\.copy|sources\.json)(\.new)?|archive\.tar"
    r"|(log|consumers)/[0-9]{10}\.(log|sum|unsynced|log\.new|log\.erase\.new|sum\.new)|log/reach(\.new)?"
    r"|ids/[0-9]{10}-[0-9]{10}\.ids(\.new)?",
    folders=r"log|consumers|ids",
)


class StreamMeta(Struct):
    """The metadata of a stream."""

    config: StreamConfig = always_new(StreamConfig)
    created: Time = always(Time(0))
    id: str = ""  # distinguishes streams of the same name; empty in streams of older versions


def make_folder(fs: FileSystem, folder: str) -> None:
    """Create the folder of a new stream; it becomes durable with the files of ``create``."""
    fs.make_folder(os.path.dirname(folder))
    fs.make_folder(f"{folder}/log", sync=False)


def create(fs: FileSystem, folder: str, meta: StreamMeta) -> None:
    """Write both copies for a new stream; the first is durable when this returns, the folder's name is not.

    Creating many streams waits for the disk each time: one sync for the first copy, one for the names of
    both, and one when the folder gets its final name.  The system writes the second copy later; after a power
    loss before that, ``read`` writes it again.
    """
    data = _encoded(meta)
    for name in (_SECOND, _FIRST):
        file = fs.open(f"{folder}/{name}", create=True)
        try:
            file.append(data)
            if name == _FIRST:
                file.sync()
        finally:
            file.close()
    fs.sync_folder(folder)


def write(fs: FileSystem, folder: str, meta: StreamMeta) -> None:
    """Replace both copies; durable when this returns."""
    data = _encoded(meta)
    fs.replace(f"{folder}/{_FIRST}", data)
    _replace(fs, f"{folder}/{_SECOND}", data)


def _encoded(meta: StreamMeta) -> bytes:
    text = encode(meta)
    return b"%08x %b" % (crc32c(text), text)


def read(fs: FileSystem, folder: str) -> StreamMeta:
    """Return the metadata from an intact copy and repair the other; raise StoreError if both are damaged."""
    found = [_read(fs, f"{folder}/{name}") for name in (_FIRST, _SECOND)]
    for data in chain(found, map(_mended, found)):  # mending is slow: only what is needed is tried
        meta = _decode(data)
        if meta is not None:
            break
    else:
        raise StoreError(
            "read", f"{folder}/{_FIRST}", "it is damaged, and so is its copy", hint="restore it from a backup"
        )
    for name, other in zip((_FIRST, _SECOND), found, strict=True):
        if other != data:
            _log.warning("%s/%s is damaged or was not finished: it is written again", folder, name)
            _replace(fs, f"{folder}/{name}", data)
    return meta


def _replace(fs: FileSystem, path: str, data: bytes) -> None:
    """Write the second copy; if that fails, the first suffices and the next start tries again."""
    try:
        fs.replace(path, data)
    except StoreError as error:
        _log.error("%s", error)


def _read(fs: FileSystem, path: str) -> bytes:
    try:
        return fs.read_all(path)
    except StoreError:
        return b""


def _decode(data: bytes) -> StreamMeta | None:
    text = data[9:]
    if data[:9] != b"%08x " % crc32c(text):
        return None
    try:
        return decode_written(text, StreamMeta, MOST_VALUES)
    except JsonError:
        return None


def _mended(data: bytes) -> bytes:
    """Return metadata with the one byte put right that was changed; empty if the checksum proves none.

    A power loss may leave only one copy of a new stream's metadata.
    """
    text = data[9:]
    proof = b"%08x " % crc32c(text)
    if sum(one != two for one, two in zip(proof, data, strict=False)) == 1:
        return proof + text
    try:
        found = changed_byte(text, int(data[:8], 16))
    except ValueError:
        return b""
    return b"" if found is None else data[:9] + found


def identity(fs: FileSystem, folder: str) -> str | None:
    """Return the id of the stream in a folder, None if it is empty; raise StoreError if it is unreadable."""
    if not fs.list(folder):
        return None
    found = [_read(fs, f"{folder}/{name}") for name in (_FIRST, _SECOND)]
    for data in chain(found, map(_mended, found)):  # mending is slow: only what is needed is tried
        meta = _decode(data)
        if meta is not None:
            return meta.id
    raise StoreError("read", f"{folder}/{_FIRST}", "it is damaged, and so is its copy")


def put_away(fs: FileSystem, folder: str, grave: str) -> None:
    """Move a stream's folder to where it is removed; durable when this returns."""
    fs.make_folder(os.path.dirname(grave))
    fs.rename(folder, grave)
    try:
        fs.sync_folder(os.path.dirname(folder))
    except StoreError:
        fs.rename(grave, folder)
        raise


def remove(fs: FileSystem, folder: str) -> None:
    """Remove both copies durably: a folder without them is not a stream."""
    for name in (_SECOND, _FIRST):
        fs.remove(f"{folder}/{name}")
    fs.sync_folder(folder)


def is_sound(fs: FileSystem, folder: str) -> bool:
    """Return True if the folder has a configuration with our checksum, which nobody else writes."""
    return any(_decode(_read(fs, f"{folder}/{name}")) is not None for name in (_FIRST, _SECOND))
