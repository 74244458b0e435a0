"""The files of a duplicate window: their names, reading, writing, merging and removing them.

A file gets its name when it is complete and durable, and never changes.  Its name has the numbers of the
first and the last generation in it: one that was written is ``7-7``, and merging 1 to 8 gives ``1-8``.  Of
files that a crash left beside the merged one, the start removes those.  Runs in any thread.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.checksum import crc32c
from millstream.base.siphash import KEY_SIZE
from millstream.jetstream.dedupe.builder import (
    ENTRY_SIZE,
    INDEX_SIZE,
    LINE_SIZE,
    Builder,
    buckets_for,
    checksum,
    first_hash_of,
)
from millstream.jetstream.dedupe.generation import Generation
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.store.fs import FileSystem

_NAME: Final = re.compile(r"([0-9]{10})-([0-9]{10})\.ids")
_MAGIC: Final = b"MSIDS\x00\x00\x01"
# Magic, entries, buckets, first and last sequence, last time, key, owner, checksum of the tables, of this.
_END: Final = struct.Struct(f"<8s Q Q Q Q q {KEY_SIZE}s 32s I I")
_PART: Final = 4096  # buckets that are merged at a time: some 6 MiB


class GivenUp(Exception):
    """The stream ends: the file is not wanted any more."""


class IdFile(msgspec.Struct, eq=False):
    """A file that can be searched, and the numbers of the generations in it."""

    first: int
    last: int
    generation: Generation


class LoadedIds(msgspec.Struct):
    """The files of a stream that are sound, oldest first, and the key of their hashes."""

    files: list[IdFile] = []
    key: bytes = b""
    damaged: list[str] = []  # why the others were not used


class IdFiles:
    """The folder with the ids of one stream."""

    def __init__(self, fs: FileSystem, folder: str, owner: str) -> None:
        self._fs = fs
        self._folder = folder
        self._owner = owner.encode()[:32].ljust(32, b"\0")

    # -- reading ----------------------------------------------------------------------------------

    def load(self, names: Sequence[str], last_seq: int) -> LoadedIds:
        """Open the files of these names, and remove those that are not sound or not of this log.

        `last_seq` is the end of the log.
        """
        found = LoadedIds()
        unused = [name for name in names if name.endswith(".new") and _NAME.fullmatch(name[: -len(".new")])]
        sound: list[tuple[IdFile, bytes]] = []
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            try:
                sound.append(self._open(name, int(match[1]), int(match[2]), last_seq))
            except StoreError as error:
                found.damaged.append(str(error))
                unused.append(name)
        sound.sort(key=lambda each: (each[0].first, -each[0].last))
        found.key = sound[-1][1] if sound else b""
        reached = 0
        for file, key in sound:
            if file.last > reached and key == found.key:
                reached = file.last
                found.files.append(file)
            else:
                file.generation.file.close()
                unused.append(_name(file.first, file.last))
        if unused:
            for name in unused:
                self._fs.remove(f"{self._folder}/{name}")
            self._fs.sync_folder(self._folder)  # or the log could reach the sequences of a wrong one
        return found

    def _open(self, name: str, first: int, last: int, last_seq: int) -> tuple[IdFile, bytes]:
        path = f"{self._folder}/{name}"
        file = self._fs.open(path, create=False)
        try:
            at = file.size() - _END.size
            end = file.read(at, _END.size) if at >= 0 else b""
            if len(end) != _END.size or crc32c(end[:-4]) != int.from_bytes(end[-4:], "little"):
                raise StoreError("read", path, "its end is damaged")
            magic, count, buckets, first_id, last_id, last_ns, key, owner, crc, _ = _END.unpack(end)
            if magic != _MAGIC or owner != self._owner:
                raise StoreError("read", path, "it is of another stream or version")
            if last_id > last_seq:
                raise StoreError("read", path, f"it reaches {last_id}, and the stream only {last_seq}")
            size = buckets * (INDEX_SIZE + LINE_SIZE)
            if count * ENTRY_SIZE + size != at:
                raise StoreError("read", path, "it has another size")
            tables = file.read(count * ENTRY_SIZE, size)
            if checksum(tables) != crc:
                raise StoreError("read", path, "its index is damaged")
            try:
                generation = Generation(path, file, tables, buckets, count, first_id, last_id, last_ns)
            except ValueError as error:  # nobody but a forger makes such a file
                raise StoreError("read", path, str(error)) from None
            return IdFile(first, last, generation), key
        except BaseException:
            file.close()
            raise

    # -- writing ----------------------------------------------------------------------------------

    def write(
        self, number: int, entries: bytes, first_seq: int, last_seq: int, last_ns: int, key: bytes
    ) -> IdFile:
        """Write the ids of the messages from `first_seq` to `last_seq`; durable when this returns."""
        builder = Builder(buckets_for(len(entries) // ENTRY_SIZE))
        parts = (builder.add(entries, 0, builder.buckets) for _ in range(1))
        return self._write(number, number, parts, builder, (first_seq, last_seq, last_ns, key))

    def merge(self, files: Sequence[IdFile], key: bytes, given_up: Callable[[], bool]) -> IdFile:
        """Write one file instead of neighbours, oldest first; the caller removes these.

        Raises DamagedIds if one of them is damaged, and GivenUp.
        """
        builder = Builder(buckets_for(sum(each.generation.count for each in files)))
        last = files[-1].generation
        about = (
            files[0].generation.first_seq,
            last.last_seq,
            max(each.generation.last_ns for each in files),
            key,
        )
        parts = _merged([each.generation for each in files], builder, given_up)
        return self._write(files[0].first, files[-1].last, parts, builder, about)

    def _write(
        self,
        first: int,
        last: int,
        parts: Iterable[bytes | bytearray],
        builder: Builder,
        about: tuple[int, int, int, bytes],
    ) -> IdFile:
        fs, path = self._fs, f"{self._folder}/{_name(first, last)}"
        first_seq, last_seq, last_ns, key = about
        fs.make_folder(self._folder)
        fs.remove(f"{path}.new")  # what a try that failed has left
        file = fs.open(f"{path}.new", create=True)
        try:
            for part in parts:
                file.append(memoryview(part))
            at = builder.count * ENTRY_SIZE
            for part in builder.tables():
                file.append(memoryview(part))
            tables = file.read(at, file.size() - at)  # in one piece
            end = _END.pack(
                _MAGIC,
                builder.count,
                builder.buckets,
                first_seq,
                last_seq,
                last_ns,
                key,
                self._owner,
                checksum(tables),
                0,
            )[:-4]
            file.append(end + crc32c(end).to_bytes(4, "little"))
            file.sync()
            fs.rename(f"{path}.new", path)
            fs.sync_folder(self._folder)
        except BaseException as error:
            file.close()
            if isinstance(error, (StoreError, GivenUp)):
                with contextlib.suppress(StoreError):
                    fs.remove(f"{path}.new")  # what did not fit need not fill the disk
            raise
        generation = Generation(
            path, file, tables, builder.buckets, builder.count, first_seq, last_seq, last_ns
        )
        return IdFile(first, last, generation)

    def remove(self, files: Iterable[IdFile]) -> None:
        """Remove files that nothing reads any more."""
        for each in files:
            each.generation.file.close()
            self._fs.remove(f"{self._folder}/{_name(each.first, each.last)}")


def _merged(
    generations: Sequence[Generation], builder: Builder, given_up: Callable[[], bool]
) -> Iterator[bytearray]:
    """Yield the parts of a merged file."""
    for first in range(0, builder.buckets, _PART):
        if given_up():
            raise GivenUp
        end = min(first + _PART, builder.buckets)
        low = first_hash_of(first, builder.buckets)
        high = first_hash_of(end, builder.buckets) - 1
        entries = b"".join(
            each.entries_in((low * each.buckets) >> 32, ((high * each.buckets) >> 32) + 1)
            for each in generations
        )
        yield builder.add(entries, first, end)


def _name(first: int, last: int) -> str:
    return f"{first:010}-{last:010}.ids"
