"""A proxy that parses the frames from a server to its client and can drop, repeat or delay single ones.

TCP loses nothing, but servers and clients do: messages for a slow reader are dropped, a cluster sends some
twice after a change of leader.  `FrameProxy` calls `judge` for each frame::

    def judge(frame: Frame) -> Fate:
        return Fate.DROP if frame.reply.startswith("$JS.ACK.") and next(count) == 5 else Fate.PASS

    async with FrameProxy(server.port, judge=judge) as proxy: ...

Faults of the connection (cut, stuck, slow) work as in `FaultProxy`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from tests.kits.fault_proxy import READ_SIZE, FaultProxy, Faults

_END = b"\r\n"


class ServerFrame(NamedTuple):
    """One operation sent by a server."""

    raw: bytes
    operation: str  # MSG, HMSG, INFO, PING, ...
    subject: str = ""
    reply: str = ""


class Fate(Enum):
    PASS = "pass"
    DROP = "drop"
    TWICE = "twice"
    HOLD = "hold"  # until `release_held`; later frames pass


Judge = Callable[[ServerFrame], Fate]


class FrameSplitter:
    """Splits bytes into whole frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[ServerFrame]:
        self._rest += data
        while (frame := self._first()) is not None:
            self._rest = self._rest[len(frame.raw) :]
            yield frame

    def _first(self) -> ServerFrame | None:
        line_end = self._rest.find(_END)
        if line_end < 0:
            return None
        size = line_end + len(_END)
        words = self._rest[:line_end].decode().split(" ")
        operation = words[0]
        if operation not in ("MSG", "HMSG"):
            return ServerFrame(self._rest[:size], operation)
        size += int(words[-1]) + len(_END)
        if len(self._rest) < size:
            return None
        with_reply = len(words) == (5 if operation == "MSG" else 6)
        return ServerFrame(self._rest[:size], operation, words[1], words[3] if with_reply else "")


class FrameProxy(FaultProxy):
    """A `FaultProxy` that also calls `judge`, which may be changed at any time."""

    def __init__(
        self,
        target_port: int,
        *,
        judge: Judge = lambda frame: Fate.PASS,
        faults: Faults | None = None,
        generator: random.Random | None = None,
    ) -> None:
        super().__init__(target_port, faults=faults, generator=generator)
        self.judge = judge
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []

    def release_held(self) -> None:
        """Send the frames that were held, on their connections if these are still open."""
        held, self._held = self._held, []
        for writer, raw in held:
            if not writer.is_closing():
                writer.write(raw)

    async def pump_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        with contextlib.suppress(OSError):
            while data := await reader.read(READ_SIZE):
                for frame in splitter.feed(data):  # one by one, so that released frames go before the next
                    await self.pass_on(self._judged(frame, writer), writer)
            await writer.drain()

    def _judged(self, frame: ServerFrame, writer: asyncio.StreamWriter) -> bytes:
        fate = self.judge(frame)
        if fate is Fate.HOLD:
            self._held.append((writer, frame.raw))
        if fate in (Fate.HOLD, Fate.DROP):
            return b""
        return frame.raw * (2 if fate is Fate.TWICE else 1)
