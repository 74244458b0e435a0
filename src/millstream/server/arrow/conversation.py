"""The answer to an authorised request: a range of a stream, sent by a thread of its own.

    GET /arrow/v1/streams/ORDERS?from=1 HTTP/1.1   ──▶        (see ``reception``)
                          ◀──   200, chunks: schema, batches, a last batch that says so, the end of the stream

The thread blocks: a slow client costs that thread and one batch of memory, and holds no part of the log.  A
client that reads nothing for `WRITE_S`, or less than `MIN_RATE`, is disconnected.

Invariant:  a complete answer has everything up to the sequence that its last batch names.  An answer that
could not be finished ends without its last chunk, so no HTTP client takes it for complete.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from millstream.arrow import ipc
from millstream.arrow.batch import Batch
from millstream.arrow.reader import RangeReading
from millstream.arrow.schema import fields_of
from millstream.broker.auth import Identity
from millstream.server.arrow.problem import Gone
from millstream.server.arrow.query import RangeQuery
from millstream.server.arrow.reception import response_head
from millstream.server.arrow.source import FoundRange
from millstream.store.errors import StoreError

_log = logging.getLogger("millstream.arrow")

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
WRITE_S: Final = 30.0  # seconds to take some bytes
MIN_RATE: Final = 64 * 1024  # bytes in a second, for each message and on top of `WRITE_S`
_LINGER_S: Final = 1.0  # seconds for an orderly end of TLS
_SLICE: Final = 256 * 1024  # bytes passed to TLS at once


class Grant(msgspec.Struct, frozen=True):
    """An authorised request: its user, its query, and the stream to read."""

    identity: Identity
    user: str  # whose place it takes
    query: RangeQuery
    found: FoundRange
    with_body: bool


class Conversation:
    """The thread of one answer; ``cut`` may be called from any thread."""

    def __init__(self, sock: socket.socket, grant: Grant, working: threading.Semaphore) -> None:
        self.grant = grant
        self._sock = sock
        self._working = working  # bounds the number of threads that fill batches
        self._is_cut = False

    def cut(self) -> None:
        """End the conversation now, in any state."""
        self._is_cut = True
        with contextlib.suppress(OSError):  # it had ended
            # Not ``SSLSocket.shutdown``: after it, later writes would go out unencrypted.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def hold(self) -> None:
        """Send the whole answer; raises nothing that a client can cause."""
        grant = self.grant
        try:
            self._sock.settimeout(WRITE_S)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send_range(grant.query, grant.found, with_body=grant.with_body)
        except OSError as error:
            _log.debug("a request of %r ended early: %s", grant.user, error)
        finally:
            self._sock.close()

    def _send_range(self, query: RangeQuery, found: FoundRange, *, with_body: bool) -> None:
        about = {
            "millstream.version": "1",
            "millstream.stream": query.stream,
            "millstream.created": found.created,
            "millstream.first": str(found.first),
            "millstream.last": str(found.last),
            "millstream.stream_first": str(found.first_seq),
            "millstream.stream_last": str(found.last_seq),
        }
        headers = [
            ("Content-Type", MEDIA_TYPE),
            ("Transfer-Encoding", "chunked"),
            ("Cache-Control", "no-store"),
        ]
        headers += [(_header(name), value) for name, value in about.items()]
        head = response_head(HTTPStatus.OK, headers)
        if not with_body:
            self._sock.sendall(head)
            return
        fields = fields_of(query.columns)
        schema = ipc.schema_message(fields, about)
        self._sock.sendall(head + _chunk_head(len(schema)) + schema + b"\r\n")
        reading = RangeReading(
            found.lender, query.stream, query.columns, found.first, found.last, query.subjects
        )
        if self._send_batches(reading, query):
            self._sock.sendall(_chunk_head(len(ipc.END)) + ipc.END + b"\r\n0\r\n\r\n")
            if isinstance(self._sock, ssl.SSLSocket):
                self._sock.settimeout(_LINGER_S)
                self._sock.unwrap()

    def _send_batches(self, reading: RangeReading, query: RangeQuery) -> bool:
        """Send the batches; return whether the last one was sent."""
        fields = fields_of(query.columns)
        while True:
            try:
                with self._working:
                    batch = reading.next_batch()
            except (StoreError, Gone) as error:
                _log.warning("a range of stream %s cannot be read to its end: %s", query.stream, error)
                empty = Batch(b"", query.columns)
                self._send(ipc.batch_message(empty, fields, {"millstream.error": str(error)}))
                return False
            if batch is None:
                batch = Batch(b"", query.columns)
            about = {"millstream.through": str(reading.through)}
            if batch.damaged:
                about["millstream.damaged"] = ",".join(map(str, batch.damaged))
            if reading.ended:
                about["millstream.end"] = str(reading.rows)
            self._send(ipc.batch_message(batch, fields, about))
            if reading.ended:
                return True

    def _send(self, parts: Sequence[ipc.Part]) -> None:
        """Send one Arrow message as one chunk."""
        if self._is_cut:
            raise OSError("it was cut")
        size = sum(len(part) for part in parts)
        deadline = time.monotonic() + WRITE_S + size / MIN_RATE
        vector = [memoryview(part) for part in (_chunk_head(size), *parts, b"\r\n")]
        while vector:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"it takes less than {MIN_RATE} bytes in a second")
            self._sock.settimeout(min(left_s, WRITE_S))
            sent = self._send_some(vector)
            whole = 0
            while whole < len(vector) and sent >= len(vector[whole]):
                sent -= len(vector[whole])
                whole += 1
            del vector[:whole]
            if sent:
                vector[0] = vector[0][sent:]

    def _send_some(self, vector: Sequence[memoryview]) -> int:
        if isinstance(self._sock, ssl.SSLSocket):
            return self._sock.send(vector[0][:_SLICE])
        return self._sock.sendmsg(vector)


def _header(name: str) -> str:
    """Return the header name for a metadata key: `millstream.stream_first` is `Millstream-Stream-First`."""
    return "-".join(word.capitalize() for word in name.replace(".", "_").split("_"))


def _chunk_head(size: int) -> bytes:
    return b"%x\r\n" % size
