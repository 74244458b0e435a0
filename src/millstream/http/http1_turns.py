"""Order on an HTTP/1.1 connection: one answer after the other, and how the connection ends.

    idle ──▶ head ──▶ body ──▶ answer ──▶ idle         requests that come meanwhile wait in `_queue`,
                 └─ the application runs ─┘            and nothing more is read

`http1` parses the requests.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from millstream.http.http1_cycle import Http1Cycle
from millstream.http.line import NEVER, Line

if TYPE_CHECKING:
    from millstream.http.listener import HttpListener

_READ_AHEAD: Final = 64 * 1024  # bytes of a body that the application has not taken yet


class TurnState(IntEnum):
    """The state of a connection."""

    OPEN = 0
    LAST = 1  # no more is parsed: the connection ends after the answers that are due
    LINGERING = 2  # everything is written, and input is discarded
    CLOSED = 3


class Http1Turns(Line):
    """The requests and answers of one connection."""

    __slots__ = (
        "_farewell",
        "_head_began",
        "_in_head",
        "_incoming",
        "_is_fresh",
        "_parser",
        "_queue",
        "_reads",
        "_since",
        "_state",
        "_unparsed",
        "current",
    )

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener)
        self._state = TurnState.OPEN
        self._is_fresh = True  # no request has come yet
        self._parser: Any = None  # of the request that is arriving; None while idle
        self._in_head = False
        self._head_began = 0.0
        self._incoming: Http1Cycle | None = None  # the request whose body is arriving
        self._queue: deque[Http1Cycle] | None = None  # requests after the current one
        self._unparsed = b""
        self._reads = True
        self._farewell = b""  # after the last answer
        self._since = 0.0  # when the last answer was given
        self.current: Http1Cycle | None = None  # the request that is being answered

    def eof_received(self) -> bool:
        """Close the connection, unless an answer to the peer is still due."""
        cycle = self.current
        if self.listener.limits.answers_after_eof and cycle is not None and cycle.body_ended:
            self._state = max(self._state, TurnState.LAST)
            return True
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._state = TurnState.CLOSED
        self.detach()
        self._parser = None
        self._unparsed = b""
        queue, self._queue = self._queue, None
        for cycle in (self.current, *(queue or ())):
            if cycle is not None:
                cycle.leave()
        self.current = self._incoming = None

    # -- requests and answers ---------------------------------------------------------------------------

    def _enter(self, cycle: Http1Cycle) -> None:
        """Serve a request now, or queue it after those that are waiting."""
        self._incoming = cycle
        if self.current is None:
            self._start(cycle)
        else:
            if self._queue is None:
                self._queue = deque()
            self._queue.append(cycle)

    def _start(self, cycle: Http1Cycle) -> None:
        self.current = cycle
        self.listener.run(cycle)

    def _parse(self, data: bytes) -> None:
        raise NotImplementedError

    def answered(self, cycle: Http1Cycle) -> None:
        """Note that an answer is complete."""
        if self._state >= TurnState.LINGERING:
            return
        if cycle.closes:
            self._end()
        elif cycle.body_ended:
            self._next()
        else:  # the rest of the body is discarded
            self._go_on()

    def _next(self) -> None:
        """Continue after an answer: serve the next request, parse what is left, or become idle."""
        self.current = None
        self._since = self.listener.time()
        if self._queue:
            cycle = self._queue.popleft()
            self._queue = self._queue or None
            self._start(cycle)
        elif self._state is TurnState.LAST or (self.listener.is_stopping and not self._unparsed):
            self._end()
            return
        self._go_on()

    def stop(self) -> None:
        """Close the connection if it is idle; otherwise it ends after its answer."""
        if self._state is TurnState.OPEN and self.current is None and not self._in_head:
            self._end()

    def fail(self, cycle: Http1Cycle) -> None:
        """Answer 500 for an application that failed, or abort the answer that it began."""
        if self._state >= TurnState.LINGERING:
            return
        if cycle.has_begun:
            self.flush()
            self.transport.abort()
        else:
            cycle.leave()
            self._finish(self.listener.refusal(500, ""))

    def refuse(self, status: int, detail: str) -> None:
        """Answer a malformed request after the answers that are due, and end the connection."""
        answer = self.listener.refusal(status, detail)
        broken, self._incoming = self._incoming, None
        self._in_head = False
        self._unparsed = b""
        if self._state >= TurnState.LINGERING:
            return
        if self.current is None or broken is self.current:
            if broken is not None and broken.has_begun:
                self.transport.abort()
                return
            if broken is not None:
                broken.leave()
            self._finish(answer)
            return
        if broken is not None and self._queue:
            self._queue.remove(broken)
        self._state = TurnState.LAST
        self._farewell = answer

    def _finish(self, answer: bytes) -> None:
        """Write the last answer and end the connection, or abort it if there is none."""
        if answer:
            self.transport.write(answer)
            self._linger()
        else:
            self._state = TurnState.CLOSED
            self.transport.abort()

    def _end(self) -> None:
        """Close after the last answer; linger if the peer may still be sending."""
        if self._farewell:
            self._finish(self._farewell)
        elif self._incoming is not None or self._in_head:
            self._linger()
        else:
            self._state = TurnState.CLOSED
            self.close()

    def _linger(self) -> None:
        """Let the last answer arrive, and discard input until then."""
        self._state = TurnState.LINGERING
        self._parser = None
        self._read_on()
        self.linger()

    # -- flow -------------------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        """Return whether reading has to pause until buffered input is processed."""
        cycle = self._incoming
        return bool(self._queue) or (
            cycle is not None and cycle.buffered > _READ_AHEAD and not cycle.is_answered
        )

    def _read_on(self) -> None:
        """Resume reading if there is room."""
        reads = self._state is not TurnState.OPEN or not (self._unparsed or self._is_full())
        if reads is not self._reads:
            self._reads = reads
            if reads:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _go_on(self) -> None:
        """Parse buffered input if its turn has come, and resume reading."""
        if self._unparsed and not self._is_full():
            data, self._unparsed = self._unparsed, b""
            self._parse(data)
        else:
            self._read_on()
            self._set_deadline()

    def taken(self) -> None:
        """Called when the application has taken the buffered body."""
        if not self._reads and self._state is TurnState.OPEN:
            self._go_on()

    def _set_deadline(self) -> None:
        listener = self.listener
        limits = listener.limits
        if self._state >= TurnState.LINGERING:
            return
        cycle = self.current
        if self.is_paused and not (cycle is not None and cycle.has_begun and cycle.is_stream):
            self.deadline = listener.after(limits.write_timeout_s)
        elif self._incoming is not None and self._reads:
            self.deadline = listener.after(limits.body_timeout_s)
        elif cycle is not None:
            self.deadline = NEVER
        elif self._in_head or self._is_fresh:
            began = self._head_began if self._in_head else self._since
            self.deadline = began + limits.head_timeout_s if limits.head_timeout_s else NEVER
        else:
            self.deadline = self._since + limits.idle_timeout_s if limits.idle_timeout_s else NEVER

    def expire(self) -> None:
        if self.is_paused:
            if not self.has_progress():
                self.transport.abort()
            self.deadline = self.listener.after(self.listener.limits.write_timeout_s)
        elif self._state >= TurnState.LINGERING or (
            self._incoming is not None and self._incoming.is_answered
        ):
            self.transport.abort()
        elif self._incoming is not None or self._in_head or self._is_fresh:
            self.listener.counts.timeouts += 1
            self.refuse(408, "the request did not arrive in time")
        else:
            self._state = TurnState.CLOSED
            self.close()

    def _paused(self) -> None:
        self._set_deadline()
