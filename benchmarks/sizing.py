"""Memory that a server takes for each connection, subscription, stream, consumer and key.

`python -m benchmarks.sizing` prints the growth of resident memory for each of them, of both servers.  It is
what docs/operations.md gives for sizing; other load on the machine does not change it.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.wire import Address, dial
from tests.kits.reference import ServerKind, ServerProcess

_KIB: Final = 1024
_IN_FLIGHT: Final = 200


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


def main() -> None:
    print(f"{'one':14}{'ours':>12}{'nats-server':>14}   bytes of resident memory")
    for name, (add, count) in KINDS.items():
        grown = []
        for kind in (ServerKind.MILLSTREAM, ServerKind.NATS_SERVER):
            with ServerProcess(kind, jetstream=True) as server:
                site = Site(server)
                before = site.resident()
                add(site, count)
                grown.append((site.resident() - before) // count)
                for each in site.idle:
                    each.close()
        print(f"{name:14}{grown[0]:>12,}{grown[1]:>14,}")


if __name__ == "__main__":
    main()
