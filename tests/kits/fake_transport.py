"""Run a broker without sockets and without waiting: the test controls transport and clock.

``FakeLoop`` has the few methods of an event loop that the broker uses; its time moves only when told to.
``FakeTransport`` keeps what is written to it, and can stop taking bytes like a peer that no longer reads.
``FakeClient`` is one connection seen from the other end::

    loop = FakeLoop()
    broker = Broker(BrokerOptions(), server_id="N", loop=loop)
    client = FakeClient(broker)
    client.connect()
    assert client.say(b"SUB foo 1\\r\\nPUB foo 2\\r\\nhi\\r\\n") == b"MSG foo 1 2\\r\\nhi\\r\\n"

Both are stricter than the real ones: what uvloop forbids raises here, and so does data for a protocol that
paused reading.  Not here: TLS, web sockets, anything between two processes.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import asyncio

    from millstream.broker.broker import Broker
    from millstream.broker.connection import Connection
    from millstream.broker.options import ConnectionType


class FakeHandle:
    """A scheduled call."""

    def __init__(self, when: float, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.when = when
        self.cancelled = False
        self._callback = callback
        self._arguments = arguments

    def cancel(self) -> None:
        self.cancelled = True

    def run(self) -> None:
        if not self.cancelled:
            self._callback(*self._arguments)


class FakeFuture:
    """The outcome of a job for a worker thread; the test decides when it is done."""

    def __init__(self, loop: FakeLoop, job: Callable[[], Any]) -> None:
        self._loop = loop
        self._job = job
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[FakeFuture], object]] = []

    def add_done_callback(self, callback: Callable[[FakeFuture], object]) -> None:
        self._callbacks.append(callback)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def finish(self) -> None:
        """Run the job; its callbacks follow in the next round of the loop."""
        try:
            self._result = self._job()
        except Exception as error:
            self._error = error
        for callback in self._callbacks:
            self._loop.call_soon(callback, self)


class FakeLoop:
    """An event loop whose time stands still until ``advance``."""

    def __init__(self, start: float = 1000.0) -> None:
        self.jobs: list[FakeFuture] = []  # jobs for threads that have not run
        self._now = start
        self._order = itertools.count()
        self._timers: list[tuple[float, int, FakeHandle]] = []
        self._ready: list[FakeHandle] = []

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> FakeHandle:
        handle = FakeHandle(self._now, callback, arguments)
        self._ready.append(handle)
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: Any) -> FakeHandle:
        handle = FakeHandle(self._now + delay, callback, arguments)
        heapq.heappush(self._timers, (handle.when, next(self._order), handle))
        return handle

    def run_in_executor(self, executor: None, job: Callable[[], Any]) -> FakeFuture:
        future = FakeFuture(self, job)
        self.jobs.append(future)
        return future

    def run_ready(self) -> None:
        """Run everything that is due now, including what that schedules."""
        while self._ready:
            self.run_one_round()

    def run_one_round(self) -> None:
        """Run what is due now, but not what that schedules."""
        ready, self._ready = self._ready, []
        for handle in ready:
            handle.run()

    def advance(self, seconds: float) -> None:
        """Advance time, stopping at every timer on the way."""
        end = self._now + seconds
        self.run_ready()
        while self._timers and self._timers[0][0] <= end:
            when, _, handle = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            handle.run()
            self.run_ready()
        self._now = end

    def finish_jobs(self) -> None:
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job.finish()
        self.run_ready()

    def pending_timers(self) -> int:
        return sum(not handle.cancelled for _, _, handle in self._timers)

    def as_loop(self) -> asyncio.AbstractEventLoop:
        """Return itself, typed as a real loop."""
        return cast("asyncio.AbstractEventLoop", self)


class FakeTransport:
    """Takes bytes at once; after ``stop_taking``, only as many as ``take`` allows."""

    def __init__(
        self, loop: FakeLoop, protocol: Any, *, extra: dict[str, Any] | None = None, taking: bool = True
    ) -> None:
        self.sent = bytearray()  # bytes that the peer has received
        self.closing = False
        self.aborted = False
        self.lost = False  # the protocol was notified of the end
        self.reading = True
        self.writes = 0
        self._loop = loop
        self.protocol = protocol
        self._extra = {"peername": ("127.0.0.1", 54321), **(extra or {})}
        self._taking = taking
        self._buffer = bytearray()
        self._high = 64 * 1024
        self._protocol_paused = False

    # -- what a protocol may call -----------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def write(self, data: bytes) -> None:
        self._must_live("write")
        if not isinstance(data, bytes):
            raise TypeError(f"write wants bytes, not {type(data).__name__}")
        if self.aborted:
            return
        self.writes += 1
        if self._taking:
            self.sent += data
            return
        self._buffer += data
        if len(self._buffer) > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self.protocol.pause_writing()

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def set_protocol(self, protocol: Any) -> None:
        self._must_live("set_protocol")
        self.protocol = protocol

    def receive(self, data: bytes) -> None:
        """Pass bytes to the protocol as an event loop does: in one piece, or through its buffers."""
        while data and isinstance(self.protocol, asyncio.BufferedProtocol):
            with memoryview(self.protocol.get_buffer(-1)) as buffer:
                count = min(len(buffer), len(data))
                buffer[:count] = data[:count]
                self.protocol.buffer_updated(count)
            data = data[count:]
        if data:
            self.protocol.data_received(data)

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self._must_live("pause_reading")
        self.reading = False

    def resume_reading(self) -> None:
        self._must_live("resume_reading")
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._end_if_empty()

    def abort(self) -> None:
        if not self.lost and not self.aborted:
            self.closing = self.aborted = True
            self._buffer.clear()
            self._loop.call_soon(self._end, None)

    # -- what the test does -----------------------------------------------------------------------

    def stop_taking(self) -> None:
        """Make the peer stop reading."""
        self._taking = False

    def take(self, count: int | None = None) -> None:
        """Let the peer read `count` bytes of the backlog, or all of it and everything after."""
        if count is None:
            self._taking = True
            count = len(self._buffer)
        self.sent += self._buffer[:count]
        del self._buffer[:count]
        if self._protocol_paused and not self._buffer:
            self._protocol_paused = False
            self.protocol.resume_writing()
        self._end_if_empty()

    def peer_closes(self, error: Exception | None = None) -> None:
        """Close the peer's end; the protocol is notified in the next round."""
        if not self.closing:
            self.closing = self.aborted = True
            self._buffer.clear()
            self._loop.call_soon(self._end, error)

    def _end_if_empty(self) -> None:
        if self.closing and not self.aborted and not self._buffer:
            self.aborted = True
            self._loop.call_soon(self._end, None)

    def _end(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            self.protocol.connection_lost(error)

    def _must_live(self, what: str) -> None:
        if self.lost:
            raise RuntimeError(f"{what} on a transport that is closed")


class FakeClient:
    """The other end of one connection of `broker`, whose loop must be a ``FakeLoop``."""

    def __init__(
        self,
        broker: Broker,
        kind: ConnectionType | None = None,
        *,
        extra: dict[str, Any] | None = None,
        taking: bool = True,
    ) -> None:
        self.loop = cast("FakeLoop", broker.loop)
        self.connection: Connection = broker.new_connection() if kind is None else broker.new_connection(kind)
        self.transport = FakeTransport(self.loop, self.connection, extra=extra, taking=taking)
        self.connection.connection_made(self.transport)
        self.greeting = self.heard()

    def heard(self) -> bytes:
        """Return the bytes received since the last call."""
        self.loop.run_ready()
        news = bytes(self.transport.sent)
        self.transport.sent.clear()
        return news

    def say(self, data: bytes) -> bytes:
        """Send bytes in one piece and return the response."""
        if not self.transport.reading:
            raise RuntimeError("this connection does not read at the moment")
        if not self.transport.closing:
            self.transport.receive(data)
        return self.heard()

    def connect(self, **options: object) -> bytes:
        """Send CONNECT like a library, neither verbose nor pedantic; return the response, usually empty."""
        chosen = {"verbose": False, "pedantic": False, "headers": True, **options}
        return self.say(b"CONNECT " + json.dumps(chosen).encode() + b"\r\n")

    @property
    def closed(self) -> bool:
        """Return True if the server has closed the connection."""
        return self.transport.closing
