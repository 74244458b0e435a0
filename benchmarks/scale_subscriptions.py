"""Subscriptions at size: how fast they come and go, and what others wait for meanwhile.

Each function takes a running server and returns one figure or a few. `python -m
benchmarks.scale_subscriptions` runs all of them on both servers, one after the other in each round, and
prints the ratios.

The client that waits is a process of its own (``Bystander``): half a millisecond after a PONG it sends
the next PING, and it keeps the longest time that an answer took.
"""

import argparse
import multiprocessing
import os
import resource
import socket
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from benchmarks.wire import PING, PONG, Address, WireError, dial, flush
from tests.kits.reference import ServerKind, ServerProcess

_LINES: Final = 4096  # in one write
_PAUSE_S: Final = 0.0005  # of the bystander, between an answer and the next question
_SETTLE_S: Final = 0.3  # of quiet before the clock starts, so that what was done before has ended
_PATIENCE_S: Final = 120.0  # for one answer
_MIB: Final = 1 << 20

_processes: Final = multiprocessing.get_context("fork")


# -- the one who waits -----------------------------------------------------------------------------


class Bystander:
    """Measures, in a process of its own, how long a server takes to answer."""

    def __init__(self, address: Address) -> None:
        self._control, theirs = _processes.Pipe()
        self._process = _processes.Process(target=_ask, args=(address, theirs), daemon=True)
        self._process.start()
        self._control.recv()

    def longest_s(self) -> float:
        """Return the longest answer since the last call, after one more question that began later."""
        self._control.send(True)
        longest: float = self._control.recv()
        return longest

    def close(self) -> None:
        self._control.send(False)
        self._process.join()


def _ask(address: Address, control: Connection) -> None:
    connection = dial(address)
    control.send(None)
    longest = 0.0
    while True:
        wanted = control.recv() if control.poll() else None
        if wanted is False:
            connection.close()
            return
        began = time.perf_counter()
        connection.send(PING)
        seen = b""
        while PONG not in seen:
            if PING in seen:
                connection.send(PONG)
                seen = b""
            seen += connection.recv(4096)
        longest = max(longest, time.perf_counter() - began)
        if wanted:
            control.send(longest)
            longest = 0.0
        time.sleep(_PAUSE_S)


@contextmanager
def bystander(address: Address) -> Iterator[Bystander]:
    one = Bystander(address)
    try:
        time.sleep(_SETTLE_S)
        one.longest_s()
        yield one
    finally:
        one.close()


# -- what is measured ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rates:
    """Subscriptions of one client, all on subjects of their own."""

    subscribed_per_s: float
    unsubscribed_per_s: float
    bytes_each: float  # resident memory of the server


def subscribe_and_unsubscribe(address: Address, pid: int, count: int) -> Rates:
    """Make `count` subscriptions with one client and take them back."""
    connection = dial(address)
    try:
        before = _resident(pid)
        made = _timed(connection, [_sub(number) for number in range(count)])
        memory = _resident(pid) - before
        gone = _timed(connection, [b"UNSUB %d\r\n" % number for number in range(count)])
        return Rates(count / made, count / gone, memory / count)
    finally:
        connection.close()


def churn_beside(address: Address, standing: int, count: int) -> float:
    """Return how often a second a client subscribes and unsubscribes beside `standing` subscriptions."""
    crowd = _crowd(address, standing)
    connection = dial(address)
    try:
        lines = [
            b"SUB _INBOX.churn.%d %d\r\nUNSUB %d\r\n" % (number, number, number) for number in range(count)
        ]
        return count / _timed(connection, lines)
    finally:
        connection.close()
        crowd.close()


def wait_while_subscribing(address: Address, count: int) -> float:
    """Return the longest wait of a bystander, in seconds, while a client makes and drops subscriptions."""
    with bystander(address) as witness:
        connection = _crowd(address, count)
        _timed(connection, [b"UNSUB %d\r\n" % number for number in range(count)])
        connection.close()
        return witness.longest_s()


def wait_while_leaving(address: Address, subscriptions: int) -> float:
    """Return the longest wait of a bystander while a client with so many subscriptions leaves."""
    crowd = _crowd(address, subscriptions)
    with bystander(address) as witness:
        crowd.shutdown(socket.SHUT_RDWR)  # the bystander, a fork, has a copy of the descriptor
        time.sleep(_SETTLE_S)
        longest = witness.longest_s()
        _until_gone(address, subscriptions - 1)
        crowd.close()
        return max(longest, witness.longest_s())


def wait_while_closing(address: Address, connections: int) -> float:
    """Return the longest wait of a bystander while so many connections close at once."""
    ours, theirs = _processes.Pipe()
    holder = _processes.Process(target=_hold, args=(address, connections, theirs), daemon=True)
    holder.start()
    ours.recv()
    with bystander(address) as witness:
        holder.kill()
        holder.join()
        time.sleep(_SETTLE_S)
        longest = witness.longest_s()
        _until_gone(address, connections - 1)
        return max(longest, witness.longest_s())


def wait_while_listing(address: Address, monitor_url: str, subscriptions: int) -> dict[str, float]:
    """Return the longest wait of a bystander, in seconds, for each page that lists so many subscriptions."""
    crowd = _crowd(address, subscriptions)
    waits = {}
    try:
        for page in (
            "/connz?subs=1",
            "/connz?subs=detail",
            f"/subsz?subs=1&limit={subscriptions}",
            f"/subsz?subs=1&offset={subscriptions - 10}&limit=10",
        ):
            with bystander(address) as witness, urllib.request.urlopen(monitor_url + page) as answer:
                while answer.read(_MIB):
                    pass
                waits[page.replace(str(subscriptions), "N")] = witness.longest_s()
    finally:
        crowd.close()
    return waits


def noise(address: Address, seconds: float) -> float:
    """Return the longest wait while nothing happens: what the machine itself adds."""
    with bystander(address) as witness:
        time.sleep(seconds)
        return witness.longest_s()


# -- how -------------------------------------------------------------------------------------------


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _sub(number: int) -> bytes:
    return b"SUB fleet.%d.car.%d.state %d\r\n" % (number % 1000, number, number)


def _timed(connection: socket.socket, lines: list[bytes]) -> float:
    chunks = [b"".join(lines[at : at + _LINES]) for at in range(0, len(lines), _LINES)]
    began = time.perf_counter()
    for chunk in chunks:
        connection.sendall(chunk)
    flush(connection)
    return time.perf_counter() - began


def _crowd(address: Address, subscriptions: int) -> socket.socket:
    connection = dial(address)
    _timed(connection, [_sub(number) for number in range(subscriptions)])
    return connection


def _hold(address: Address, connections: int, control: Connection) -> None:
    held = [dial(address, greeting=b"SUB inbox.%d.* 1\r\n" % number) for number in range(connections)]
    control.send(len(held))
    control.recv()


def _until_gone(address: Address, number: int) -> None:
    """Wait until nobody listens on the subject of the last subscription that goes."""
    connection = dial(address, greeting=b"SUB gone 1\r\n")
    deadline = time.monotonic() + _PATIENCE_S
    subjects = (
        b"fleet.%d.car.%d.state" % (number % 1000, number),
        b"inbox.%d.a" % number,
    )
    try:
        for subject in subjects:
            while True:
                connection.sendall(b"PUB %b gone 0\r\n\r\n" % subject)
                answer = b""
                connection.sendall(PING)
                while PONG not in answer:
                    answer += connection.recv(4096)
                if b"503" in answer:
                    break
                if time.monotonic() > deadline:
                    raise WireError(f"somebody still listens on {subject.decode()}")
                time.sleep(0.01)
    finally:
        connection.close()


# -- both servers ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One round on one server; waits in seconds."""

    subscribe_per_s: float
    unsubscribe_per_s: float
    churn_per_s: float
    subscription_bytes: float
    wait_subscribing: float
    wait_leaving: float
    wait_closing: float
    wait_quiet: float


def measure(kind: ServerKind, subscriptions: int, leaving: int, connections: int) -> Figures:
    """Run every workload, each on a fresh server."""
    with _server(kind) as server:
        rates = subscribe_and_unsubscribe(_address(server), server.pid, subscriptions)
    with _server(kind) as server:
        churn = churn_beside(_address(server), subscriptions, subscriptions // 5)
    with _server(kind) as server:
        quiet = noise(_address(server), 2.0)
        subscribing = wait_while_subscribing(_address(server), leaving)
    with _server(kind) as server:
        gone = wait_while_leaving(_address(server), leaving)
    with _server(kind) as server:
        closing = wait_while_closing(_address(server), connections)
    return Figures(
        subscribe_per_s=rates.subscribed_per_s,
        unsubscribe_per_s=rates.unsubscribed_per_s,
        churn_per_s=churn,
        subscription_bytes=rates.bytes_each,
        wait_subscribing=subscribing,
        wait_leaving=gone,
        wait_closing=closing,
        wait_quiet=quiet,
    )


def _server(kind: ServerKind) -> ServerProcess:
    return ServerProcess(kind, monitor=True)


def _address(server: ServerProcess) -> Address:
    return Address(server.host, server.port)


def _report(rounds: list[tuple[Figures, Figures]]) -> Iterator[str]:
    yield f"{'':22} {'millstream':>14} {'nats-server':>14} {'ratio':>7}"
    for field in fields(Figures):
        ours = statistics.median(getattr(one, field.name) for one, _ in rounds)
        theirs = statistics.median(getattr(other, field.name) for _, other in rounds)
        if field.name.startswith("wait"):
            yield f"{field.name:22} {ours * 1000:11.1f} ms {theirs * 1000:11.1f} ms {theirs / ours:7.2f}"
        else:
            ratio = theirs / ours if field.name.endswith("bytes") else ours / theirs
            yield f"{field.name:22} {ours:14,.0f} {theirs:14,.0f} {ratio:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--leaving", type=int, default=250_000)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    run: Callable[[ServerKind], Figures] = lambda kind: measure(  # noqa: E731
        kind, chosen.subscriptions, chosen.leaving, chosen.connections
    )
    rounds = []
    for _ in range(chosen.rounds):
        rounds.append((run(ServerKind.MILLSTREAM), run(ServerKind.NATS_SERVER)))
        print(*_report(rounds[-1:]), sep="\n", flush=True)
    if len(rounds) > 1:
        print(f"median of {len(rounds)} rounds on {os.cpu_count()} cores", *_report(rounds), sep="\n")


if __name__ == "__main__":
    main()
