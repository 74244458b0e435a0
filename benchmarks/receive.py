"""Counting what a subscriber receives without parsing it, yet noticing anything that is wrong.

Frames have one known size, so bytes are messages.  Each read is compared with what must stand at its
end (`Ordered`: one publisher, the whole stream is known) or with the frames that may stand there
(`Mixed`: several publishers or a queue group).  A message lost, added or damaged moves every later
byte, so the check of the next read fails.  The servers' own PING may stand between two frames; it is
looked for only when a check fails, so it costs nothing.
"""

import itertools
import select
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from benchmarks.wire import PING, PONG, SILENCE_S, Batch, WireError

READ_BYTES: Final = 256 * 1024
_TAIL: Final = 48  # bytes compared at the end of each read; more than a short payload and its head


class Check(Protocol):
    """A check of the bytes of one connection."""

    def holds(self, buffer: bytearray, size: int, before: int) -> bool:
        """Return whether a read of `size` bytes that follows `before` bytes is correct."""
        ...


class Ordered:
    """The frames of one batch, in order, over and over."""

    def __init__(self, source: Batch) -> None:
        period = b"".join(source.frames)
        self._length = len(period)
        self._stream = period[-_TAIL:] + period

    def holds(self, buffer: bytearray, size: int, before: int) -> bool:
        tail = min(size, _TAIL)
        end = (before + size) % self._length + _TAIL
        return buffer[size - tail : size] == self._stream[end - tail : end]


class Mixed:
    """Frames of these batches in any order."""

    def __init__(self, sources: Iterable[Batch]) -> None:
        self._frames = frozenset(frame for source in sources for frame in source.frames)
        self._size = len(next(iter(self._frames)))

    def holds(self, buffer: bytearray, size: int, before: int) -> bool:
        end = size - (before + size) % self._size  # of the last whole frame; a part of one may follow
        start = end - self._size
        if start >= 0 and bytes(buffer[start:end]) not in self._frames:
            return False
        return buffer.find(b"P", end if start >= 0 else 0, size) < 0


class Inlet:
    """One subscribed connection: reads, checks and counts."""

    __slots__ = ("_buffer", "_check", "connection", "received")

    def __init__(self, connection: socket.socket, check: Check) -> None:
        self.connection = connection
        self.received = 0  # bytes of frames
        self._check = check
        self._buffer = bytearray(READ_BYTES)

    def read(self) -> int:
        """Take what has arrived (waiting for the first byte) and return how many bytes of frames it was."""
        size = self.connection.recv_into(self._buffer)
        if size == 0:
            raise WireError("the server closed a subscriber")
        if not self._check.holds(self._buffer, size, self.received):
            size = self._without_ping(size)
        self.received += size
        return size

    def take(self) -> bytes:
        """One read, with the bytes; for the warm-up, where every message is looked at."""
        return bytes(self._buffer[: self.read()])

    def restart(self) -> None:
        """Count from nothing again: the publishers start over with the first frame of their batch."""
        self.received = 0

    def _without_ping(self, size: int) -> int:
        data = bytes(self._buffer[:size])
        while (at := data.find(b"P")) >= 0:
            missing = at + len(PING) - len(data)
            if missing > 0:
                data += self.connection.recv(missing, socket.MSG_WAITALL)
            if data[at : at + len(PING)] != PING:
                break
            data = data[:at] + data[at + len(PING) :]
            self.connection.sendall(PONG)
        self._buffer[: len(data)] = data
        if data and not self._check.holds(self._buffer, len(data), self.received):
            sample = data[:120] if b"-ERR" not in data else data[data.find(b"-ERR") :][:120]
            raise WireError(f"not the messages that were published, after {self.received} bytes: {sample!r}")
        return len(data)


def ready(poller: select.epoll) -> list[tuple[int, int]]:
    """Return the sockets that can be read; raises when nothing comes for too long."""
    events = poller.poll(SILENCE_S)
    if not events:
        raise WireError(f"no byte from the server for {SILENCE_S} s")
    return events


def require_all(received: bytes, frames: Iterable[bytes], frame_bytes: int) -> None:
    """Raise unless `received` is exactly `frames`, in any order."""
    parts = (received[start : start + frame_bytes] for start in range(0, len(received), frame_bytes))
    if Counter(parts) != Counter(frames):
        raise WireError("the warm-up messages did not all arrive exactly once")


def first(source: Batch, count: int) -> list[bytes]:
    """The frames of the first `count` messages that a publisher of this batch sends."""
    return list(itertools.islice(itertools.cycle(source.frames), count))
