"""Summarise an archive of a stream as its bytes pass by.

    reading = ArchiveReading(form)
    reading.feed(chunk) …           # raises BadArchive
    summary = reading.finish()      # raises BadArchive if anything is missing

Only the state, the consumers and a digest are kept, so the size of the stream does not matter.  The digest
covers sequence, time, subject, headers and body of every message, in sequence order: streams with equal
digests have the same messages.  It depends on the content of an archive, not on its bytes, because two
servers compress the same stream differently.

`docs/formats/snapshot.md` describes the format; the caller passes in how it is read and written.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from millstream.transfer.answers import checked_name, checked_state, shown
from millstream.transfer.errors import TransferError

_HEAD: Final = struct.Struct("<QqQQQ")
_CONSUMERS: Final = "consumers/"
_MOST_NOTED: Final = 256 * 1024 * 1024  # bytes of state and consumers, which are kept in memory
_EVERYTHING: Final = 2**64


class BadArchive(TransferError):
    """These bytes are not a complete archive."""


class Frames(Protocol):
    """Reads the outer layer."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None: ...


class Entries(Protocol):
    """Reads the inner layer: ``next`` steps to an entry, whose parts are in `buf`."""

    buf: bytes
    timestamp: int
    seq: int
    name_start: int
    name_size: int
    header_size: int
    body_start: int
    body_size: int
    most: int
    too_large: bool

    def feed(self, data: bytes) -> None: ...

    def next(self) -> bool: ...

    def is_end(self) -> bool: ...

    def name(self) -> bytes: ...

    def body(self) -> bytes: ...


class EntryWriter(Protocol):
    """Writes the inner layer."""

    def append(self, data: bytes) -> None: ...

    def add(
        self, name: bytes, timestamp: int, seq: int, source: bytes, start: int, header_size: int, size: int
    ) -> None: ...

    def take(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ArchiveForm:
    """Readers and writers of archives."""

    frames: Callable[[], Frames]
    entries: Callable[[], Entries]
    writer: Callable[[], EntryWriter]
    frame: Callable[[bytes], bytes]
    start: bytes  # first bytes of every archive
    magic: bytes  # first bytes of the inner layer
    block_size: int  # most bytes in a frame
    problem: type[Exception]  # the exception that reading raises


@dataclass(slots=True)
class Summary:
    """The content of a stream in an archive."""

    messages: int = 0
    first_seq: int = 0  # of the existing messages; 0: there are none
    last_seq: int = 0
    digest: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    consumers: dict[str, Any] = field(default_factory=dict)  # name → configuration and state
    older_form: bool = False  # an archive of servers before 2.15: only its frames were checked


class ArchiveReading:
    """Reads an archive; see the module.  Messages after `upto` are not counted."""

    def __init__(self, form: ArchiveForm, *, upto: int = _EVERYTHING) -> None:
        self._problem = form.problem
        self._magic = form.magic
        self._frames = form.frames()
        self._entries = form.entries()
        self._upto = upto
        self._first = b""  # bytes collected until the format is known
        self._known = False
        self._ended = False
        self._digest = hashlib.sha256()
        self._noted = 0  # bytes of entries that are not messages
        self.summary = Summary()

    @property
    def has_consumers(self) -> bool:
        """Return True if everything before the messages was read."""
        summary = self.summary
        count = summary.state.get("consumer_count", 0)
        return bool(summary.state) and (type(count) is not int or len(summary.consumers) >= count)

    def feed(self, data: bytes) -> None:
        try:
            for piece in self._frames.feed(data):
                self._take(piece)
        except self._problem as error:
            raise BadArchive(str(error)) from error

    def finish(self) -> Summary:
        try:
            self._frames.finish()
        except self._problem as error:
            raise BadArchive(f"it ends too early ({error})") from error
        summary = self.summary
        if not self._known:
            raise BadArchive("it is empty")
        if not summary.older_form:
            if not self._ended:
                raise BadArchive("it ends too early")
            summary.digest = self._digest.hexdigest()
        return summary

    def _take(self, piece: bytes) -> None:
        if not self._known:
            self._first += piece
            if len(self._first) < len(self._magic):
                return
            self._known = True
            self.summary.older_form = not self._first.startswith(self._magic)
            piece = self._first
        if self.summary.older_form or self._ended:
            return
        entries = self._entries
        entries.feed(piece)
        while not self._ended and entries.next():
            if entries.too_large:
                raise BadArchive("an entry is too large")
            if entries.seq:
                self._count(entries)
            elif entries.is_end():
                self._ended = True
            else:
                self._note(entries.name().decode(errors="replace"), entries.body())

    def _count(self, entries: Entries) -> None:
        summary, seq = self.summary, entries.seq
        if seq <= summary.last_seq:
            raise BadArchive(f"message {seq} stands behind message {summary.last_seq}")
        if seq > self._upto:
            return
        summary.first_seq = summary.first_seq or seq
        summary.last_seq = seq
        summary.messages += 1
        head = (seq, entries.timestamp, entries.name_size, entries.header_size, entries.body_size)
        self._digest.update(_HEAD.pack(*head))
        start, end = entries.name_start, entries.body_start + entries.body_size
        self._digest.update(memoryview(entries.buf)[start:end])

    def _note(self, name: str, body: bytes) -> None:
        self._noted += len(body)
        if self._noted > _MOST_NOTED:
            raise BadArchive(f"its consumers take more than {_MOST_NOTED} bytes")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadArchive(f"{shown(name)} can not be read: {shown(str(error))}") from error
        if name == "state.json":
            self.summary.state = checked_state(found, name)
        elif name.startswith(_CONSUMERS):
            if not isinstance(found, dict):
                raise BadArchive(f"{shown(name)} is no object")
            self.summary.consumers[checked_name(name.removeprefix(_CONSUMERS), "consumer")] = found
        else:
            raise BadArchive(f"nobody knows what {shown(name)} is")


class ArchiveWriting:
    """Writes an archive for a server: state, then messages, then ``finish``."""

    def __init__(self, form: ArchiveForm, state: dict[str, Any]) -> None:
        self._form = form
        self._buffer = form.writer()
        self._begun = False
        text = json.dumps({**state, "consumer_count": 0}).encode()
        self._buffer.append(form.magic)
        self._buffer.add(b"state.json", 0, 0, text, 0, 0, len(text))
        self._waiting = b""

    def add(self, seq: int, timestamp: int, subject: str, headers: bytes, body: bytes) -> None:
        both = headers + body
        self._buffer.add(subject.encode(), timestamp, seq, both, 0, len(headers), len(both))

    def take(self) -> bytes:
        """Return the bytes that are ready to be sent."""
        return self._frames(final=False)

    def finish(self) -> bytes:
        self._buffer.add(b"", 0, 0, b"", 0, 0, 0)
        return self._frames(final=True)

    def _frames(self, *, final: bool) -> bytes:
        size = self._form.block_size
        data = self._waiting + self._buffer.take()
        whole = len(data) if final else len(data) - len(data) % size
        self._waiting = data[whole:]
        frames = [self._form.frame(data[at : min(at + size, whole)]) for at in range(0, whole, size)]
        start = b"" if self._begun else self._form.start
        self._begun = True
        return start + b"".join(frames)
