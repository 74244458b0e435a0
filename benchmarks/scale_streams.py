"""Thousands of streams on one server: create, publish over all of them, ask about them, restart, delete.

Each function takes a running server and returns figures by name; none compares servers.  ``python -m
benchmarks.scale_streams`` runs all of them on both servers in turn and prints the ratios.  On a busy machine
look at processor time, and at what a client waits while nothing happens.
"""

import json
import multiprocessing
import os
import socket
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Annotated, Any, Final

import typer

from benchmarks.stream_wire import AckCounter
from benchmarks.wire import PING, PONG, Address, WireError, dial
from tests.kits.reference import ServerKind, ServerProcess

STREAMS: Final = 2_000
SIZES: Final = (200, STREAMS)
MESSAGES: Final = 40_000
WINDOW: Final = 4_000  # publishes that wait for their acknowledgement
IN_FLIGHT: Final = 16  # requests that are made at once
BODY: Final = b"x" * 128
_PAUSE_S: Final = 0.005  # between two publishes of the client that looks on
_INFOS: Final = 300
_NOISE_S: Final = 2.0
_PATIENCE_S: Final = 60.0
_DURABLES: Final = 1_000

Figures = dict[str, float]


def address_of(server: ServerProcess) -> Address:
    return Address(server.host, server.port)


class Caller:
    """Makes requests over one connection, some at once, and checks each answer."""

    def __init__(self, address: Address) -> None:
        self._connection = dial(address, greeting=b"SUB _INBOX.call.* 1\r\n")
        self._seen = b""

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def all(self, requests: list[tuple[str, bytes]], in_flight: int = 1) -> None:
        """Make all requests, so many at once; WireError if one is refused."""
        sent = answered = 0
        while answered < len(requests):
            while sent < len(requests) and sent - answered < in_flight:
                subject, body = requests[sent]
                self._connection.sendall(
                    b"PUB %b _INBOX.call.%d %d\r\n%b\r\n" % (subject.encode(), sent, len(body), body)
                )
                sent += 1
            answered += self._answers()

    def _answers(self) -> int:
        """Wait for at least one answer, and count those that came."""
        count = 0
        while not count:
            data = self._connection.recv(1 << 20)
            if not data:
                raise WireError("the server closed the connection")
            self._seen += data
            while (end := self._seen.find(b"\r\n")) >= 0:
                line = self._seen[:end]
                if line + b"\r\n" == PING:
                    self._connection.sendall(PONG)
                    self._seen = self._seen[end + 2 :]
                    continue
                size = int(line.rpartition(b" ")[2])
                if len(self._seen) < end + 4 + size:
                    break
                body = self._seen[end + 2 : end + 2 + size]
                if not line.startswith(b"MSG ") or b'"error"' in body:
                    raise WireError(f"refused: {line!r} {body[:300]!r}")
                self._seen = self._seen[end + 4 + size :]
                count += 1
        return count


def stream_config(name: str, **more: Any) -> tuple[str, bytes]:
    """A request to create a stream on disk that takes one subject."""
    config = {"name": name, "subjects": [f"many.{name}"], "storage": "file", **more}
    return f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode()


def stream_names(count: int, start: int = 0) -> list[str]:
    return [f"S{number:05d}" for number in range(start, start + count)]


def create_streams(server: ServerProcess, count: int = STREAMS, in_flight: int = 1) -> Figures:
    """Create `count` streams, one by one or some at once."""
    requests = [stream_config(name) for name in stream_names(count)]
    seconds, waits = _watched(server, lambda caller: caller.all(requests, in_flight))
    return {
        "create per second": count / seconds,
        "create: longest wait of another, ms": max(waits) * 1e3,
    }


def delete_streams(server: ServerProcess, count: int = STREAMS, in_flight: int = 1) -> Figures:
    requests = [(f"$JS.API.STREAM.DELETE.{name}", b"") for name in stream_names(count)]
    seconds, waits = _watched(server, lambda caller: caller.all(requests, in_flight))
    return {
        "delete per second": count / seconds,
        "delete: longest wait of another, ms": max(waits) * 1e3,
    }


def publish_over(server: ServerProcess, count: int = STREAMS, messages: int = MESSAGES) -> Figures:
    """Publish to `count` streams in turn, and to another one from a second client meanwhile."""
    with Caller(address_of(server)) as caller:
        caller.all([stream_config("LOOKER")])
    frames = [
        b"PUB many.%b _INBOX.ack.%d %d\r\n%b\r\n" % (name.encode(), number, len(BODY), BODY)
        for number, name in enumerate(stream_names(count))
    ]
    with _prober(address_of(server), "many.LOOKER") as waits:
        seconds = _publish(address_of(server), frames, messages)
        seen = waits()
    with Caller(address_of(server)) as caller:
        caller.all([("$JS.API.STREAM.DELETE.LOOKER", b"")])
    return {
        "publish per second": messages / seconds,
        "publish: p99 of another stream, ms": statistics.quantiles(seen, n=100)[98] * 1e3,
        "publish: longest wait of another, ms": max(seen) * 1e3,
    }


def _publish(address: Address, frames: list[bytes], messages: int) -> float:
    step = 100
    chunks = [
        b"".join(frames[(start + number) % len(frames)] for number in range(min(step, messages - start)))
        for start in range(0, messages, step)
    ]
    with dial(address, greeting=b"SUB _INBOX.ack.* 1\r\n") as connection:
        acks = AckCounter(connection)
        started = time.perf_counter()
        for number, chunk in enumerate(chunks):
            while (number + 1) * step - acks.count > WINDOW:
                acks.receive()
            connection.sendall(chunk)
        while acks.count < messages:
            acks.receive()
        return time.perf_counter() - started


def account_info(server: ServerProcess, requests: int = _INFOS) -> Figures:
    with Caller(address_of(server)) as caller:
        started = time.perf_counter()
        caller.all([("$JS.API.INFO", b"")] * requests)
        return {"account info per second": requests / (time.perf_counter() - started)}


def restart(server: ServerProcess, *, kill: bool) -> Figures:
    """Time from the start of the process to its readiness, behind a clean stop or a kill."""
    if kill:
        server.kill()
    else:
        server.stop()
    started = time.perf_counter()
    server.start()
    return {f"restart after {'kill' if kill else 'stop'}, s": time.perf_counter() - started}


def create_durables(server: ServerProcess, count: int = _DURABLES) -> Figures:
    """Create durable consumers of one stream, one by one."""
    requests = [
        (
            f"$JS.API.CONSUMER.DURABLE.CREATE.DURABLES.C{number}",
            json.dumps(
                {
                    "stream_name": "DURABLES",
                    "config": {"durable_name": f"C{number}", "ack_policy": "explicit"},
                }
            ).encode(),
        )
        for number in range(count)
    ]
    with Caller(address_of(server)) as caller:
        caller.all([stream_config("DURABLES")])
        started = time.perf_counter()
        caller.all(requests)
        seconds = time.perf_counter() - started
        caller.all([("$JS.API.STREAM.DELETE.DURABLES", b"")])
    return {f"{count} durables, ms": seconds * 1e3}


def _watched(server: ServerProcess, work: Callable[[Caller], None]) -> tuple[float, list[float]]:
    """Seconds that `work` took, and how long another client waited for each of its publishes meanwhile."""
    with Caller(address_of(server)) as caller, _prober(address_of(server), "nobody.listens") as waits:
        started = time.perf_counter()
        work(caller)
        return time.perf_counter() - started, waits()


@contextmanager
def _prober(address: Address, subject: str) -> Iterator[Callable[[], list[float]]]:
    """Run a second client that publishes and waits, again and again; yields a call that ends it."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_probe, args=(address, subject, theirs))
    process.start()
    theirs.close()
    ours.recv()
    try:

        def end() -> list[float]:
            ours.send(None)
            found: list[float] = ours.recv()
            return found

        yield end
    finally:
        process.terminate()
        process.join()


def _probe(address: Address, subject: str, control: Connection) -> None:
    frame = b"PUB %b _INBOX.probe %d\r\n%b\r\n" % (subject.encode(), len(BODY), BODY)
    waits: list[float] = []
    with dial(address, greeting=b"SUB _INBOX.probe 1\r\n") as connection:
        control.send(None)
        while not waits or not control.poll():
            started = time.perf_counter()
            connection.sendall(frame)
            _one_answer(connection)
            waits.append(time.perf_counter() - started)
            time.sleep(_PAUSE_S)
    control.send(waits)


def _one_answer(connection: socket.socket) -> None:
    """Wait for an acknowledgement, or for the word that nobody listens."""
    seen = b""
    while b"MSG " not in seen or seen.count(b"\r\n") < 2:
        data = connection.recv(4096)
        if not data:
            raise WireError("the server closed the connection")
        if PING in data:
            connection.sendall(PONG)
            data = data.replace(PING, b"")
        seen += data


def jsz(server: ServerProcess) -> Figures:
    """Read the page that lists all streams, with another client that publishes meanwhile."""

    def read(_: Caller) -> None:
        with urllib.request.urlopen(f"{server.monitor_url}/jsz?streams=1", timeout=_PATIENCE_S) as page:
            page.read()

    seconds, waits = _watched(server, read)
    return {
        "/jsz?streams=1, ms": seconds * 1e3,
        "/jsz: longest wait of another, ms": max(waits) * 1e3,
    }


def noise(server: ServerProcess) -> Figures:
    """The longest wait of a client while nothing else happens."""
    _, waits = _watched(server, lambda _: time.sleep(_NOISE_S))
    return {"nothing: longest wait, ms": max(waits) * 1e3}


Step = Callable[[ServerProcess], Figures]


def steps(streams: int, messages: int, rounds: int) -> list[Step]:
    """Return the measurements in their order, for servers that have no streams yet."""
    return [
        noise,
        lambda server: create_streams(server, streams),
        *[lambda server: publish_over(server, streams, messages)] * rounds,
        account_info,
        jsz,
        create_durables,
        *[lambda server: restart(server, kill=False), lambda server: restart(server, kill=True)] * 2,
        lambda server: delete_streams(server, streams),
    ]


def _processor_s(server: ServerProcess) -> float:
    """Return the processor time that the process used so far."""
    with open(f"/proc/{server.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(step: Step, server: ServerProcess) -> tuple[Figures, float]:
    """The figures of a step, and the processor time that the server used for it."""
    pid, before = server.pid, _processor_s(server)
    figures = step(server)
    return figures, _processor_s(server) - (before if server.pid == pid else 0.0)


Found = dict[str, list[tuple[float, float, float]]]  # ours, theirs, ratio of processor time


def is_rate(name: str) -> bool:
    return "per second" in name


def report(found: Found, first: Found) -> None:
    """Print medians of both servers, the median of the ratios of all pairs, and their spread.

    The growth is how each median changed since the `first` size (below 1: it got worse), ours / theirs.
    """
    head = f"{'':42}{'ours':>10}{'nats':>10}{'ratio':>7}  {'spread':12}{'growth':14}"
    typer.echo(f"{head}processor time: ratio")
    for name, pairs in found.items():
        ratios = [ours / theirs if is_rate(name) else theirs / ours for ours, theirs, _ in pairs]
        ours, theirs, processor = (statistics.median(each[number] for each in pairs) for number in range(3))
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        growth = ""
        if first is not found:
            before = [statistics.median(each[number] for each in first[name]) for number in range(2)]
            pairs_of_medians = zip((ours, theirs), before, strict=True)
            growth = " / ".join(
                f"{now / was if is_rate(name) else was / now:.2f}" for now, was in pairs_of_medians
            )
        line = (
            f"{name:42}{ours:10,.1f}{theirs:10,.1f}{statistics.median(ratios):7.2f}  {spread:12}{growth:14}"
        )
        typer.echo(f"{line}{processor:.2f}")


def compare(
    streams: Annotated[list[int] | None, typer.Option(min=1, help="How many streams.")] = None,
    messages: Annotated[int, typer.Option(min=1, help="How many messages over all of them.")] = MESSAGES,
    rounds: Annotated[int, typer.Option(min=1, help="How often they are published.")] = 5,
) -> None:
    """Measure both servers in turn, step by step."""
    first: Found = {}
    for count in streams or SIZES:
        typer.echo(f"{count:,} streams")
        found: Found = {}
        with (
            ServerProcess(ServerKind.MILLSTREAM, jetstream=True, monitor=True) as ours,
            ServerProcess(ServerKind.NATS_SERVER, jetstream=True, monitor=True) as theirs,
        ):
            for step in steps(count, messages, rounds):
                one, used = measure(step, ours)
                other, used_by_other = measure(step, theirs)
                for name, value in one.items():
                    processor = used_by_other / used if used else 0.0
                    found.setdefault(name, []).append((value, other[name], processor))
        first = first or found
        report(found, first)


if __name__ == "__main__":
    typer.run(compare)
