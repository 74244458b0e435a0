"""Measure what a server needs: memory for itself and for each client, stream, consumer and key; disk; time.

`python -m benchmarks.sizing` prints the growth of resident memory for each of them, of both servers, the
bytes that messages take on disk, and the time of one acknowledged publish after another.  It is what
docs/operations.md gives for sizing; other load on the machine changes the last line alone.
"""

import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.wire import Address, dial
from tests.kits.reference import ServerKind, ServerProcess

_KIB: Final = 1024
_IN_FLIGHT: Final = 200
_BODY: Final = 128
_MESSAGES: Final = 100_000
_PUBLISHES: Final = 500
_SETTLING_S: Final = 1.0


class Site:
    """A running server, with one connection for requests."""

    def __init__(self, server: ServerProcess) -> None:
        self.address = Address("127.0.0.1", server.port)
        self._pid = server.pid
        self.idle: list[socket.socket] = []
        self._line = self.connect()
        self._lines = self._line.makefile("rb")
        self._line.sendall(b"SUB answers 1\r\n")

    def connect(self) -> socket.socket:
        return dial(self.address)

    def resident(self) -> int:
        """Return the resident memory of the server in bytes."""
        fields = Path(f"/proc/{self._pid}/statm").read_text().split()
        return int(fields[1]) * 4 * _KIB

    def settled(self) -> int:
        """Return the resident memory when it grows no more: a server imports some modules after its start."""
        before = 0
        while (now := self.resident()) != before:
            before = now
            time.sleep(_SETTLING_S)
        return now

    def send(self, requests: list[tuple[str, bytes]]) -> None:
        """Send requests, some in flight, and wait for all answers."""
        for at in range(0, len(requests), _IN_FLIGHT):
            part = requests[at : at + _IN_FLIGHT]
            self._line.sendall(
                b"".join(b"PUB %b answers %d\r\n%b\r\n" % (to.encode(), len(body), body) for to, body in part)
            )
            for _ in part:
                self._answer()

    def _answer(self) -> None:
        while True:
            head = self._lines.readline()
            if head == b"PING\r\n":
                self._line.sendall(b"PONG\r\n")
            elif head.startswith(b"MSG "):
                body = self._lines.read(int(head.split()[-1]) + 2)
                if b'"error"' in body:
                    raise RuntimeError(body.decode())
                return


def connections(site: Site, count: int) -> None:
    site.idle += [site.connect() for _ in range(count)]


def subscriptions(site: Site, count: int) -> None:
    lines = b"".join(b"SUB room.%d.> %d\r\n" % (number, number + 2) for number in range(count))
    site.idle.append(dial(site.address, greeting=lines))


def streams(site: Site, count: int) -> None:
    config = '{{"name":"S{0}","subjects":["s{0}.>"],"storage":"file"}}'
    site.send([(f"$JS.API.STREAM.CREATE.S{n}", config.format(n).encode()) for n in range(count)])


def consumers(site: Site, count: int) -> None:
    streams(site, 1)
    config = '{{"stream_name":"S0","config":{{"durable_name":"C{0}","ack_policy":"explicit"}}}}'
    site.send([(f"$JS.API.CONSUMER.CREATE.S0.C{n}", config.format(n).encode()) for n in range(count)])


def keys(site: Site, count: int) -> None:
    bucket = b'{"name":"KV_B","subjects":["$KV.B.>"],"max_msgs_per_subject":1,"storage":"file"}'
    site.send([("$JS.API.STREAM.CREATE.KV_B", bucket)])
    site.send([(f"$KV.B.key.{n}", b"x" * 100) for n in range(count)])


KINDS: Final[dict[str, tuple[Callable[[Site, int], None], int]]] = {
    "connection": (connections, 2_000),
    "subscription": (subscriptions, 100_000),
    "stream": (streams, 1_000),
    "consumer": (consumers, 1_000),
    "key": (keys, 300_000),
}


def stored(server: ServerProcess) -> float:
    """Return the bytes on disk for a message of `_BODY` bytes, in a stream of `_MESSAGES` of them."""
    site = Site(server)
    site.send([("$JS.API.STREAM.CREATE.D", b'{"name":"D","subjects":["disk"],"storage":"file"}')])
    before = on_disk(server.store_dir)
    site.send([("disk", b"x" * _BODY)] * _MESSAGES)
    return (on_disk(server.store_dir) - before) / _MESSAGES


def on_disk(folder: Path) -> int:
    """Return the length of all files in a folder, and not what is allocated ahead of their ends."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def publish_ms(server: ServerProcess) -> float:
    """Return the median time of an acknowledged publish, when there is never a second one under way."""
    site = Site(server)
    site.send([("$JS.API.STREAM.CREATE.T", b'{"name":"T","subjects":["time"],"storage":"file"}')])
    took = []
    for _ in range(_PUBLISHES):
        began = time.perf_counter()
        site.send([("time", b"x" * _BODY)])
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


def of_both(measure: Callable[[ServerProcess], float]) -> list[float]:
    """Return a figure of a fresh server of either kind, ours first."""
    found = []
    for kind in (ServerKind.MILLSTREAM, ServerKind.NATS_SERVER):
        with ServerProcess(kind, jetstream=True) as server:
            found.append(measure(server))
    return found


def grown(add: Callable[[Site, int], None], count: int) -> Callable[[ServerProcess], float]:
    """Return a measurement of the growth of resident memory by each of `count` things."""

    def measure(server: ServerProcess) -> float:
        site = Site(server)
        before = site.settled()
        add(site, count)
        bytes_each = (site.settled() - before) / count
        for each in site.idle:
            each.close()
        return bytes_each

    return measure


def main() -> None:
    print(f"{'one':14}{'ours':>12}{'nats-server':>14}   bytes of resident memory")
    rows: dict[str, Callable[[ServerProcess], float]] = {"server": lambda server: Site(server).settled()}
    rows |= {name: grown(add, count) for name, (add, count) in KINDS.items()}
    for name, measure in rows.items():
        ours, theirs = of_both(measure)
        print(f"{name:14}{ours:>12,.0f}{theirs:>14,.0f}", flush=True)
    ours, theirs = of_both(stored)
    print(f"{'message':14}{ours:>12,.0f}{theirs:>14,.0f}   bytes on disk, {_BODY} of them its body")
    ours, theirs = of_both(publish_ms)
    print(f"{'publish':14}{ours:>12.2f}{theirs:>14.2f}   ms, one at a time; nats-server does not sync for it")


if __name__ == "__main__":
    main()
