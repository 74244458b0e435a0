"""The metadata of a stream: configuration and creation time, twice in one file, with checksums.

    meta.json      <crc32c of the rest> {"config": …, "proof": "<crc32c>", … "<crc32c>": {"config": …}}

The second copy is in another block of the disk.  Versions before it wrote the second copy to ``meta.copy``; a
stream keeps these files until its configuration changes.  If one copy is damaged, the other is read and the
damaged one is rewritten.  A stream that is deleted is first moved away by one rename of its folder, so that a
crash in between leaves no half stream.  A folder with files of others stays, and ``meta.json`` is renamed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
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
_SECOND: Final = "meta.copy"  # of versions that wrote the second copy to a file of its own
_DELETED: Final = "meta.deleted"  # what the first is renamed to in a folder that stays
_PROOF: Final = b', "proof":"'  # before the checksum of the first copy; `encode` never writes this space
_CRC: Final = 8  # hex digits
_PREFIX: Final = _CRC + 1
_BLOCK: Final = 4096  # at a multiple of which the second copy begins
# Every name in the folder of a stream, also while it is created, restored or deleted.
STREAM_FILES: Final = Owned(
    files=r"(meta\.json|meta\.copy|sources\.json)(\.new)?|meta\.deleted|archive\.tar"
    r"|(log|consumers)/[0-9]{10}\.(log|sum|unsynced|log\.new|log\.erase\.new|sum\.new)|log/reach(\.new)?"
    r"|ids/[0-9]{10}-[0-9]{10}\.ids(\.new)?",
    folders=r"log|consumers|ids",
)


_Copy = tuple[bytes, bytes]  # checksum and text


class StreamMeta(Struct):
    """The metadata of a stream."""

    config: StreamConfig = always_new(StreamConfig)
    created: Time = always(Time(0))
    id: str = ""  # distinguishes streams of the same name; empty in streams of older versions


def make_folder(fs: FileSystem, folder: str) -> None:
    """Create the folder of a new stream; it becomes durable with the file of ``create``."""
    fs.make_folder(os.path.dirname(folder))
    fs.make_folder(f"{folder}/log", sync=False)


def create(fs: FileSystem, folder: str, meta: StreamMeta) -> None:
    """Write the metadata of a new stream; they are durable when this returns, the folder's name is not.

    Creating many streams waits for the disk each time: one sync for the file, one for its name, and one when
    the folder gets its final name.
    """
    file = fs.open(f"{folder}/{_FIRST}", create=True)
    try:
        file.append(_encoded(meta))
        file.sync()
    finally:
        file.close()
    fs.sync_folder(folder)


def write(fs: FileSystem, folder: str, meta: StreamMeta) -> None:
    """Replace the metadata; durable when this returns."""
    fs.replace(f"{folder}/{_FIRST}", _encoded(meta))
    try:
        fs.remove(f"{folder}/{_SECOND}")
    except StoreError as error:  # it is read only if both copies in the file are damaged
        _log.error("%s", error)


def _encoded(meta: StreamMeta) -> bytes:
    """Return the content of the file.

    It is one JSON object, as in versions with two files, so that these can read it: they ignore the name
    "proof", whose value is the checksum of the object without it and what follows, and the name of the copy,
    which is its checksum.
    """
    text = encode(meta)
    proof = crc32c(text)
    first = b'%b%b%08x",' % (text[:-1], _PROOF, proof)
    size = _PREFIX + len(first)
    rest = b'%b%b"%08x":%b}' % (first, b" " * (-size % _BLOCK), proof, text)
    return b"%08x %b" % (crc32c(rest), rest)


def read(fs: FileSystem, folder: str) -> StreamMeta:
    """Return the metadata from an intact copy and repair the others; raise StoreError if all are damaged."""
    data = _read(fs, f"{folder}/{_FIRST}")
    at = data.find(_PROOF)
    if at >= 0 and _is_whole(data):
        return decode_written(data[_PREFIX:at] + b"}", StreamMeta, MOST_VALUES)
    return _read_damaged(fs, folder, data)


def _read_damaged(fs: FileSystem, folder: str, data: bytes) -> StreamMeta:
    """Read what is damaged, or was written by a version with two files."""
    copy = _read(fs, f"{folder}/{_SECOND}")
    found = _best(data, copy)
    if found is None:
        raise StoreError(
            "read", f"{folder}/{_FIRST}", "it is damaged, and so is its copy", hint="restore it from a backup"
        )
    if data != copy or not _is_whole(data):
        _log.warning("%s/%s is damaged or was not finished: it is written again", folder, _FIRST)
        try:
            write(fs, folder, found)
        except StoreError as error:  # the next start tries again
            _log.error("%s", error)
    return found


def _read(fs: FileSystem, path: str) -> bytes:
    try:
        return fs.read_all(path)
    except StoreError:
        return b""


def _whole(data: bytes) -> _Copy:
    return data[: _PREFIX - 1], data[_PREFIX:]


def _copies(data: bytes) -> list[_Copy]:
    """Return the copies in a file, sound or not."""
    at = data.find(_PROOF)
    found = []
    if at >= 0:
        found.append((data[at + len(_PROOF) :][:_CRC], data[_PREFIX:at] + b"}"))
    for at in range(_BLOCK, len(data), _BLOCK):
        begins = at + len('"12345678":')
        if data[at : at + 1] == b'"' and data[begins - 2 : begins] == b'":':
            found.append((data[at + 1 :][:_CRC], data[begins:-1]))
    return found or [_whole(data)]


def _best(*files: bytes) -> StreamMeta | None:
    """Return the metadata of the first sound copy in these files; None if all are damaged."""
    copies = list(chain.from_iterable(map(_copies, files)))
    for copy in chain(copies, map(_mended, copies)):  # mending is slow: only what is needed is tried
        meta = _decode(copy)
        if meta is not None:
            return meta
    return None


def _is_whole(data: bytes) -> bool:
    """Return True if no byte of a file is damaged."""
    return data[:_PREFIX] == b"%08x " % crc32c(data[_PREFIX:])


def _decode(copy: _Copy) -> StreamMeta | None:
    crc, text = copy
    if crc != b"%08x" % crc32c(text):
        return None
    try:
        return decode_written(text, StreamMeta, MOST_VALUES)
    except JsonError:
        return None


def _mended(copy: _Copy) -> _Copy:
    """Return a copy with the one byte put right that was changed; empty if the checksum proves none."""
    crc, text = copy
    proof = b"%08x" % crc32c(text)
    if len(crc) == _CRC and sum(one != two for one, two in zip(proof, crc, strict=True)) == 1:
        return proof, text
    try:
        found = changed_byte(text, int(crc, 16))
    except ValueError:
        return b"", b""
    return (b"", b"") if found is None else (crc, found)


def identity(fs: FileSystem, folder: str) -> str | None:
    """Return the id of the stream in a folder, None if there is none; raise StoreError if it is damaged."""
    names = fs.list(folder)
    if not names or is_deleted(names):
        return None
    found = _best(*(_read(fs, f"{folder}/{name}") for name in (_FIRST, _SECOND)))
    if found is None:
        raise StoreError("read", f"{folder}/{_FIRST}", "it is damaged, and so is its copy")
    return found.id


def put_away(fs: FileSystem, folder: str, grave: str) -> None:
    """Move a stream's folder to where it is removed; durable when this returns."""
    fs.make_folder(os.path.dirname(grave))
    fs.rename(folder, grave)
    try:
        fs.sync_folder(os.path.dirname(folder))
    except StoreError:
        fs.rename(grave, folder)
        raise


def withdraw(fs: FileSystem, folder: str) -> None:
    """Turn a stream's folder that stays into one that is no stream; durable when this returns."""
    fs.rename(f"{folder}/{_FIRST}", f"{folder}/{_DELETED}")
    try:
        fs.remove(f"{folder}/{_SECOND}")
        fs.sync_folder(folder)
    except StoreError:
        put_back(fs, folder)
        raise


def put_back(fs: FileSystem, folder: str) -> None:
    """Undo ``withdraw``, if its rename was the last that was done; not durable when this returns."""
    if is_deleted(fs.list(folder)):
        fs.rename(f"{folder}/{_DELETED}", f"{folder}/{_FIRST}")


def is_deleted(names: Sequence[str]) -> bool:
    """Return True if a folder with these names was a stream before ``withdraw``."""
    return _DELETED in names and _FIRST not in names and _SECOND not in names


def is_sound(fs: FileSystem, folder: str) -> bool:
    """Return True if the folder has a configuration with our checksum, which nobody else writes."""
    copies = chain.from_iterable(_copies(_read(fs, f"{folder}/{name}")) for name in (_FIRST, _SECOND))
    return any(_decode(copy) is not None for copy in copies)
