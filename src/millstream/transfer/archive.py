"""Summarise an archive of a stream as its bytes pass by.

    reading = ArchiveReading()
    reading.feed(chunk) …           # raises BadArchive
    summary = reading.finish()      # raises BadArchive if anything is missing

Only the state, the consumers and a digest are kept, so the size of the stream does not matter.  The digest
covers sequence, time, subject, headers and body of every message, in sequence order: streams with equal
digests have the same messages.  It depends on the content of an archive, not on its bytes, because two
servers compress the same stream differently.

The format itself is in `millstream.archive`; docs/formats/snapshot.md describes it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from millstream.archive.entries import MAGIC, EntryReader
from millstream.archive.errors import ArchiveError
from millstream.archive.frames import FrameReader
from millstream.archive.states import CONSUMERS, STATE
from millstream.archive.writer import ArchiveWriter
from millstream.transfer.answers import checked_name, checked_state, shown
from millstream.transfer.errors import TransferError

_HEAD: Final = struct.Struct("<QqQQQ")
_MOST_NOTED: Final = 256 * 1024 * 1024  # bytes of state and consumers, which are kept in memory
_EVERYTHING: Final = 2**64


class BadArchive(TransferError):
    """Raised for bytes that are not a complete archive."""


@dataclass(slots=True)
class ArchiveSummary:
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

    def __init__(self, *, upto: int = _EVERYTHING) -> None:
        self._frames = FrameReader()
        self._entries = EntryReader()
        self._upto = upto
        self._first = b""  # bytes collected until the format is known
        self._known = False
        self._ended = False
        self._digest = hashlib.sha256()
        self._noted = 0  # bytes of entries that are not messages
        self.summary = ArchiveSummary()

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
        except ArchiveError as error:
            raise BadArchive(str(error)) from error

    def finish(self) -> ArchiveSummary:
        try:
            self._frames.finish()
        except ArchiveError as error:
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
            if len(self._first) < len(MAGIC):
                return
            self._known = True
            self.summary.older_form = not self._first.startswith(MAGIC)
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

    def _count(self, entries: EntryReader) -> None:
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
        if name == STATE:
            self.summary.state = checked_state(found, name)
        elif name.startswith(CONSUMERS):
            if not isinstance(found, dict):
                raise BadArchive(f"{shown(name)} is no object")
            self.summary.consumers[checked_name(name.removeprefix(CONSUMERS), "consumer")] = found
        else:
            raise BadArchive(f"nobody knows what {shown(name)} is")


class ArchiveWriting:
    """Writes an archive for a server: state, then messages, then ``finish``."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._writer = ArchiveWriter()
        self._writer.add(STATE, 0, json.dumps({**state, "consumer_count": 0}).encode())

    def add(self, seq: int, timestamp: int, subject: str, headers: bytes, body: bytes) -> None:
        both = headers + body
        self._writer.entries.add(subject.encode(), timestamp, seq, both, 0, len(headers), len(both))

    def take(self) -> bytes:
        """Return the bytes that are ready to be sent."""
        return self._writer.take()

    def finish(self) -> bytes:
        """Return the last bytes."""
        return self._writer.finish()
