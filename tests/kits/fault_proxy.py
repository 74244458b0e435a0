"""A TCP proxy with faults: connections are cut, slow, split into pieces, or stuck.

It runs between a client and a server, in the process and event loop of the test::

    async with FaultProxy(server.port) as proxy:
        connection = await nats.connect(f"nats://127.0.0.1:{proxy.port}")
        proxy.cut_all()                      # as if a cable was pulled
        proxy.faults = Faults(piece=3)       # every chunk in pieces of three bytes

Faults apply to both directions and may be changed while connections are open.  Randomness comes from the
generator that is passed in, so a run can be repeated.  Not here: faults of disks or clocks, or of single
messages (frame_proxy).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

_HOST: Final = "127.0.0.1"
READ_SIZE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults applied to every chunk."""

    piece: int = 0  # maximum bytes of one write; 0: unlimited
    delay_s: float = 0.0  # maximum delay before each piece
    cut_chance: float = 0.0  # probability that the connection is cut inside a piece
    stuck: bool = False  # nothing passes until this is changed


class FaultProxy:
    """Forwards connections to `target_port` on the loopback interface."""

    def __init__(
        self, target_port: int, *, faults: Faults | None = None, generator: random.Random | None = None
    ) -> None:
        self.accepted = 0
        self.cut = 0  # number of connections that were cut
        self._faults = faults or Faults()
        self._changed = asyncio.Event()
        self._target_port = target_port
        self._random = generator or random.Random()
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def live(self) -> int:
        """Return the number of open connections."""
        return len(self._lines)

    def cut_all(self) -> None:
        """Cut every connection; new ones are accepted."""
        for line in list(self._lines):
            self.cut += 1
            line.cancel()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, _HOST, 0)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for line in list(self._lines):
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: asyncio would make a task of it, and up to 3.12.1 log that this one was cancelled.
        line = asyncio.get_running_loop().create_task(self._line(reader, writer))
        self.accepted += 1
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)
        # A connection cut before its line began has not been closed yet.
        line.add_done_callback(lambda _: writer.transport.abort())

    async def _line(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection in both directions until either end or a fault ends it."""
        loop = asyncio.get_running_loop()
        opening = loop.create_task(asyncio.open_connection(_HOST, self._target_port))
        ways: list[asyncio.Task[None]] = []
        try:
            far_reader, far_writer = await asyncio.shield(opening)
            ways = [
                loop.create_task(self._pump(reader, far_writer)),
                loop.create_task(self.pump_down(far_reader, writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # no server: the client sees its connection end
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.transport.abort()
            with contextlib.suppress(OSError):
                _, far_writer = await opening  # do not lose a connection that was cut while it was opened
                far_writer.transport.abort()

    async def pump_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward from the server to the client; subclasses that inspect the data override this."""
        await self._pump(reader, writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_SIZE):
                await self.pass_on(data, writer)
            await writer.drain()

    async def pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        """Write `data` with the faults applied."""
        position = 0
        while position < len(data):
            while self._faults.stuck:
                await self._changed.wait()
            faults = self._faults
            size = self._random.randint(1, faults.piece) if faults.piece else len(data)
            if faults.delay_s:
                await asyncio.sleep(self._random.random() * faults.delay_s)
            if faults.cut_chance and self._random.random() < faults.cut_chance:
                writer.write(data[position : position + self._random.randrange(size)])
                await writer.drain()
                self.cut += 1
                raise ConnectionResetError("cut by the proxy")
            writer.write(data[position : position + size])
            await writer.drain()
            position += size

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
