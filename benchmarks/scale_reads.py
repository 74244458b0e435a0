"""Reads and writes of single messages in streams of several sizes: by sequence, by time, and by key.

A stream of each size is filled, then messages are read in random order, sixteen requests at a time; a bucket
is filled with keys, which are then read, overwritten and updated.  Reads are repeated after a restart, when
nothing is in memory.  What counts is the ratio to nats-server, and that a figure does not fall with size:
*growth* is how each figure changed since the first size (below 1: it got worse), ours / theirs.

    python -m benchmarks.scale_reads                      # 100,000 and 1,000,000 messages
    python -m benchmarks.scale_reads --sizes 10000000
    python -m benchmarks.scale_reads --sizes 100000 300000 --body 1024
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.scale_bytes import processor_s
from benchmarks.wire import Address, WireError, dial
from tests.kits.reference import ServerKind, ServerProcess

Figures = dict[str, float]

_READ_BYTES: Final = 1 << 20
_UNDER_WAY: Final = 16  # reads
_WINDOW: Final = 4_000  # publishes
_AT_ONCE: Final = 1_000
_UPDATED_KEYS: Final = 64
_PROCESSOR: Final = "processor us"
_TIME: Final = "ms"
_COSTS: Final = ("memory", _PROCESSOR, _TIME)  # names of figures that are better if they are low
_MARK: Final = b"#~"  # the end of every payload
_BODY_BYTES: Final = 128
_STREAM: Final = {"name": "S", "subjects": ["s.>"], "storage": "file", "allow_direct": True}
_BUCKET: Final = {
    "name": "KV_B",
    "subjects": ["$KV.B.>"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "discard": "new",
    "allow_direct": True,
    "allow_rollup_hdrs": True,
    "deny_delete": True,
}


class Caller:
    """A connection that publishes and asks."""

    def __init__(self, port: int, body_bytes: int = _BODY_BYTES) -> None:
        self.payload = b"v" * (body_bytes - len(_MARK)) + _MARK
        self._socket: socket.socket = dial(Address("127.0.0.1", port), greeting=b"SUB _INBOX.* 1\r\n")

    def close(self) -> None:
        self._socket.close()

    def ask(self, subject: str, body: object = None) -> dict[str, Any]:
        """The answer of the JetStream API; WireError if it is a refusal."""
        data = json.dumps(body).encode() if body is not None else b""
        self._socket.sendall(b"PUB $JS.API.%b _INBOX.ask %d\r\n%b\r\n" % (subject.encode(), len(data), data))
        seen = b""
        while True:
            seen += self._more()
            head = re.match(rb"MSG _INBOX\.ask \S+ (\d+)\r\n", seen)
            if head is not None and len(seen) >= head.end() + int(head[1]) + 2:
                answer: dict[str, Any] = json.loads(seen[head.end() : head.end() + int(head[1])])
                if "error" in answer:
                    raise WireError(str(answer["error"]))
                return answer

    def publish(self, frames: Iterator[bytes], count: int) -> float:
        """Publish so many messages, each acknowledged, and return how many there were in a second."""
        began, sent, acked, tail = time.monotonic(), 0, 0, b""
        while acked < count:
            while sent < count and sent - acked < _WINDOW:
                part = [next(frames) for _ in range(min(_AT_ONCE, count - sent))]
                self._socket.sendall(b"".join(part))
                sent += len(part)
            data = tail + self._more()
            end = data.rfind(b"\n") + 1
            if b'"error"' in data:
                raise WireError(f"refused: {data[:200]!r}")
            acked += data.count(b"MSG _INBOX.ack", 0, end)
            tail = data[end:]
        return count / (time.monotonic() - began)

    def read(self, requests: list[bytes]) -> float:
        """Send requests, each answered with one message, and return how many there were in a second."""
        mark = _MARK + b"\r\n"
        began, tail = time.monotonic(), b""
        self._socket.sendall(b"".join(requests[:_UNDER_WAY]))
        sent, seen = _UNDER_WAY, 0
        while seen < len(requests):
            data = tail + self._more()
            end = data.rfind(mark)
            end = end + len(mark) if end >= 0 else 0
            came = data.count(mark, 0, end)
            seen += came
            tail = data[end:]
            if b" 404 " in tail or b" 408 " in tail:
                raise WireError(f"not a message: {tail[:200]!r}")
            self._socket.sendall(b"".join(requests[sent : sent + came]))
            sent += came
        return len(requests) / (time.monotonic() - began)

    def update(self, rounds: int) -> float:
        """Update keys with their last revision, and return how many updates there were in a second."""
        last = dict.fromkeys(range(_UPDATED_KEYS), 0)
        began = time.monotonic()
        for _ in range(rounds):
            updates = (_update(key, revision, self.payload) for key, revision in last.items())
            self._socket.sendall(b"".join(updates))
            seen = b""
            while seen.count(b'"seq":') < _UPDATED_KEYS:
                seen += self._more()
                if b'"error"' in seen:
                    raise WireError(f"refused: {seen[:200]!r}")
            found = re.findall(rb'"seq": ?(\d+)', seen)
            last = {key: int(revision) for key, revision in enumerate(found)}
        return rounds * _UPDATED_KEYS / (time.monotonic() - began)

    def _more(self) -> bytes:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise WireError("the server closed the connection")
        return data


def _publication(subject: bytes, payload: bytes) -> bytes:
    return b"PUB %b _INBOX.ack %d\r\n%b\r\n" % (subject, len(payload), payload)


def _update(key: int, revision: int, payload: bytes) -> bytes:
    block = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % revision
    size = len(block) + len(payload)
    return b"HPUB $KV.B.u%d _INBOX.ack %d %d\r\n%b%b\r\n" % (key, len(block), size, block, payload)


def _get(body: object) -> bytes:
    data = json.dumps(body, separators=(",", ":")).encode()
    return b"PUB $JS.API.DIRECT.GET.S _INBOX.get %d\r\n%b\r\n" % (len(data), data)


def _get_key(key: int) -> bytes:
    return b"PUB $JS.API.DIRECT.GET.KV_B.$KV.B.k%d _INBOX.get 0\r\n\r\n" % key


def resident_mib(pid: int) -> float:
    """The resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def measure(server: ServerProcess, size: int, operations: int, body_bytes: int = _BODY_BYTES) -> Figures:
    """Fill a stream and a bucket of this size on a fresh server, and use them."""
    chance = random.Random(size)
    figures: Figures = {}
    caller = Caller(server.port, body_bytes)
    payload = caller.payload
    caller.ask("STREAM.CREATE.S", _STREAM)
    figures["publish"] = caller.publish((_publication(b"s.x", payload) for _ in range(size)), size)
    figures["memory in MiB"] = resident_mib(server.pid)
    figures |= _read_stream(caller, server.pid, size, operations, chance, "")
    caller.ask("STREAM.CREATE.KV_B", _BUCKET)
    figures["key: put new"] = caller.publish(
        (_publication(b"$KV.B.k%d" % key, payload) for key in range(size)), size
    )
    random_keys = iter(lambda: chance.randrange(size), None)
    figures["key: put random"] = caller.publish(
        (_publication(b"$KV.B.k%d" % key, payload) for key in random_keys), operations
    )
    figures["key: update"] = caller.update(operations // _UPDATED_KEYS)
    figures["key: get random"] = caller.read([_get_key(chance.randrange(size)) for _ in range(operations)])
    caller.close()
    server.kill()
    began = time.monotonic()
    server.start()
    figures[f"{_TIME}, restart after a kill"] = (time.monotonic() - began) * 1e3
    caller = Caller(server.port, body_bytes)
    figures |= _read_stream(caller, server.pid, size, operations, chance, " after a restart")
    keys = [_get_key(chance.randrange(size)) for _ in range(operations)]
    figures["key: get random after a restart"] = caller.read(keys)
    caller.close()
    return figures


def _read_stream(
    caller: Caller, pid: int, size: int, operations: int, chance: random.Random, when: str
) -> Figures:
    """Read single messages; the processor time of a read is what a busy machine disturbs least."""
    sequences = [_get({"seq": chance.randint(1, size)}) for _ in range(operations)]
    state = caller.ask("STREAM.INFO.S")["state"]
    first, last = (datetime.fromisoformat(state[each][:26].rstrip("Z")) for each in ("first_ts", "last_ts"))
    moments = [first + (last - first) * chance.random() for _ in range(operations)]
    times = [_get({"start_time": f"{each.isoformat()}Z", "next_by_subj": "s.x"}) for each in moments]
    figures: Figures = {}
    for name, requests in ((f"get by sequence{when}", sequences), (f"get by time{when}", times)):
        before = processor_s(pid)
        figures[name] = caller.read(requests)
        figures[f"{_PROCESSOR}, {name}"] = (processor_s(pid) - before) / len(requests) * 1e6
    return figures


def compare(
    size: int, operations: int, rounds: int, body_bytes: int, progress: Callable[[str], None]
) -> dict[ServerKind, list[Figures]]:
    """Measure both servers in turns, each round on fresh ones."""
    found: dict[ServerKind, list[Figures]] = {kind: [] for kind in ServerKind}
    for number in range(rounds):
        for kind in ServerKind:
            progress(f"{size:,} messages, round {number + 1}: {kind}")
            with ServerProcess(kind, jetstream=True) as server:
                found[kind].append(measure(server, size, operations, body_bytes))
    return found


def _quotient(one: float, other: float) -> float:
    """Return 0 if there is none: processor time is counted in hundredths of a second."""
    return one / other if other else 0.0


def report(size: int, best: dict[str, tuple[float, float]], first: dict[str, tuple[float, float]]) -> None:
    """Print the table of a size; `first` has the figures of the first size."""
    print(f"\n{size:,} messages{'':32} Millstream  nats-server  ratio   growth")
    for name, (mine, other) in best.items():
        is_cost = name.startswith(_COSTS)
        ratio = _quotient(other, mine) if is_cost else _quotient(mine, other)
        digits = 1 if name.startswith(_PROCESSOR) else 0
        growth = ""
        if first is not best:
            pairs = zip((mine, other), first[name], strict=True)
            changes = (_quotient(was, now) if is_cost else _quotient(now, was) for now, was in pairs)
            growth = " / ".join(f"{change:.2f}" for change in changes)
        print(f"{name:48} {mine:12,.{digits}f} {other:12,.{digits}f} {ratio:6.2f}   {growth}")
    print()


def main() -> None:
    """Print a table for each size: the best of each server's rounds, the ratio, and the growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--body", type=int, default=_BODY_BYTES, help="bytes of a message")
    options = parser.parse_args()
    first: dict[str, tuple[float, float]] = {}
    for size in options.sizes:
        found = compare(
            size, options.operations, options.rounds, options.body, lambda text: print(text, flush=True)
        )
        ours, theirs = found[ServerKind.MILLSTREAM], found[ServerKind.NATS_SERVER]
        best: dict[str, tuple[float, float]] = {}
        for name in ours[0]:
            pick = min if name.startswith(_COSTS) else max
            best[name] = (pick(each[name] for each in ours), pick(each[name] for each in theirs))
        first = first or best
        report(size, best, first)


if __name__ == "__main__":
    main()
