"""HTTP/2 with h2: one connection and its streams.

    data ──▶ h2 ──▶ events ──▶ Http2Cycle, one for each request ──▶ h2 ──▶ one write for each turn of the loop

Invariants:  a stream buffers at most one window of its request and one piece of its answer.  A peer that
stops reading or sending, or floods the connection with useless frames (`credit`), is disconnected
in time.  Each frame and header block arrives within `head_timeout_s`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import h2.events
import h2.settings
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame

from millstream.http.asgi import CALLER, Pair, Scope
from millstream.http.credit import COSTS, EMPTY
from millstream.http.http2_answers import Http2Answers
from millstream.http.http2_cycle import Http2Cycle
from millstream.http.line import NEVER
from millstream.http.requests import BadHttpRequest, make_scope

if TYPE_CHECKING:
    from millstream.http.listener import HttpListener

_PIECE: Final = 16 * 1024  # bytes processed in one turn of the loop
_WINDOW: Final = 256 * 1024  # bytes of all bodies of a connection that the applications have not taken yet
_UPGRADED: Final = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
_OF_THE_UPGRADE: Final = frozenset((b"connection", b"upgrade", b"http2-settings", b"keep-alive"))


class Http2(Http2Answers):
    """One connection; `request` and `settings` come from an upgrade from HTTP/1.1."""

    __slots__ = (
        "_discarded",
        "_has_served",
        "_last",
        "_request",
        "_running",
        "_settings",
        "_unfinished",
    )

    def __init__(
        self, listener: HttpListener, request: Scope | None = None, settings: bytes | None = None
    ) -> None:
        super().__init__(listener)
        self._request = request
        self._settings = settings
        self._running = 0  # tasks, those of streams that were reset included
        self._unfinished = NEVER  # when an incomplete frame or header block began
        self._has_served = False
        self._discarded = 0
        self._last = 0  # the newest stream

    def begin(self) -> None:
        limits = self.listener.limits
        codes = h2.settings.SettingCodes
        connection = self._h2
        connection.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.MAX_CONCURRENT_STREAMS: limits.streams,
                codes.MAX_HEADER_LIST_SIZE: limits.max_head or 2**20,
                codes.ENABLE_CONNECT_PROTOCOL: 0,
            },
        )
        connection.decoder.max_header_list_size = limits.max_head or 2**20
        if self._request is None:
            connection.initiate_connection()
        else:
            try:
                connection.initiate_upgrade_connection(self._settings)
            except (ProtocolError, ValueError):
                self.transport.write(self.listener.refusal(400, "HTTP2-Settings cannot be read"))
                self._close()
                return
            self.transport.write(_UPGRADED)
            request, self._request = self._request, None
            request["headers"] = [pair for pair in request["headers"] if pair[0] not in _OF_THE_UPGRADE]
            self._start(1, request, expects_continue=False).end_body()
        connection.increment_flow_control_window(_WINDOW - 65535)
        self._send_out()
        self._watch()

    # -- the transport ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        if not self._received and len(data) <= _PIECE:
            self._process(data)
            return
        if not self._received:
            self.transport.pause_reading()
            self.listener.loop.call_soon(self._go_on)
        self._received += data

    def _go_on(self) -> None:
        """Process one piece of the input, and schedule the next."""
        if self._is_closed:
            return
        piece, self._received = self._received[:_PIECE], self._received[_PIECE:]
        self._process(piece)
        if self._received:
            self.listener.loop.call_soon(self._go_on)
        elif not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        self._received = b""
        self.detach()
        for cycle in list(self._cycles.values()):
            cycle.leave()
        self._cycles.clear()
        self._blocked.clear()

    def _paused(self) -> None:
        if not self.is_paused:
            self._pump()
        self._watch()

    def _process(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._close()  # h2 has written the reason
            return
        if events:
            self._unfinished = NEVER
        elif self._unfinished == NEVER:
            self._unfinished = self.listener.time()
        reset = {event.stream_id for event in events if isinstance(event, h2.events.StreamReset)}
        for event in events:
            if not self._pays(event):
                self._give_up()
                return
            handler = _HANDLERS.get(type(event))
            if handler is None or (isinstance(event, h2.events.RequestReceived) and event.stream_id in reset):
                continue
            handler(self, event)
            if self._is_closed:
                return
        self._send_out()
        self._watch()

    def _pays(self, event: h2.events.Event) -> bool:
        """Charge the peer for an event; return whether its credit suffices."""
        if isinstance(event, h2.events.RequestReceived):
            return self._running < self.listener.limits.running
        cost = COSTS.get(type(event), 0.0)
        if isinstance(event, h2.events.DataReceived) and not event.data and event.stream_ended is None:
            cost = EMPTY
        return not cost or self._credit.spend(cost, self.listener.time())

    # -- requests ---------------------------------------------------------------------------------------

    def _requested(self, event: Any) -> None:
        number: int = event.stream_id
        if self.listener.is_stopping:
            self._reset(number, ErrorCodes.REFUSED_STREAM)
            return
        try:
            scope, expects = self._scope(event.headers)
        except BadHttpRequest as error:
            with contextlib.suppress(ProtocolError):
                self._h2.send_headers(number, [(b":status", b"%d" % error.status)], end_stream=True)
            return
        cycle = self._start(number, scope, expects_continue=expects)
        if event.stream_ended is not None:
            cycle.end_body()

    def _scope(self, fields: list[Pair]) -> tuple[Scope, bool]:
        named: dict[bytes, bytes] = {}
        headers: list[Pair] = []
        expects = False
        for name, value in fields:
            if name[:1] == b":":
                named[bytes(name)] = bytes(value)
            else:
                headers.append((bytes(name), bytes(value)))
                expects = expects or (name == b"expect" and value.lower() == b"100-continue")
        authority = named.get(b":authority")
        if authority is not None:
            headers = [(b"host", authority), *(pair for pair in headers if pair[0] != b"host")]
        method = named[b":method"].decode("latin-1")
        if method == "CONNECT":
            raise BadHttpRequest(405, "there is no tunnel here")
        target = named[b":path"]
        scope = make_scope("http", "2", method, self.scheme, target, headers, self.client, self.server, {})
        return scope, expects

    def _start(self, number: int, scope: Scope, *, expects_continue: bool) -> Http2Cycle:
        cycle = Http2Cycle(self, number, scope, expects_continue=expects_continue)
        scope["extensions"] = {CALLER: cycle}
        self._cycles[number] = cycle
        self._last = max(self._last, number)
        self._has_served = True
        self._running += 1
        self.listener.counts.requests_http2 += 1
        self.listener.run(cycle).add_done_callback(self._ran)
        return cycle

    def _ran(self, _: asyncio.Task[None]) -> None:
        self._running -= 1

    def _data(self, event: Any) -> None:
        number: int = event.stream_id
        cycle = self._cycles.get(number)
        size = len(event.data)
        if cycle is None or cycle.is_answered:
            self._acknowledge(number, event.flow_controlled_length)
            self._discarded += size
            if self._discarded > self.listener.limits.max_discarded:
                self._discarded = 0
                self._reset(number, ErrorCodes.NO_ERROR)
            return
        if event.flow_controlled_length > size:  # padding
            self._acknowledge(number, event.flow_controlled_length - size)
        if size:
            cycle.moved = self.listener.time()
            cycle.feed(event.data)

    def _ended(self, event: Any) -> None:
        cycle = self._cycles.get(event.stream_id)
        if cycle is not None and not cycle.body_ended:
            cycle.end_body()
            if cycle.is_answered and not cycle.out:
                self._drop(cycle)

    def _was_reset(self, event: Any) -> None:
        cycle = self._cycles.get(event.stream_id)
        if cycle is not None:
            self._drop(cycle)
            cycle.leave()

    def _terminated(self, event: Any) -> None:
        self._close()

    def _windows(self, event: Any) -> None:
        self._pump()

    def taken(self, cycle: Http2Cycle, size: int) -> None:
        """Open the window again by what the application took of its body."""
        cycle.moved = self.listener.time()
        self._acknowledge(cycle.number, size)
        self._send_soon()

    def _acknowledge(self, number: int, size: int) -> None:
        with contextlib.suppress(ProtocolError, KeyError):  # the stream may have ended
            if size:
                self._h2.acknowledge_received_data(size, number)

    # -- time -------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Abort streams that take too long, and set the next deadline."""
        listener, limits = self.listener, self.listener.limits
        now = listener.time()
        if self._is_closed:
            self.transport.abort()
            return
        nearest = NEVER
        if limits.head_timeout_s:
            if not self._has_served:
                nearest = self._since + limits.head_timeout_s
            nearest = min(nearest, self._unfinished + limits.head_timeout_s)
        if not self._cycles and self._has_served and limits.idle_timeout_s:
            nearest = min(nearest, self._since + limits.idle_timeout_s)
        if nearest <= now:
            self._close(ErrorCodes.NO_ERROR)
            return
        for cycle in list(self._cycles.values()):
            patience_s = self._patience(cycle)
            if patience_s and now - cycle.moved >= patience_s:
                listener.counts.timeouts += 1
                self._time_out(cycle)
            elif patience_s:
                nearest = min(nearest, cycle.moved + patience_s)
        self._send_out()
        self.deadline = nearest if not self._is_closed else self.deadline

    def _patience(self, cycle: Http2Cycle) -> float:
        """Return how long a stream may stay in its state; zero means for ever."""
        limits = self.listener.limits
        if cycle.out or (self.is_paused and cycle.has_begun):
            return 0.0 if cycle.is_stream else limits.write_timeout_s
        if not cycle.body_ended and not cycle.buffered and not cycle.is_answered:
            return limits.body_timeout_s
        return 0.0

    def _time_out(self, cycle: Http2Cycle) -> None:
        self._drop(cycle)
        if cycle.has_begun:
            self._reset(cycle.number, ErrorCodes.CANCEL)
            cycle.leave()
        else:
            self._answer_shortly(cycle, 408)

    # -- the end ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Tell the peer to send no more requests, and close when the open ones are answered."""
        if self._is_closed:
            return
        if not self._cycles:
            self._close(ErrorCodes.NO_ERROR)
            return
        # h2 would consider the connection closed and refuse further answers.
        farewell = GoAwayFrame(0, last_stream_id=self._last, error_code=ErrorCodes.NO_ERROR)
        self._send_out()
        self.transport.write(farewell.serialize())

    def _give_up(self) -> None:
        self.listener.counts.abuse += 1
        self.listener.complaints.warn(
            "an HTTP/2 connection was closed: its peer resets requests, or sends too many frames"
        )
        self._close(ErrorCodes.ENHANCE_YOUR_CALM)


_HANDLERS: Final[dict[type[h2.events.Event], Callable[[Http2, Any], None]]] = {
    h2.events.RequestReceived: Http2._requested,
    h2.events.DataReceived: Http2._data,
    h2.events.StreamEnded: Http2._ended,
    h2.events.StreamReset: Http2._was_reset,
    h2.events.WindowUpdated: Http2._windows,
    h2.events.RemoteSettingsChanged: Http2._windows,
    h2.events.ConnectionTerminated: Http2._terminated,
}
