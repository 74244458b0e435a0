"""How long another client waits while an operation that grows with size is under way.

Each row prepares a server (streams, messages, subscriptions, connections) and runs one operation, while a
client in a process of its own sends PING after PING.  The longest round trip of that client is the figure,
beside the time that the operation took.  The longest round trip while nothing happens is measured right
before: it is the noise of the machine.

    python -m benchmarks.scale_waits                      # every row on both servers, one after the other
    python -m benchmarks.scale_waits --only jsz --scale 0.1
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import selectors
import socket
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

from benchmarks.wire import PING, Address, WireError, dial, flush, prepare
from millstream.testing.reference import ServerKind, ServerProcess

_MS: Final = 1000.0
_GAP_S: Final = 0.0005  # between a PONG and the next PING
_QUIET_S: Final = 1.0  # for which nothing happens
_BATCH: Final = 5_000  # messages between two acknowledgements
_BODY: Final = b"x" * 128
_ANSWER_S: Final = 120


@dataclass(frozen=True, slots=True)
class Waits:
    """Figures of one row on one server, in milliseconds."""

    longest: float  # wait of the other client while the operation was under way
    noise: float  # the same while nothing happened
    took: float  # the operation
    step: str = ""  # the slowest step of our event loop in that time, as it says itself


@dataclass(frozen=True, slots=True)
class Site:
    """A running server."""

    address: Address
    monitor_url: str

    def ask(self, endpoint: str, body: Any = None) -> dict[str, Any]:
        """The answer of the JetStream API; WireError if it is a refusal."""
        data = json.dumps(body).encode() if body is not None else b""
        with dial(self.address, greeting=b"SUB _INBOX.w 1\r\n") as connection:
            subject = f"$JS.API.{endpoint}".encode()
            connection.sendall(b"PUB %b _INBOX.w %d\r\n%b\r\n" % (subject, len(data), data))
            answer: dict[str, Any] = json.loads(_message(connection))
        if "error" in answer:
            raise WireError(f"{endpoint}: {answer['error']}")
        return answer

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.monitor_url + path, timeout=_ANSWER_S) as response:
            body: bytes = response.read()
        return body


# Prepares a server for a row of so many things and returns the operation, which is to be called once.
Row = Callable[[Site, int, contextlib.ExitStack], Callable[[], object]]


# -- the other client -----------------------------------------------------------------------------


def _ping(address: Address, control: Connection) -> None:
    """Send PINGs until told to stop; report the longest round trip, in seconds."""
    with dial(address) as connection:
        control.send("ready")
        longest = 0.0
        while not control.poll():
            sent = time.perf_counter()
            flush(connection)
            longest = max(longest, time.perf_counter() - sent)
            time.sleep(_GAP_S)
        control.send(longest)


@contextlib.contextmanager
def _pinging(address: Address) -> Iterator[list[float]]:
    """A list that has the longest round trip, in milliseconds, when the block has ended."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ping, args=(address, theirs), daemon=True)
    process.start()
    found: list[float] = []
    try:
        if not ours.poll(_ANSWER_S):
            raise WireError("the client that waits did not start")
        ours.recv()
        yield found
        ours.send("stop")
        if not ours.poll(_ANSWER_S):
            raise WireError("the client that waits got no answer")
        found.append(ours.recv() * _MS)
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def measure(site: Site, row: Row, size: int) -> Waits:
    """Prepare, wait, run: the figures of one row."""
    with contextlib.ExitStack() as kept:
        operation = row(site, size, kept)
        with _pinging(site.address) as noise:
            time.sleep(_QUIET_S)
        with _pinging(site.address) as longest:
            began = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            started = time.perf_counter()
            operation()
            took = time.perf_counter() - started
            time.sleep(0.2)  # what follows from it counts, too
        step = _slowest_step(site, began)
    return Waits(longest[0], noise[0], took * _MS, step)


def _slowest_step(site: Site, began: str) -> str:
    """The slowest step from a time on, from `/varz`; nats-server has no such thing."""
    steps = json.loads(site.get("/varz")).get("event_loop", {}).get("slowest", [])
    slowest = [each for each in steps if each["at"] >= began]
    return f"{slowest[0]['step']}, {slowest[0]['longest'] / 1e6:.1f} ms" if slowest else ""


# -- preparing ------------------------------------------------------------------------------------


def _message(connection: socket.socket) -> bytes:
    """The payload of the next message."""
    seen = b""
    while b"\r\n" not in seen or seen == PING:
        seen = _more(connection, seen).removeprefix(PING)
    line, _, rest = seen.partition(b"\r\n")
    words = line.split(b" ")
    if words[0] != b"MSG":
        raise WireError(f"expected a message, got {line!r}")
    size = int(words[-1])
    parts, got = [rest], len(rest)
    while got < size:
        parts.append(_more(connection, b""))
        got += len(parts[-1])
    return b"".join(parts)[:size]


def _more(connection: socket.socket, seen: bytes) -> bytes:
    data = connection.recv(1 << 20)
    if not data:
        raise WireError("the server closed the connection")
    return seen + data


def _fill(site: Site, count: int, subject: Callable[[int], str]) -> None:
    """Publish so many messages and return when the last one is acknowledged."""
    with dial(site.address, greeting=b"SUB _INBOX.f 1\r\n") as connection:
        for start in range(0, count, _BATCH):
            end = min(start + _BATCH, count)
            frames = [
                b"PUB %b %d\r\n%b\r\n" % (subject(number).encode(), len(_BODY), _BODY)
                for number in range(start, end - 1)
            ]
            last = b"PUB %b _INBOX.f %d\r\n%b\r\n" % (subject(end - 1).encode(), len(_BODY), _BODY)
            connection.sendall(b"".join((*frames, last)))
            answer = _message(connection)
            if b'"error"' in answer:
                raise WireError(f"cannot publish: {answer!r}")


def _stream(site: Site, name: str, subjects: list[str], storage: str = "file", **more: Any) -> None:
    site.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": storage, **more})


def _many_streams(site: Site, size: int) -> None:
    for number in range(size):
        _stream(site, f"many{number}", [f"many.{number}"], "memory")
        if number % 10 == 0:
            config = {"durable_name": "d", "ack_policy": "explicit"}
            body = {"stream_name": f"many{number}", "config": config}
            site.ask(f"CONSUMER.DURABLE.CREATE.many{number}.d", body)


def _subscribe(site: Site, size: int) -> socket.socket:
    lines = b"".join(b"SUB waits.%d.x %d\r\n" % (number, number) for number in range(1, size + 1))
    return dial(site.address, greeting=lines)


def _connect(site: Site, size: int) -> list[socket.socket]:
    """Connections that have said who they are; each is there when this returns."""
    hello = b'CONNECT {"verbose":false,"protocol":1}\r\nSUB conn 1\r\n' + PING
    found = []
    for _ in range(size):
        connection = prepare(socket.create_connection((site.address.host, site.address.port)))
        connection.sendall(hello)
        found.append(connection)
    for connection in found:
        seen = b""
        while b"PONG" not in seen:
            seen = _more(connection, seen)
    return found


# -- rows: monitoring -----------------------------------------------------------------------------


def jsz(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _many_streams(site, size)
    return lambda: site.get("/jsz?streams=1&consumers=1&config=1")


def varz(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    for connection in _connect(site, size):
        kept.enter_context(connection)
    return lambda: site.get("/varz")


def connz(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    for connection in _connect(site, size):
        kept.enter_context(connection)
    return lambda: site.get(f"/connz?subs=1&limit={size}")


def connz_four_at_once(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    for connection in _connect(site, size):
        kept.enter_context(connection)
    return lambda: _at_once(site, [f"/connz?subs=1&limit={size}"] * 4)


def subsz(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    kept.enter_context(_subscribe(site, size))
    return lambda: site.get(f"/subsz?subs=1&limit={size}")


def _at_once(site: Site, paths: list[str]) -> None:
    """Ask for several documents on connections of their own."""
    host, _, port = site.monitor_url.removeprefix("http://").partition(":")
    with contextlib.ExitStack() as kept, selectors.DefaultSelector() as waiting:
        for path in paths:
            connection = kept.enter_context(socket.create_connection((host, int(port)), timeout=_ANSWER_S))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            waiting.register(connection, selectors.EVENT_READ, connection)
        while waiting.get_map():
            for key, _ in waiting.select(_ANSWER_S):
                if not key.data.recv(1 << 20):
                    waiting.unregister(key.data)


# -- rows: the API --------------------------------------------------------------------------------


def stream_names(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _many_streams(site, size)
    return lambda: [site.ask("STREAM.NAMES", {"offset": at}) for at in range(0, size, 1024)]


def stream_list(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _many_streams(site, size)
    return lambda: [site.ask("STREAM.LIST", {"offset": at}) for at in range(0, size, 256)]


def account_info(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _many_streams(site, size)
    return lambda: site.ask("INFO")


def _with_consumers(site: Site, size: int) -> None:
    _stream(site, "C", ["c.>"], "memory")
    for number in range(size):
        config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
        site.ask(f"CONSUMER.DURABLE.CREATE.C.d{number}", {"stream_name": "C", "config": config})


def consumer_names(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _with_consumers(site, size)
    return lambda: [site.ask("CONSUMER.NAMES.C", {"offset": at}) for at in range(0, size, 1024)]


def consumer_list(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _with_consumers(site, size)
    return lambda: [site.ask("CONSUMER.LIST.C", {"offset": at}) for at in range(0, size, 256)]


def info_with_subjects(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number * 7919 % size}")
    return lambda: site.ask("STREAM.INFO.S", {"subjects_filter": ">"})


def info_with_deleted(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 2}")
    site.ask("STREAM.PURGE.S", {"filter": "s.1"})
    return lambda: site.ask("STREAM.INFO.S", {"deleted_details": True})


def purge_all(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 10}")
    config = {"durable_name": "d", "ack_policy": "explicit"}
    site.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})
    return lambda: site.ask("STREAM.PURGE.S")


def purge_half(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("STREAM.PURGE.S", {"keep": size // 2})


def purge_subject(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("STREAM.PURGE.S", {"filter": "s.3"})


def lower_limit(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 10}")
    config = {"name": "S", "subjects": ["s.*"], "max_msgs": 1000}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def delete_stream(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number}")
    return lambda: site.ask("STREAM.DELETE.S")


def consumer_in_the_middle(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 10}")
    config = {
        "durable_name": "d",
        "ack_policy": "explicit",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": size // 2,
        "filter_subject": "s.3",
    }
    body = {"stream_name": "S", "config": config}
    return lambda: site.ask("CONSUMER.DURABLE.CREATE.S.d", body)


def _fill_subjects(site: Site, size: int, **config: Any) -> None:
    """A stream with a message for each of so many subjects."""
    _stream(site, "S", ["s.*"], **config)
    _fill(site, size, lambda number: f"s.{number}")


def purge_all_subjects(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _fill_subjects(site, size)
    return lambda: site.ask("STREAM.PURGE.S")


def purge_half_of_subjects(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _fill_subjects(site, size)
    return lambda: site.ask("STREAM.PURGE.S", {"keep": size // 2})


def purge_wildcard(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _fill_subjects(site, size)
    return lambda: site.ask("STREAM.PURGE.S", {"filter": "s.*", "keep": 1000})


def lower_limit_of_subjects(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % (size // 8 + 1)}")
    config = {"name": "S", "subjects": ["s.*"], "max_msgs_per_subject": 1}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def lower_bytes(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _fill(site, size, lambda number: f"s.{number % 10}")
    config = {"name": "S", "subjects": ["s.*"], "max_bytes": 100_000}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def rollup(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"], allow_rollup_hdrs=True)
    _fill(site, size, lambda number: f"s.{number % 10}")
    return lambda: _publish(site, "s.1", "Nats-Rollup: all")


def _publish(site: Site, subject: str, header: str) -> None:
    """Publish one message with a header and wait for its answer."""
    block = f"NATS/1.0\r\n{header}\r\n\r\n".encode()
    with dial(site.address, greeting=b"SUB _INBOX.p 1\r\n") as connection:
        connection.sendall(
            b"HPUB %b _INBOX.p %d %d\r\n%bx\r\n" % (subject.encode(), len(block), len(block) + 1, block)
        )
        answer = _message(connection)
    if b'"error"' in answer:
        raise WireError(f"cannot publish: {answer!r}")


def consumer_of_lasts(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _fill_subjects(site, size)
    config = {
        "durable_name": "d",
        "ack_policy": "explicit",
        "deliver_policy": "last_per_subject",
        "filter_subject": "s.*",
    }
    return lambda: site.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})


def _consumer(site: Site, name: str, **config: Any) -> None:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    site.ask(f"CONSUMER.DURABLE.CREATE.S.{name}", body)


def interest_goes(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    """One of two consumers goes, and half of the messages with it."""
    _stream(site, "S", ["s.*"], retention="interest")
    _consumer(site, "all")
    _consumer(site, "one", filter_subject="s.1")
    _fill(site, size, lambda number: f"s.{number % 2}")
    return lambda: site.ask("CONSUMER.DELETE.S.all")


def last_interest_goes(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"], retention="interest")
    _consumer(site, "all")
    _fill(site, size, lambda number: f"s.{number}")
    return lambda: site.ask("CONSUMER.DELETE.S.all")


def work_queue_goes(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"], retention="workqueue")
    _consumer(site, "all")
    _fill(site, size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("CONSUMER.DELETE.S.all")


def retention_changes(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    _stream(site, "S", ["s.*"])
    _consumer(site, "one", filter_subject="s.1")
    _fill(site, size, lambda number: f"s.{number % 2}")
    config = {"name": "S", "subjects": ["s.*"], "retention": "interest"}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def subjects_change(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    """A stream that has many subjects in its configuration gets others."""
    _stream(site, "S", [f"s.{number}" for number in range(size)])
    config = {"name": "S", "subjects": [f"t.{number}" for number in range(size)]}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def consumer_with_filters(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    """A consumer with many filters is made."""
    _stream(site, "S", ["s.*"])
    _fill(site, 100 * size, lambda number: f"s.{number % (2 * size)}")
    filters = [f"s.{number}" for number in range(size)]
    return lambda: _consumer(site, "d", filter_subjects=filters)


def purge_with_consumers(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    """A stream with many consumers is purged, and takes a message that displaces another."""
    _stream(site, "S", ["s.*"], max_msgs=100_000)
    with dial(site.address, greeting=b"SUB _INBOX.c 1\r\n") as connection:
        for number in range(size):
            config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
            body = json.dumps({"stream_name": "S", "config": config}).encode()
            subject = b"$JS.API.CONSUMER.DURABLE.CREATE.S.d%d" % number
            connection.sendall(b"PUB %b _INBOX.c %d\r\n%b\r\n" % (subject, len(body), body))
            if b'"error"' in _message(connection):
                raise WireError("cannot create a consumer")
    _fill(site, 100_000, lambda number: f"s.{number % 10}")

    def operate() -> None:
        _fill(site, 10, lambda number: "s.1")
        site.ask("STREAM.PURGE.S", {"keep": 1000})

    return operate


def expiry(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    """Messages expire by age under a steady flow."""
    _stream(site, "S", ["s.*"], max_age=1_000_000_000, duplicate_window=1_000_000_000)
    return lambda: _fill(site, size, lambda number: f"s.{number % 10}")


def object_goes(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    """An object of so many chunks of 128 KiB is deleted."""
    _stream(site, "S", ["s.*"])
    body = b"x" * 131_072
    with dial(site.address, greeting=b"SUB _INBOX.o 1\r\n") as connection:
        for _ in range(size):
            connection.sendall(b"PUB s.1 _INBOX.o %d\r\n%b\r\n" % (len(body), body))
            _message(connection)
    return lambda: site.ask("STREAM.PURGE.S", {"filter": "s.1"})


# -- rows: clients --------------------------------------------------------------------------------


def subscriber_leaves(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    leaver = _subscribe(site, size)
    kept.callback(leaver.close)
    return leaver.close


def connections_close(site: Site, size: int, kept: contextlib.ExitStack) -> Callable[[], object]:
    leavers = _connect(site, size)

    def close() -> None:
        for each in leavers:
            each.close()

    kept.callback(close)
    return close


# The rows with the size at scale 1.
ROWS: Final[dict[str, tuple[Row, int]]] = {
    "jsz": (jsz, 2_000),
    "varz": (varz, 5_000),
    "connz": (connz, 5_000),
    "connz-four-at-once": (connz_four_at_once, 5_000),
    "subsz": (subsz, 250_000),
    "stream-names": (stream_names, 2_000),
    "stream-list": (stream_list, 2_000),
    "account-info": (account_info, 2_000),
    "consumer-names": (consumer_names, 1_000),
    "consumer-list": (consumer_list, 1_000),
    "info-subjects": (info_with_subjects, 1_000_000),
    "info-deleted": (info_with_deleted, 1_000_000),
    "purge-all": (purge_all, 1_000_000),
    "purge-half": (purge_half, 1_000_000),
    "purge-subject": (purge_subject, 1_000_000),
    "lower-limit": (lower_limit, 1_000_000),
    "delete-stream": (delete_stream, 1_000_000),
    "consumer-middle": (consumer_in_the_middle, 1_000_000),
    "purge-all-subjects": (purge_all_subjects, 1_000_000),
    "purge-half-subjects": (purge_half_of_subjects, 1_000_000),
    "purge-wildcard": (purge_wildcard, 1_000_000),
    "purge-with-consumers": (purge_with_consumers, 5_000),
    "lower-limit-of-subjects": (lower_limit_of_subjects, 1_000_000),
    "lower-bytes": (lower_bytes, 1_000_000),
    "rollup": (rollup, 1_000_000),
    "consumer-lasts": (consumer_of_lasts, 1_000_000),
    "consumer-filters": (consumer_with_filters, 5_000),
    "interest-goes": (interest_goes, 1_000_000),
    "last-interest-goes": (last_interest_goes, 1_000_000),
    "work-queue-goes": (work_queue_goes, 1_000_000),
    "retention-changes": (retention_changes, 1_000_000),
    "subjects-change": (subjects_change, 5_000),
    "expiry": (expiry, 1_000_000),
    "object-goes": (object_goes, 1_000),
    "subscriber-leaves": (subscriber_leaves, 250_000),
    "connections-close": (connections_close, 5_000),
}


def on_fresh_server(kind: ServerKind, name: str, scale: float) -> Waits:
    """One row on a server that was started for it."""
    row, size = ROWS[name]
    with ServerProcess(kind, jetstream=True, monitor=True) as server:
        site = Site(Address(server.host, server.port), server.monitor_url)
        return measure(site, row, max(int(size * scale), 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    print("| row | size | ours: longest wait (noise), took | nats-server: the same | ratio | slowest step |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in options.only:
        kinds = [ServerKind.MILLSTREAM, ServerKind.NATS_SERVER]
        found: dict[ServerKind, list[Waits]] = {kind: [] for kind in kinds}
        for _ in range(options.rounds):
            for kind in kinds:
                found[kind].append(on_fresh_server(kind, name, options.scale))
            kinds.reverse()
        ours, theirs = (_median(found[kind]) for kind in (ServerKind.MILLSTREAM, ServerKind.NATS_SERVER))
        size = max(int(ROWS[name][1] * options.scale), 1)
        ratio = theirs.longest / ours.longest
        row = (name, f"{size:,}", _shown(ours), _shown(theirs), f"{ratio:.2f}", ours.step)
        print(f"| {' | '.join(row)} |", flush=True)


def _median(waits: list[Waits]) -> Waits:
    longest, noise, took = (
        statistics.median(getattr(each, field) for each in waits) for field in ("longest", "noise", "took")
    )
    return Waits(longest, noise, took, waits[-1].step)


def _shown(waits: Waits) -> str:
    return f"{waits.longest:.1f} ms ({waits.noise:.1f}), {waits.took:.0f} ms"


if __name__ == "__main__":
    main()
