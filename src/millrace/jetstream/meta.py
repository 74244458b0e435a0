"""What is kept of a stream beside its log: configuration and time of creation, twice, each with a checksum.

    meta.json      <crc32c of the rest, 8 hex digits> <JSON>
    meta.copy      the same, written after it

A flipped bit in one of them costs nothing: the other is read.  Deleting a stream renames `meta.json` to
`meta.deleted` first, so that a crash in the middle leaves no half stream behind.
"""

from __future__ import annotations

from typing import Final

from millrace.jsapi.codec import JsonError, decode_lenient, encode
from millrace.jsapi.go_time import Time
from millrace.jsapi.go_types import Struct, always, always_new
from millrace.jsapi.stream_types import StreamConfig
from millrace.store.checksum import crc32c
from millrace.store.errors import StoreError
from millrace.store.fs import FileSystem

_FIRST: Final = "meta.json"
_SECOND: Final = "meta.copy"
_DELETED: Final = "meta.deleted"


class StreamMeta(Struct):
    """What the log does not know."""

    config: StreamConfig = always_new(StreamConfig)
    created: Time = always(Time(0))


def write(fs: FileSystem, folder: str, meta: StreamMeta) -> None:
    """Durable when this returns."""
    text = encode(meta)
    data = b"%08x %b" % (crc32c(text), text)
    fs.replace(f"{folder}/{_FIRST}", data)
    fs.replace(f"{folder}/{_SECOND}", data)


def read(fs: FileSystem, folder: str) -> StreamMeta:
    """What was written last, as far as it is sound; StoreError if nothing is."""
    for name in (_FIRST, _SECOND):
        meta = _sound(fs, f"{folder}/{name}")
        if meta is not None:
            return meta
    raise StoreError(
        "read", f"{folder}/{_FIRST}", "it is damaged, and so is its copy", hint="restore it from a backup"
    )


def _sound(fs: FileSystem, path: str) -> StreamMeta | None:
    try:
        data = fs.read_all(path)
    except StoreError:
        return None
    text = data[9:]
    if data[:9] != b"%08x " % crc32c(text):
        return None
    try:
        return decode_lenient(text, StreamMeta)
    except JsonError:
        return None


def mark_deleted(fs: FileSystem, folder: str) -> None:
    """From now on the stream does not come back, whatever happens to its files."""
    fs.rename(f"{folder}/{_FIRST}", f"{folder}/{_DELETED}")
    fs.sync_folder(folder)


def is_deleted(fs: FileSystem, folder: str) -> bool:
    names = fs.list(folder)
    return _DELETED in names


def never_existed(fs: FileSystem, folder: str) -> bool:
    """A crash came before the stream was created: nothing in it can have been acknowledged."""
    names = fs.list(folder)
    return _FIRST not in names and _SECOND not in names and not fs.list(f"{folder}/log")
