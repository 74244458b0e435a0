"""Write rows in atomic batches with a marker: exactly once, even with concurrent attempts.

    batch  = up to 999 rows, then the marker
    marker = subject <fenceSubject>.<query>.<partition>, body {"batch": b, "chunk": c}
             expects to follow the marker before it (Nats-Expected-Last-Subject-Sequence)

The server stores a batch completely or not at all, and only if nobody else has moved the marker.  So the last
marker says what is written, and of two attempts at the same rows one is refused: it reads the marker, finds
that the rows precede it, and skips them.

    start ─▶ read marker ─▶ skip chunks up to it ─▶ send rows ─▶ send marker ─▶ stored ─▶ next chunk
                 ▲                                                    │
                 └──────────── unknown, or another marker ◀───────────┘

The rows of the next chunk are sent while the server stores one; only the marker has to wait.

A chunk is a fixed part of the partition: it depends on the number of rows and bytes only, not on the sizes of
record batches.  This requires the same rows in the same order when a partition is repeated.
"""

import base64
import json
import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from millstream.jsapi.errors import Err
from millstream.link.blocking_link import BlockingLink, Question
from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import (
    LinkApiError,
    LinkError,
    NoResponders,
    NotConnected,
    ProtocolViolation,
    RequestTimeout,
)
from millstream.link.publish_window import FrameBuffer, read_ack
from millstream.spark.errors import SparkError
from millstream.spark.writing.bad_rows import BadRows
from millstream.spark.writing.columns import ColumnLayout, RowRules, row_frames
from millstream.spark.writing.frames import RowFrames
from millstream.spark.writing.identity import TaskIdentity

logger: Final = logging.getLogger("millstream.spark")

_MOST_ROWS: Final = 999  # rows of a chunk; the server accepts 1,000 messages in a batch
_MOST_BYTES: Final = 8 * 1024 * 1024  # bytes of a chunk, not counting its last row
_BATCH_ROOM: Final = 160  # bytes that a batch adds to the headers of a message, at most
_SEND_AT: Final = 256 * 1024  # bytes that are worth a write
_MARKER_LIFE: Final = "720h"  # where the stream lets messages have one
# Somebody else has moved the marker.
_MOVED: Final = (Err.WRONG_LAST_SEQUENCE, Err.WRONG_LAST_SEQUENCE_UNKNOWN)
_UNSURE: Final = (LinkApiError, NotConnected, RequestTimeout, NoResponders)  # read the marker, then see
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


class Marker(NamedTuple):
    """Progress of writing the rows of a partition; ordered by batch and chunk."""

    batch: int = -1
    chunk: int = -1
    sequence: int = 0  # sequence of the marker; 0: there is none


class _Chunk:
    """Rows that are written together: parts of record batches."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pieces: list[tuple[RowFrames, int, int]] = []  # (frames, first row, row after the last)
        self.rows = 0
        self.bytes = 0

    @property
    def full(self) -> bool:
        return self.rows >= _MOST_ROWS or self.bytes >= _MOST_BYTES


class _Sent(NamedTuple):
    """Rows that were sent and need their marker."""

    name: str  # name of the batch
    marker_number: int  # number of the marker in the batch


class _Waiting(NamedTuple):
    """A chunk whose marker was sent and not acknowledged yet."""

    chunk: _Chunk
    question: Question


class FencedWriter:
    """Writes the rows of one task."""

    def __init__(
        self,
        link: BlockingLink,
        layout: ColumnLayout,
        rules: RowRules,
        bad_rows: BadRows,
        identity: TaskIdentity,
        *,
        stream: str,
        fence_subject: str,
        timeout_s: float,
        marker_expires: bool,
    ) -> None:
        self.rows = 0
        self.duplicates = 0  # rows written before, by another attempt
        self._link = link
        self._layout = layout
        self._rules = rules
        self._bad_rows = bad_rows
        self._identity = identity
        self._stream = stream
        self._subject = f"{fence_subject}.{identity.query}.{identity.partition}"
        self._timeout_s = timeout_s
        self._patience_s = 2 * timeout_s
        self._marker_expires = marker_expires
        self._publisher = BlockingPublisher(link, timeout_s=timeout_s)  # for dead letters
        self._frames = FrameBuffer()
        self._trouble_since: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Return when every row is stored, by this attempt or another one."""
        marker = self._read_marker()
        waiting: _Waiting | None = None
        for chunk in self._chunks(batches):
            marker, waiting = self._push(chunk, marker, waiting)
        if waiting is not None:
            try:
                self._answered(waiting)
            except _UNSURE as error:
                self._unsure(error)
                self._store(waiting.chunk)
        self._settle_dead_letters()
        self._publisher.close()

    # -- chunks -------------------------------------------------------------------------------------

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[_Chunk]:
        """Cut the rows into chunks, the same way in every attempt."""
        chunk = _Chunk(0)
        first_row = 0
        for batch in batches:
            frames = row_frames(
                batch,
                self._layout,
                self._rules,
                first_row=first_row,
                max_payload=self._max_payload(),
            )
            first_row += batch.num_rows
            row = 0
            while row < frames.row_count:
                row = self._fill(chunk, frames, row)
                if chunk.full:
                    yield chunk
                    chunk = _Chunk(chunk.number + 1)
        if chunk.rows:
            yield chunk

    def _fill(self, chunk: _Chunk, frames: RowFrames, row: int) -> int:
        """Add rows to the chunk from `row` on until it is full; return the next row."""
        start = row
        frames.max_payload = self._max_payload() - _BATCH_ROOM
        stop = frames.measure(row, _MOST_ROWS - chunk.rows, _MOST_BYTES - chunk.bytes)
        if stop > start:
            chunk.pieces.append((frames, start, stop))
            chunk.rows += stop - start
            chunk.bytes += frames.measured
        if frames.problem:
            self._bad_row(frames, stop, frames.problem)
            stop += 1
        return stop

    def _push(
        self, chunk: _Chunk, marker: Marker, waiting: "_Waiting | None"
    ) -> "tuple[Marker, _Waiting | None]":
        """Send the rows of a chunk while the previous one is stored, then its marker.

        If an outcome is unknown, write both again, one after the other.
        """
        try:
            if waiting is None and self._is_written(chunk, marker):
                return marker, None
            sent = self._send_rows(chunk)
            if waiting is not None:
                marker, waiting = self._answered(waiting), None
            return marker, self._send_marker(chunk, sent, marker)
        except _UNSURE as error:
            self._unsure(error)
            if waiting is not None:
                self._store(waiting.chunk)
            return self._store(chunk), None

    def _store(self, chunk: _Chunk) -> Marker:
        """Write a chunk unless the marker says that it is written; return the marker after it."""
        while True:
            marker = self._read_marker()
            if self._is_written(chunk, marker):
                return marker
            try:
                return self._answered(self._send_marker(chunk, self._send_rows(chunk), marker))
            except _UNSURE as error:
                if isinstance(error, LinkApiError) and error.err in _MOVED:
                    found = self._read_marker()
                    if found == marker:
                        raise self._failed(
                            f"the marker {self._subject} was refused although nobody moved it: {error}"
                        ) from error
                else:
                    self._unsure(error)

    def _unsure(self, error: LinkError) -> None:
        """Wait if a retry can help; otherwise raise SparkError."""
        if isinstance(error, LinkApiError) and not error.may_pass:
            if error.err in _MOVED:
                return
            if error.err is not Err.ATOMIC_PUBLISH_INCOMPLETE_BATCH:
                raise self._failed(f"rows of {self._identity} were refused: {error}") from error
        self._wait(error)

    def _is_written(self, chunk: _Chunk, marker: Marker) -> bool:
        if marker[:2] < (self._identity.batch, chunk.number):
            return False
        self.duplicates += chunk.rows
        return True

    def _send_rows(self, chunk: _Chunk) -> "_Sent":
        """Send the rows as a new batch that lacks its marker."""
        name = secrets.token_hex(11)
        line = f"Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: ".encode()
        frames = self._frames
        frames.clear()
        number = 1
        for rows, start, stop in chunk.pieces:
            rows.max_payload = self._max_payload()
            row = start
            while row < stop:
                before = row
                row = rows.encode_batched(frames, line, number, row, number + (stop - row) - 1, _SEND_AT)
                if rows.problem:
                    raise self._failed(f"row {rows.first_id + row} of {self._identity}: {rows.problem}")
                number += row - before
                if frames.size >= _SEND_AT:
                    self._flush()
        self._flush()
        return _Sent(name, number)

    def _send_marker(self, chunk: _Chunk, sent: "_Sent", marker: Marker) -> "_Waiting | None":
        """Commit the batch with its marker; return None if another attempt has written these rows."""
        if self._is_written(chunk, marker):
            return None
        headers = {
            "Nats-Batch-Id": sent.name,
            "Nats-Batch-Sequence": str(sent.marker_number),
            "Nats-Batch-Commit": "1",
            "Nats-Expected-Last-Subject-Sequence": str(marker.sequence),
        }
        if self._marker_expires:
            headers["Nats-TTL"] = _MARKER_LIFE
        body = json.dumps({"batch": self._identity.batch, "chunk": chunk.number}).encode()
        return _Waiting(chunk, self._link.send_request(self._subject, body, headers))

    def _answered(self, waiting: "_Waiting | None") -> Marker:
        """Wait until a chunk is stored; return its marker."""
        assert waiting is not None
        chunk = waiting.chunk
        sequence = _sequence_in(self._link.answer_to(waiting.question, self._timeout_s))
        self.rows += chunk.rows
        self._all_is_well()
        return Marker(self._identity.batch, chunk.number, sequence)

    def _flush(self) -> None:
        if self._frames.size:
            with self._frames.view() as data:
                self._link.send(data, self._timeout_s)
            self._frames.clear()

    # -- the marker ---------------------------------------------------------------------------------

    def _read_marker(self) -> Marker:
        """Return the leader's last marker; wait for a server that is away."""
        while True:
            try:
                if not self._link.connected:
                    self._link.reconnect(within_s=self._left_s())
                found = self._link.api(f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": self._subject})
                return marker_in(found["message"])
            except LinkApiError as error:
                if error.err is Err.NO_MESSAGE_FOUND:
                    return Marker()
                if not error.may_pass:
                    raise
                self._wait(error)
            except (NotConnected, RequestTimeout, NoResponders) as error:
                self._wait(error)

    # -- patience, and what is left out ---------------------------------------------------------------

    def _bad_row(self, frames: RowFrames, row: int, reason: str) -> None:
        while True:
            try:
                return self._bad_rows.take(self._publisher, frames, row, reason)
            except NotConnected as error:
                self._wait(error)
                self._link.reconnect(within_s=self._left_s())

    def _settle_dead_letters(self) -> None:
        while True:
            try:
                return self._bad_rows.settle(self._publisher)
            except NotConnected as error:
                self._wait(error)
                self._link.reconnect(within_s=self._left_s())

    def _max_payload(self) -> int:
        return self._publisher.window.max_payload

    def _left_s(self) -> float:
        since = self._trouble_since
        return self._patience_s if since is None else max(self._patience_s - (time.monotonic() - since), 1.0)

    def _wait(self, error: LinkError) -> None:
        now = time.monotonic()
        if self._trouble_since is None:
            self._trouble_since = now
            logger.warning("%s waits: %s", self._identity, error)
        if now - self._trouble_since > self._patience_s:
            raise self._failed(
                f"{self._identity} could not be written within {self._patience_s:g} s of trouble: {error}"
            ) from error
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _all_is_well(self) -> None:
        self._trouble_since = None
        self._pause_s = _FIRST_PAUSE_S

    def _failed(self, text: str) -> SparkError:
        return SparkError(f"stream {self._stream}: {text}")


def marker_in(message: dict[str, Any]) -> Marker:
    """Parse the marker in a message of the API; raise SparkError if the message is not a marker."""
    try:
        body = json.loads(base64.b64decode(message.get("data", "")))
        return Marker(int(body["batch"]), int(body["chunk"]), int(message["seq"]))
    except (ValueError, KeyError, TypeError):
        raise SparkError(
            f"message {message.get('seq')} on {message.get('subject')} is no marker of this sink; "
            "use another fenceSubject"
        ) from None


def _sequence_in(reply: LinkMessage) -> int:
    try:
        return read_ack(reply.payload).seq
    except ProtocolViolation as error:
        raise RequestTimeout(str(error)) from None
