"""Connections between simulated clients and the server: bytes are delayed, cut at any place, and lost.

A ``SimLink`` has two directions.  Each keeps the order of its bytes and delivers them in pieces of any size.
A link that is cut may lose what is under way, and each end learns of it at its own time: half-open for long,
if the seed wants it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from tests.sim.machine.loop import Owner, SimLoop


class Peer(Protocol):
    """The client's end."""

    def received(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class Weather:
    """Behaviour of the links; drawn from the seed for each run."""

    def __init__(self, random: Random) -> None:
        self.latency_s = random.choice((0.000_1, 0.001, 0.01))
        self.stalls = random.choice((0.0, 0.0, 0.01))  # how often a piece takes long
        self.cuts = random.choice((0.0, 0.1, 0.5))  # how often a piece is not all that is there
        self.window = random.choice((2_000, 20_000, 1_000_000))  # bytes that a socket takes at once


class Direction:
    """Bytes on their way from one end to the other."""

    def __init__(
        self, loop: SimLoop, owner: Owner, random: Random, weather: Weather, deliver: Callable[[bytes], None]
    ) -> None:
        self._loop = loop
        self._owner = owner
        self._random = random
        self._weather = weather
        self._deliver = deliver
        self.under_way = bytearray()
        self.paused = False
        self._planned = False
        self.ended: Callable[[], None] | None = None  # called when everything has arrived
        self.moved: Callable[[], None] = lambda: None  # called when there is more room

    def put(self, data: bytes) -> None:
        self.under_way += data
        self.plan()

    def plan(self) -> None:
        if not self._planned and not self.paused and (self.under_way or self.ended is not None):
            self._planned = True
            delay = self._weather.latency_s * (0.5 + self._random.random())
            if self._random.random() < self._weather.stalls:
                delay += self._random.random() * 3.0
            self._loop.after(self._owner, delay, self._arrive)

    def _arrive(self) -> None:
        self._planned = False
        if self.paused:
            return
        count = len(self.under_way)
        if count > 1 and self._random.random() < self._weather.cuts:
            count = self._random.randint(1, count)
        data = bytes(self.under_way[:count])
        del self.under_way[:count]
        if data:
            self._deliver(data)
            self.moved()
        if not self.under_way and self.ended is not None:
            ended, self.ended = self.ended, None
            ended()
        self.plan()

    def drop(self) -> None:
        """Lose everything that has not arrived."""
        self.under_way.clear()
        self.paused = True
        self.ended = None


class SimTransport:
    """The server's end, as a transport of asyncio."""

    def __init__(self, link: SimLink, protocol: Any) -> None:
        self._link = link
        self.protocol = protocol
        self._buffer = bytearray()  # bytes that the socket does not take yet
        self._closing = False
        self._lost = False
        self._high = 64 * 1024
        self._paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 40_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._link.up.paused

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: bytes) -> None:
        if self._lost:
            raise RuntimeError("write on a transport that is closed")
        if self._closing and not self._buffer:
            return
        self._buffer += data
        self.push()
        if len(self._buffer) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def push(self) -> None:
        """Give bytes to the socket as far as it takes them."""
        room = self._link.weather.window - len(self._link.down.under_way)
        if room > 0 and self._buffer:
            self._link.down.put(bytes(self._buffer[:room]))
            del self._buffer[:room]
        if self._paused and not self._buffer and not self._lost:
            self._paused = False
            self.protocol.resume_writing()
        self._end_if_empty()

    def pause_reading(self) -> None:
        if self._lost:
            raise RuntimeError("pause_reading on a transport that is closed")
        self._link.up.paused = True

    def resume_reading(self) -> None:
        if self._lost:
            raise RuntimeError("resume_reading on a transport that is closed")
        self._link.up.paused = False
        self._link.up.plan()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end_if_empty()

    def _end_if_empty(self) -> None:
        if self._closing and not self._buffer and not self._lost:
            self._link.down.ended = self._link.client_gone
            self._link.down.plan()
            self.lose(None)

    def abort(self) -> None:
        if not self._lost:
            self._closing = True
            self._buffer.clear()
            self._link.cut(soon=True)
            self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """Tell the protocol that the connection is gone, in a round of its own."""
        if not self._lost:
            self._lost = True
            self._closing = True
            self._link.up.drop()
            self._link.loop.soon(self._link.owner, self.protocol.connection_lost, error)

    def receive(self, data: bytes) -> None:
        """Pass bytes to the protocol as an event loop does: in one piece, or through its buffers."""
        while data and not self._lost and isinstance(self.protocol, asyncio.BufferedProtocol):
            with memoryview(self.protocol.get_buffer(-1)) as buffer:
                count = min(len(buffer), len(data))
                buffer[:count] = data[:count]
                self.protocol.buffer_updated(count)
            data = data[count:]
        if data and not self._lost:
            self.protocol.data_received(data)


class SimLink:
    """One connection."""

    def __init__(
        self, loop: SimLoop, owner: Owner, random: Random, weather: Weather, protocol: Any, peer: Peer
    ) -> None:
        self.loop = loop
        self.owner = owner  # the life of the server
        self.weather = weather
        self._random = random
        self._peer = peer
        self._gone = False  # the client knows
        self.transport = SimTransport(self, protocol)
        self.up = Direction(loop, owner, random, weather, self.transport.receive)
        self.down = Direction(loop, loop.clients, random, weather, self._to_client)
        self.down.moved = self._moved
        protocol.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """Send bytes of the client."""
        self.up.put(data)

    def _to_client(self, data: bytes) -> None:
        if not self._gone:
            self._peer.received(data)

    def _moved(self) -> None:
        if self.owner.alive:
            self.transport.push()

    def client_gone(self) -> None:
        if not self._gone:
            self._gone = True
            self._peer.closed()

    def close(self) -> None:
        """Close the connection at the client's end, after what it sent."""
        self._gone = True
        self.up.ended = lambda: self.transport.lose(None)
        self.up.plan()

    def cut(self, *, soon: bool = False) -> None:
        """Break the connection; each end learns of it at its own time."""
        random = self._random
        for direction in (self.up, self.down):
            if random.random() < 0.7:
                direction.drop()
        long = 0.0 if soon else random.choice((0.0, 0.0, 30.0))
        self.loop.after(self.owner, random.random() * (0.01 + long), self._server_learns)
        self.loop.after(self.loop.clients, random.random() * (0.01 + long), self.client_gone)

    def _server_learns(self) -> None:
        self.transport.lose(ConnectionResetError())

    def server_died(self) -> None:
        """The machine at the other end lost power, or its process was killed."""
        self.up.drop()
        if self._random.random() < 0.5:
            self.down.drop()
        self.loop.after(self.loop.clients, self._random.random() * 0.2, self.client_gone)
