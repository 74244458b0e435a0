"""The cost of a byte: messages of several sizes into file streams, with processor time and memory.

Both servers are up at once and take turns; a row has servers of its own, so that the memory is what this
size needs.  Ours syncs before each acknowledgement, nats-server does not (its default).  The last lines say
what the disk does by itself: a loop that writes and syncs, into a file that grows and into one that is
allocated ahead.

    python -m benchmarks.scale_bytes                  # about two minutes
    python -m benchmarks.scale_bytes --only 1MiB --rounds 9
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.stream_wire import AckCounter, request
from benchmarks.wire import Address, dial, payloads
from tests.kits.reference import ServerKind, ServerProcess

KIB: Final = 1024
MIB: Final = 1024 * 1024

_WINDOW_MESSAGES: Final = 4_000
_WINDOW_BYTES: Final = 64 * MIB  # not acknowledged; a client that keeps more has to hold it in memory, too
_WRITE_BYTES: Final = 256 * KIB  # messages in one write of the publisher, if they are smaller
_INBOX: Final = b"_INBOX.bytes"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Row:
    """Messages of one size."""

    name: str
    size: int
    count: int  # in one round
    bar: float
    subject: bytes = b"bytes.in"
    config: tuple[tuple[str, Any], ...] = (("name", "BYTES"), ("subjects", ("bytes.>",)))

    @property
    def stream(self) -> dict[str, Any]:
        return {"storage": "file", **dict(self.config)}


_OBJECTS: Final = (
    ("name", "OBJ_B"),
    ("subjects", ("$O.B.C.>", "$O.B.M.>")),
    ("discard", "new"),
    ("allow_rollup_hdrs", True),
    ("allow_direct", True),
)

ROWS: Final = (
    Row("128B", 128, 100_000, 1.5),
    Row("1KiB", KIB, 60_000, 2.0),
    Row("16KiB", 16 * KIB, 6_000, 1.0),
    Row("128KiB object chunks", 128 * KIB, 1_000, 1.0, b"$O.B.C.nuid", _OBJECTS),
    Row("1MiB", MIB, 128, 1.0),
)


@dataclass(frozen=True, slots=True)
class Round:
    """One server, one round."""

    rate: float  # messages a second
    processor_us: float  # of the server, for each message


def processor_s(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mib(pid: int, name: str) -> float:
    """`VmRSS`, the resident memory of a process, or `VmHWM`, the most that it ever had."""
    found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / KIB if found else 0.0


class Publisher:
    """A connection to one server, with everything that it will send."""

    def __init__(self, server: ServerProcess, row: Row) -> None:
        self._server = server
        self._row = row
        address = Address(server.host, server.port)
        request(address, f"STREAM.CREATE.{row.stream['name']}", row.stream)
        self._socket: socket.socket = dial(address, greeting=b"SUB %b 1\r\n" % _INBOX)
        body = payloads(1, row.size, seed=5)[0]
        self._frame = b"PUB %b %b %d\r\n%b\r\n" % (row.subject, _INBOX, row.size, body)

    def close(self) -> None:
        self._socket.close()

    def round(self) -> Round:
        """Publish the messages of one round; it ends with the last acknowledgement."""
        row, acks = self._row, AckCounter(self._socket)
        step = min(max(1, _WRITE_BYTES // row.size), _WINDOW_MESSAGES // 4)
        window = max(step, min(_WINDOW_MESSAGES, _WINDOW_BYTES // row.size))
        chunk = self._frame * step
        before, began, sent = processor_s(self._server.pid), time.perf_counter(), 0
        while sent < row.count:
            while sent - acks.count > window - step:
                acks.receive()
            self._socket.sendall(chunk)
            sent += step
        while acks.count < sent:
            acks.receive()
        took = time.perf_counter() - began
        return Round(sent / took, (processor_s(self._server.pid) - before) / sent * 1e6)


def compare(row: Row, rounds: int) -> str:
    """Measure a row on both servers, and return its lines of the table."""
    found: dict[ServerKind, list[Round]] = {kind: [] for kind in ServerKind}
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(ServerProcess(kind, jetstream=True)) for kind in ServerKind}
        publishers = {kind: Publisher(server, row) for kind, server in servers.items()}
        for publisher in publishers.values():
            stack.callback(publisher.close)
            publisher.round()
        for number in range(rounds):
            for kind in list(ServerKind) if number % 2 else reversed(list(ServerKind)):
                found[kind].append(publishers[kind].round())
        most = {kind: memory_mib(server.pid, "VmHWM") for kind, server in servers.items()}
        now = {kind: memory_mib(server.pid, "VmRSS") for kind, server in servers.items()}
    ours, theirs = found[ServerKind.MILLSTREAM], found[ServerKind.NATS_SERVER]
    pairs = [mine.rate / other.rate for mine, other in zip(ours, theirs, strict=True)]
    spread = f"{min(pairs):.2f} to {max(pairs):.2f}"
    rate, their_rate = (statistics.median(each.rate for each in group) for group in (ours, theirs))
    ratio = statistics.median(pairs)
    lines = [_line(f"{row.name}: messages a second", rate, their_rate, ratio, spread, row.bar)]
    if row.size >= 16 * KIB:
        volume = row.size / MIB
        lines.append(_line(f"{row.name}: MiB a second", rate * volume, their_rate * volume, ratio))
    spent, their_spent = (statistics.median(each.processor_us for each in group) for group in (ours, theirs))
    ratio = their_spent / spent if spent else 0.0
    lines.append(_line(f"{row.name}: processor time, us", spent, their_spent, ratio))
    for what, memory in ((" most memory, MiB", most), (" memory at the end, MiB", now)):
        mine, other = memory[ServerKind.MILLSTREAM], memory[ServerKind.NATS_SERVER]
        lines.append(_line(f"{row.name}:{what}", mine, other, other / mine))
    return "\n".join(lines)


def _line(name: str, mine: float, other: float, ratio: float, spread: str = "", bar: float = 0.0) -> str:
    wanted = f"{bar:5.1f}" if bar else ""
    return f"{name:44} {mine:12,.0f} {other:12,.0f} {ratio:7.2f} {wanted:5} {spread}"


def disk(size: int, total: int, *, ahead: bool) -> float:
    """Write and sync pieces of one size until there are `total` bytes, and return MiB a second."""
    data = os.urandom(size)
    with tempfile.TemporaryFile() as file:
        number = file.fileno()
        if ahead:
            os.posix_fallocate(number, 0, total)
        began = time.perf_counter()
        for at in range(0, total, size):
            os.pwrite(number, data, at)
            os.fdatasync(number)
        return total / MIB / (time.perf_counter() - began)


def main() -> None:
    """Print a table with a row for each size, and what the disk does by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="rows whose names begin like this")
    options = parser.parse_args()
    print(f"{'':47} Millstream  nats-server   ratio   bar spread", flush=True)
    for row in ROWS:
        if row.name.startswith(options.only):
            print(compare(row, options.rounds), flush=True)
    for size in (128 * KIB, MIB, 8 * MIB):
        grows, fixed = (
            statistics.median(disk(size, 64 * MIB, ahead=ahead) for _ in range(3)) for ahead in (False, True)
        )
        print(f"disk, {size // KIB:,} KiB at a time: {grows:,.0f} MiB a second; allocated ahead {fixed:,.0f}")


if __name__ == "__main__":
    main()
