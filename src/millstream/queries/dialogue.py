"""The dialogue of a query's process with its parent: JSON messages with a length, and pipes for rows.

    parent                                        engine
    QueryStart (query, limits)          ─▶
                                        ◀─        Resolve (names in the query)
    Resolved (streams and tables)       ─▶
                                        ◀─        ScanRequest, for each scan
    Granted, and the end of a pipe      ─▶
         rows as an Arrow stream, then COMPLETE   (pipe of the scan)
         the result as an Arrow stream            (pipe of the result)
                                        ◀─        Finished, or Failed

The engine has no other way to the outside.  It never gets a connection or a credential.
"""

import contextlib
import os
import socket
from typing import Any, Final

import msgspec

from millstream.queries.limits import SqlLimits
from millstream.queries.relations import FoundRelation, RelationPart
from millstream.queries.substrait import Span
from millstream.tables.source import Selection

COMPLETE: Final = b"\x01"  # after the rows of a scan: a stream that was cut does not have it
_LONGEST: Final = 4 * 1024 * 1024
_SIZE: Final = 4


class QueryStart(msgspec.Struct, tag=True):
    """Begin a query."""

    query: str
    limits: SqlLimits


class Resolve(msgspec.Struct, tag=True):
    """Ask what names mean: schema and name."""

    names: list[tuple[str, str]]


class Resolved(msgspec.Struct, tag=True):
    """The place of each relation that was asked for; None if there is none."""

    found: list[FoundRelation | None]


class SpanBounds(msgspec.Struct):
    """A `Span` of a column."""

    low: int | str | None
    high: int | str | None
    values: list[int | str] | None


class ScanRequest(msgspec.Struct, tag=True):
    """Ask for a part of a stream or table; the fields are those of `RelationPart`."""

    stream: str
    table: str
    selection: Selection
    spans: dict[str, SpanBounds]

    @classmethod
    def of(cls, scan: RelationPart) -> "ScanRequest":
        """Return the request for a scan."""
        spans = {
            name: SpanBounds(one.low, one.high, None if one.values is None else sorted(one.values))
            for name, one in scan.spans.items()
        }
        return cls(scan.stream, scan.table, scan.selection, spans)

    def scan(self) -> RelationPart:
        """Return the scan that is asked for."""
        spans = {
            name: Span(one.low, one.high, None if one.values is None else frozenset(one.values))
            for name, one in self.spans.items()
        }
        return RelationPart(self.stream, self.table, self.selection, spans)


class Granted(msgspec.Struct, tag=True):
    """The pipe of a scan follows."""


class Finished(msgspec.Struct, tag=True):
    """The result is complete, or has as many rows as it may have."""

    truncated: bool


class Failed(msgspec.Struct, tag=True):
    """The query failed."""

    kind: str  # refused, catalog, memory, error
    text: str


Message = QueryStart | Resolve | Resolved | ScanRequest | Granted | Finished | Failed
_DECODER: Final = msgspec.json.Decoder(Message)
_ENCODER: Final = msgspec.json.Encoder()


class DialogueEnded(Exception):
    """The other end is gone, or sent what is no message."""


class EngineDialogue:
    """One end of the dialogue.  Callers take turns: a question and its answer are one turn."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def send(self, message: Any) -> None:
        """Send a message; raise DialogueEnded if nobody takes it."""
        raw = _ENCODER.encode(message)
        try:
            self._line.sendall(len(raw).to_bytes(_SIZE, "big") + raw)
        except OSError as error:
            raise DialogueEnded(str(error)) from None

    def receive(self) -> Any:
        """Return the next message; raise DialogueEnded if there is none."""
        size = int.from_bytes(self._exactly(_SIZE), "big")
        if size > _LONGEST:
            raise DialogueEnded("a message is too long")
        try:
            return _DECODER.decode(self._exactly(size))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DialogueEnded(str(error)) from None

    def send_pipe(self, descriptor: int) -> None:
        """Send the end of a pipe, and close it here."""
        try:
            socket.send_fds(self._line, [b"p"], [descriptor])
        except OSError as error:
            raise DialogueEnded(str(error)) from None
        finally:
            os.close(descriptor)

    def receive_pipe(self) -> int:
        """Return the end of a pipe that follows `Granted`."""
        _, descriptors, _, _ = socket.recv_fds(self._line, 1, 1)
        if len(descriptors) != 1:
            raise DialogueEnded("no pipe came")
        return descriptors[0]

    def close(self) -> None:
        """End the dialogue; whoever waits in `receive` at either end gets DialogueEnded."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()

    def _exactly(self, count: int) -> bytes:
        pieces: list[bytes] = []
        while count:
            try:
                piece = self._line.recv(min(count, 1 << 16))
            except OSError as error:
                raise DialogueEnded(str(error)) from None
            if not piece:
                raise DialogueEnded("the other end is gone")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)
