"""One HTTP/1.1 connection: a request, and a range or an error as its answer; then it ends.

    GET /arrow/v1/streams/ORDERS?from=1 HTTP/1.1   ──▶
                          ◀──   200, chunks: schema, batches, a last batch that says so, the end of the stream
                          ◀──   or 400, 401, 403, 404, 405, 503 and a JSON object that says why

Blocking, in a thread of its own: a client that is slow costs that thread, one batch of memory, and nothing
of the log.  One that takes nothing for `WRITE_S` is cut off.

Always true:  an answer that ends as it should has everything up to the sequence that its last batch names;
              one that could not be finished ends without its last chunk: no HTTP client takes it for whole.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11

from millstream.arrow import ipc
from millstream.arrow.batch import Batch
from millstream.arrow.reading import Reading
from millstream.arrow.schema import fields_of
from millstream.server.arrow.problem import Gone, Problem
from millstream.server.arrow.query import RangeQuery, read_target
from millstream.server.arrow.source import Found
from millstream.store.errors import StoreError

_log = logging.getLogger("millstream.arrow")

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
HEAD_S: Final = 10.0  # to send the head of a request, or to finish a handshake
WRITE_S: Final = 30.0  # to take some bytes
_LINGER_S: Final = 1.0  # for an error to arrive before we hang up
_MAX_HEAD: Final = 64 * 1024
_CHUNK: Final = 64 * 1024

Finder = Callable[[str, bytes | None, RangeQuery], Found]  # of an Authorization header and a certificate


class Conversation:
    """See the module.  ``cut`` may be called from any thread."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext | None,
        find: Finder,
        working: threading.Semaphore,
    ) -> None:
        self._sock = sock
        self._context = context
        self._find = find
        self._working = working  # so that not everybody fills batches at once
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._is_cut = False

    def cut(self) -> None:
        """End it now, whatever it is doing."""
        self._is_cut = True
        with contextlib.suppress(OSError):  # it was over
            # Not ``SSLSocket.shutdown``: that lets what is sent next go out in the clear.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def hold(self) -> None:
        """From the first byte to the last; raises nothing that a client can cause."""
        try:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock.settimeout(HEAD_S)
            if self._context is not None:
                secured = self._context.wrap_socket(
                    self._sock, server_side=True, do_handshake_on_connect=False
                )
                self._sock = secured
                secured.do_handshake()
            request = self._receive()
            if request is not None:
                self._sock.settimeout(WRITE_S)
                self._answer(request)
        except (OSError, h11.LocalProtocolError) as error:
            _log.debug("a request ended early: %s", error)
        finally:
            self._sock.close()

    def _receive(self) -> h11.Request | None:
        deadline = time.monotonic() + HEAD_S
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(self._received(deadline))
        except h11.RemoteProtocolError as error:
            self._refuse(Problem(HTTPStatus(error.error_status_hint), str(error)))
            return None
        return event if isinstance(event, h11.Request) else None

    def _received(self, deadline: float) -> bytes:
        """The next bytes; TimeoutError at the deadline, however slowly somebody talks on until then."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("it took too long")
        self._sock.settimeout(left_s)
        return self._sock.recv(_CHUNK)

    # -- answering --------------------------------------------------------------------------------

    def _answer(self, request: h11.Request) -> None:
        try:
            if request.method not in (b"GET", b"HEAD"):
                raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "a range is asked for with GET")
            if request.http_version < b"1.1":
                raise Problem(
                    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is needed: the end must be told"
                )
            query = read_target(request.target.decode("latin-1"))
            headers = {name: value.decode("latin-1") for name, value in request.headers}
            found = self._find(headers.get(b"authorization", ""), self._certificate(), query)
        except Problem as problem:
            self._refuse(problem)
        except Gone as gone:
            self._refuse(Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(gone)))
        except Exception:
            _log.exception("cannot answer a request")
            self._refuse(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "this is our fault; see the server's log"))
        else:
            self._send_range(query, found, with_body=request.method == b"GET")

    def _certificate(self) -> bytes | None:
        return self._sock.getpeercert(binary_form=True) if isinstance(self._sock, ssl.SSLSocket) else None

    def _refuse(self, problem: Problem) -> None:
        body = json.dumps({"error": {"code": problem.status, "description": str(problem)}}).encode() + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if problem.status == HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", 'Basic realm="millstream", charset="UTF-8"'))
        if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        self._sock.sendall(_head(problem.status, headers) + body)
        self._linger()

    def _linger(self) -> None:
        """To close on bytes that were not read can destroy the answer on its way."""
        if not isinstance(self._sock, ssl.SSLSocket):
            self._sock.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _LINGER_S
        try:
            while self._received(deadline):
                pass
        except OSError:
            pass

    def _send_range(self, query: RangeQuery, found: Found, *, with_body: bool) -> None:
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
        head = _head(HTTPStatus.OK, headers)
        if not with_body:
            self._sock.sendall(head)
            return
        fields = fields_of(query.columns)
        schema = ipc.schema_message(fields, about)
        self._sock.sendall(head + _chunk_head(len(schema)) + schema + b"\r\n")
        reading = Reading(
            found.segments, query.stream, query.columns, found.first, found.last, query.subjects
        )
        if self._send_batches(reading, query):
            self._sock.sendall(_chunk_head(len(ipc.END)) + ipc.END + b"\r\n0\r\n\r\n")
            if isinstance(self._sock, ssl.SSLSocket):
                self._sock.settimeout(_LINGER_S)
                self._sock.unwrap()

    def _send_batches(self, reading: Reading, query: RangeQuery) -> bool:
        """Whether the last one was sent."""
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
        """One message as one chunk."""
        if self._is_cut:
            raise OSError("it was cut")
        size = sum(len(part) for part in parts)
        vector: list[ipc.Part] = [_chunk_head(size), *parts, b"\r\n"]
        if isinstance(self._sock, ssl.SSLSocket):
            self._sock.sendall(b"".join(vector))
            return
        while vector:
            sent = self._sock.sendmsg(vector)
            whole = 0
            while whole < len(vector) and sent >= len(vector[whole]):
                sent -= len(vector[whole])
                whole += 1
            del vector[:whole]
            if sent:
                vector[0] = memoryview(vector[0])[sent:]


def _head(status: HTTPStatus, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Date: {formatdate(usegmt=True)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def _header(name: str) -> str:
    """`millstream.stream_first` as a header is `Millstream-Stream-First`."""
    return "-".join(word.capitalize() for word in name.replace(".", "_").split("_"))


def _chunk_head(size: int) -> bytes:
    return b"%x\r\n" % size
