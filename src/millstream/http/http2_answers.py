"""Answers of an HTTP/2 connection: each stream in turn sends as much as the peer's windows allow.

Output of h2 is written once for each turn of the loop.  `http2` handles requests and timeouts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import h2.config
import h2.connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from millstream.http.credit import FOR_DATA, Credit
from millstream.http.http2_cycle import Http2Cycle
from millstream.http.line import Line

if TYPE_CHECKING:
    from millstream.http.listener import HttpListener

_CONFIG: Final = h2.config.H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_outbound_headers=False,  # `Http2Cycle.head` makes valid headers
    normalize_outbound_headers=False,
)


class Http2Answers(Line):
    """Sends the answers of one connection."""

    __slots__ = ("_blocked", "_credit", "_cycles", "_h2", "_is_closed", "_is_due", "_received", "_since")

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener)
        limits = listener.limits
        self._h2 = h2.connection.H2Connection(_CONFIG)
        self._cycles: dict[int, Http2Cycle] = {}
        self._blocked: dict[int, Http2Cycle] = {}  # streams that wait for a window or for the socket
        self._credit = Credit(limits.credit, limits.credit_per_s, listener.time())
        self._since = listener.time()  # when the last stream ended
        self._is_due = False  # a write is scheduled for this turn
        self._is_closed = False
        self._received = b""  # received and not processed yet

    # -- answers ----------------------------------------------------------------------------------------

    def send_continue(self, cycle: Http2Cycle) -> None:
        """Send `100 Continue`."""
        with contextlib.suppress(ProtocolError):
            self._h2.send_headers(cycle.number, [(b":status", b"100")])
            self._send_soon()

    def send_piece(self, cycle: Http2Cycle) -> None:
        """Send as much of a piece as the windows allow, preceded by the head if that is not sent yet."""
        if not cycle.has_begun:
            head = cycle.head()
            cycle.has_begun = True
            only = cycle.ends and not cycle.out
            try:
                self._h2.send_headers(cycle.number, head, end_stream=only)
            except ProtocolError:
                self._lost(cycle)
                return
            if only:
                self._sent_all(cycle)
                self._send_soon()
                return
        self._push(cycle)
        self._send_soon()

    def _push(self, cycle: Http2Cycle) -> None:
        """Send as much as the windows allow, and block the stream if something is left."""
        connection, number, out = self._h2, cycle.number, cycle.out
        try:
            while cycle.at < len(out) and not self.is_paused:
                room = min(connection.local_flow_control_window(number), connection.max_outbound_frame_size)
                if room <= 0:
                    break
                piece = out[cycle.at : cycle.at + room]
                cycle.at += len(piece)
                cycle.moved = self.listener.time()
                connection.send_data(number, piece, end_stream=cycle.ends and cycle.at == len(out))
                self._credit.earn(FOR_DATA)
            if cycle.at < len(out):
                self.block(cycle)
                return
            if cycle.ends and not out:
                connection.end_stream(number)
        except ProtocolError:
            self._lost(cycle)
            return
        cycle.out = b""
        cycle.at = 0
        if cycle.ends:
            self._sent_all(cycle)
        cycle.make_room()

    def block(self, cycle: Http2Cycle) -> None:
        """Resume a stream when the peer has room."""
        self._blocked[cycle.number] = cycle
        self._watch()

    def _pump(self) -> None:
        """Resume blocked streams, each in its turn."""
        blocked, self._blocked = self._blocked, {}
        for cycle in blocked.values():
            if self.is_paused:
                self._blocked[cycle.number] = cycle
            elif cycle.out:
                self._push(cycle)
            else:
                cycle.make_room()
        if blocked:
            self._send_soon()

    def _sent_all(self, cycle: Http2Cycle) -> None:
        if cycle.body_ended:
            self._drop(cycle)

    def _drop(self, cycle: Http2Cycle) -> None:
        """Forget a stream that has ended."""
        self._cycles.pop(cycle.number, None)
        self._blocked.pop(cycle.number, None)
        if not self._cycles:
            self._since = self.listener.time()
            if self.listener.is_stopping and not self._is_closed:
                self.listener.loop.call_soon(self._close)
        self._watch()

    def _lost(self, cycle: Http2Cycle) -> None:
        """Note that a stream can no longer be written to."""
        self._drop(cycle)
        cycle.leave()

    def fail(self, cycle: Http2Cycle) -> None:
        """Answer 500 for an application that failed, or reset the stream if it had begun to answer."""
        self._drop(cycle)
        if self._is_closed:
            return
        if cycle.has_begun:
            self._reset(cycle.number, ErrorCodes.INTERNAL_ERROR)
        else:
            self._answer_shortly(cycle, 500)
        self._send_soon()

    def _answer_shortly(self, cycle: Http2Cycle, status: int) -> None:
        with contextlib.suppress(ProtocolError):
            head = [(b":status", b"%d" % status), (b"date", self.listener.clock.value)]
            self._h2.send_headers(cycle.number, [*head, (b"content-length", b"0")], end_stream=True)
        cycle.leave()

    def _reset(self, number: int, code: ErrorCodes) -> None:
        with contextlib.suppress(ProtocolError):
            self._h2.reset_stream(number, code)

    # -- writing ----------------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """Write at the end of this turn of the loop, once for all streams."""
        if not self._is_due:
            self._is_due = True
            self.listener.loop.call_soon(self._send_out)

    def _send_out(self) -> None:
        self._is_due = False
        data = self._h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def _watch(self) -> None:
        """Let the next sweep check the streams."""
        if not self._is_closed:
            self.deadline = 0.0

    def _close(self, code: ErrorCodes | None = None) -> None:
        if self._is_closed:
            return
        if code is not None:
            with contextlib.suppress(ProtocolError):
                self._h2.close_connection(code)
        self._send_out()
        self._is_closed = True
        for cycle in list(self._cycles.values()):
            cycle.leave()
        if self._received:
            self._received = b""
            self.transport.resume_reading()
        self.linger()
