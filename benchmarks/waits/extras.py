"""Rows about what only our server has, and about rarer fields of streams and consumers."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.waits.site import (
    BATCH,
    Operation,
    Prepare,
    Row,
    Site,
    answers,
    frame,
    next_message,
    pull,
    receive,
    wait_for,
    wait_until,
)
from benchmarks.wire import PING, WireError, dial

_NS: Final = 1_000_000_000
_LONG: Final = 3600 * _NS


def letters(site: Site, size: int, kept: ExitStack) -> Operation:
    """A client terminates all messages, which become dead letters."""
    site.stream("S", ["s.*"])
    site.stream("DLQ", ["dead.>"])
    connection = kept.enter_context(
        site.take(size, ack_wait=_LONG, metadata={"millstream.dead_letter": "dead.{stream}.{consumer}"})
    )
    lines = answers(size, b"+TERM bad")

    def operate() -> None:
        connection.sendall(lines)
        wait_for(lambda: site.ask("STREAM.INFO.DLQ")["state"]["messages"] == size)

    return operate


def letters_of_attempts(site: Site, size: int, kept: ExitStack) -> Operation:
    """The last attempt of all messages ends at once."""
    site.stream("S", ["s.*"])
    site.stream("DLQ", ["dead.>"])
    wait_s = 6 + size // 200_000
    config = {"max_deliver": 1, "metadata": {"millstream.dead_letter": "dead.{stream}.{consumer}"}}
    kept.enter_context(site.take(size, ack_wait=wait_s * _NS, **config))
    return lambda: wait_for(lambda: site.ask("STREAM.INFO.DLQ")["state"]["messages"] == size)


def by_key(request: str) -> Prepare:
    """A consumer with an order by key, which many keys have used, is asked for something."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"])
        metadata = {"millstream.max_ack_pending_per_subject": "1"}
        site.consumer("d", max_ack_pending=size, ack_wait=_LONG, metadata=metadata)
        site.fill(size, lambda number: f"s.{number}")
        site.fill(size, lambda number: f"s.{number}")
        connection = kept.enter_context(dial(site.address, greeting=b"SUB _INBOX.n 1\r\n"))

        def work() -> None:
            pull(connection, size)
            connection.sendall(answers(size, b"+ACK") + PING)
            receive(connection, 1, b"PONG")

        if request == "work":
            return work
        work()
        return lambda: site.ask(request)

    return prepare


def keys_parked(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer with an order by key passes many messages of a few keys that have enough."""
    site.stream("S", ["s.*"])
    site.consumer("d", max_ack_pending=1000, metadata={"millstream.max_ack_pending_per_subject": "1"})
    site.fill(size, lambda number: f"s.{number % 3}")
    site.fill(1, lambda number: "s.other")
    connection = kept.enter_context(dial(site.address, greeting=b"SUB _INBOX.n 1\r\n"))
    return lambda: pull(connection, 4)


def counters(site: Site, size: int, kept: ExitStack) -> Operation:
    """Counters of many subjects are incremented."""
    site.stream("S", ["s.*"], allow_msg_counter=True, allow_direct=True)
    block = b"NATS/1.0\r\nNats-Incr: 7\r\n\r\n"
    line = b"HPUB s.%%d _INBOX.f %d %d\r\n%b\r\n" % (len(block), len(block), block)

    def operate() -> None:
        with dial(site.address, greeting=b"SUB _INBOX.f 1\r\n") as connection:
            for start in range(0, size, BATCH):
                numbers = range(start, min(start + BATCH, size))
                connection.sendall(b"".join(line % (number % 1000) for number in numbers))
                receive(connection, len(numbers), b'"seq":')

    return operate


def ids_end(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages with ids and a window of a day: files of ids are written and merged."""
    site.stream("S", ["s"], duplicate_window=86_400 * _NS)
    return lambda: site.fill(size, lambda number: "s", lambda number: f"Nats-Msg-Id: {number:040d}")


def ids_purged(site: Site, size: int, kept: ExitStack) -> Operation:
    ids_end(site, size, kept)()
    return lambda: site.ask("STREAM.PURGE.S")


def ids_restart(site: Site, size: int, kept: ExitStack) -> Operation:
    """After a restart, an id of the window is looked for."""
    ids_end(site, size, kept)()
    site.restart()
    return lambda: site.fill(10, lambda number: "s", lambda number: f"Nats-Msg-Id: {number:040d}")


def after_restart(request: str, body: Any = None, **config: Any) -> Prepare:
    """A stream with a message for each of many subjects is used for the first time after a kill."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.subjects(size, **config)
        site.restart()
        return lambda: site.ask(request, body)

    return prepare


def paused(site: Site, size: int, kept: ExitStack) -> Operation:
    """A push consumer is paused, and goes on."""
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    kept.enter_context(dial(site.address, greeting=b"SUB there 1\r\n"))
    site.consumer("d", deliver_subject="there", max_ack_pending=-1)

    def operate() -> None:
        site.ask("CONSUMER.PAUSE.S.d", {"pause_until": "2040-01-01T00:00:00Z"})
        site.ask("CONSUMER.PAUSE.S.d", {})

    return operate


def unpinned(site: Site, size: int, kept: ExitStack) -> Operation:
    """The pinned client of a consumer with many waiting requests is let go."""
    site.stream("S", ["s.*"])
    config: dict[str, Any] = {
        "priority_policy": "pinned_client",
        "priority_groups": ["g"],
        "priority_timeout": _LONG,
    }
    site.consumer("d", max_waiting=size, **config)
    connection = kept.enter_context(dial(site.address, greeting=b"SUB _INBOX.n.* 1\r\n"))
    body = json.dumps({"batch": 1, "expires": _LONG, "group": "g"}).encode()
    line = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.n.%d %d\r\n%b\r\n"
    connection.sendall(b"".join(line % (number, len(body), body) for number in range(size)))
    site.fill(1, lambda _: "s.1")
    receive(connection, 1)

    def operate() -> None:
        site.ask("CONSUMER.UNPIN.S.d", {"group": "g"})
        site.fill(10, lambda _: "s.1")
        receive(connection, 1)

    return operate


def get_last_before(site: Site, size: int, kept: ExitStack) -> Operation:
    """Single messages are looked for that few or none match."""
    site.subjects(size)
    bodies: list[Any] = [
        {"seq": 1, "next_by_subj": "s.*.none"},
        {"seq": 1, "next_by_subj": f"s.{size - 1}"},
        {"seq": size // 2, "next_by_subj": "*.1"},
        {"last_by_subj": "*.1"},
        {"last_by_subj": "s.*"},
        {"last_by_subj": "s.>.none"},
    ]

    def operate() -> None:
        for body in bodies:
            site.request("$JS.API.STREAM.MSG.GET.S", body)

    return operate


def names_by_subject(site: Site, size: int, kept: ExitStack) -> Operation:
    """Many streams are asked for those with a subject."""
    with dial(site.address, greeting=b"SUB _INBOX.c 1\r\n") as connection:
        for number in range(size):
            body = b'{"name":"S%d","subjects":["s.%d.*"],"storage":"memory"}' % (number, number)
            line = b"PUB $JS.API.STREAM.CREATE.S%d _INBOX.c %d\r\n%b\r\n" % (number, len(body), body)
            connection.sendall(line)
            if b'"error"' in next_message(connection):
                raise WireError("cannot create a stream")

    def operate() -> None:
        for pattern in (">", "s.*.x", f"s.{size - 1}.x", "none"):
            site.ask("STREAM.NAMES", {"subject": pattern})
            site.ask("STREAM.LIST", {"subject": pattern})

    return operate


def streams_at_start(site: Site, size: int, kept: ExitStack) -> Operation:
    """Streams in files with a durable consumer each, all asked for the first time after a kill."""
    for number in range(size):
        site.stream(f"S{number}", [f"s.{number}"])
        site.consumer("d", f"S{number}")
    site.fill(size * 20, lambda number: f"s.{number % size}")
    site.restart()

    def operate() -> None:
        site.get("/jsz?streams=1&consumers=1")
        for offset in range(0, size, 256):
            site.ask("STREAM.LIST", {"offset": offset})
        site.fill(size, lambda number: f"s.{number}")

    return operate


def streams_written(site: Site, size: int, kept: ExitStack) -> Operation:
    """Each of many streams in files takes a message at once."""
    for number in range(size):
        site.stream(f"S{number}", [f"s.{number}"])
    return lambda: site.fill(size * 10, lambda number: f"s.{number % size}")


def transforms(site: Site, size: int, kept: ExitStack) -> Operation:
    """A mirror with many transforms is made, and catches up."""
    site.stream("S", ["s.*"])
    site.fill(100_000, lambda number: f"s.{number % size}")

    def operate() -> None:
        many = [{"src": f"s.{number}", "dest": f"t.{number}.x"} for number in range(size)]
        site.ask("STREAM.CREATE.N", {"name": "N", "mirror": {"name": "S", "subject_transforms": many}})
        wait_for(lambda: site.ask("STREAM.INFO.N")["state"]["messages"] == 100_000)

    return operate


def large_messages(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages of 8 MiB are stored, and read."""
    site.stream("S", ["s"], allow_direct=True)
    body = b"x" * (8 << 20)

    def operate() -> None:
        with dial(site.address, greeting=b"SUB _INBOX.o 1\r\n") as connection:
            for number in range(1, size + 1):
                connection.sendall(b"PUB s _INBOX.o %d\r\n%b\r\n" % (len(body), body))
                next_message(connection)
                site.request("$JS.API.DIRECT.GET.S", {"seq": number})

    return operate


def insight(site: Site, size: int, kept: ExitStack) -> Operation:
    """The dashboard asks about a consumer that waits for many acknowledgements."""
    site.stream("S", ["s.*"])
    kept.enter_context(site.take(size, ack_wait=_LONG))

    def operate() -> None:
        site.request("$MILLSTREAM.INSIGHT.SERVER")
        site.request("$MILLSTREAM.INSIGHT.CONSUMER.S.d")

    return operate


def batch_is_given_up(site: Site, size: int, kept: ExitStack) -> Operation:
    """An atomic batch is given up: its client goes before the commit."""
    site.stream("S", ["s.*"], allow_atomic=True)
    head = "Nats-Batch-Id: b\r\nNats-Batch-Sequence: {0}"
    connection = kept.enter_context(dial(site.address))
    connection.sendall(b"".join(frame(f"s.{n}", head.format(n)) for n in range(1, size + 1)) + PING)
    receive(connection, 1, b"PONG")
    until = time.monotonic() + 11

    def operate() -> None:
        connection.close()
        wait_until(until)

    return operate


ROWS: Final[dict[str, Row]] = {
    "letters": Row(letters, 100_000, both=False),
    "letters-of-attempts": Row(letters_of_attempts, 100_000, both=False),
    "keys-work": Row(by_key("work"), 300_000, both=False),
    "keys-consumer-goes": Row(by_key("CONSUMER.DELETE.S.d"), 300_000, both=False),
    "keys-purge": Row(by_key("STREAM.PURGE.S"), 300_000, both=False),
    "keys-parked": Row(keys_parked, 1_000_000, both=False),
    "counters": Row(counters, 300_000),
    "ids": Row(ids_end, 3_000_000),
    "ids-purge": Row(ids_purged, 1_000_000),
    "ids-restart": Row(ids_restart, 1_000_000),
    "restart-info": Row(after_restart("STREAM.INFO.S", {"subjects_filter": "s.1*"}), 1_000_000),
    "restart-get": Row(after_restart("STREAM.MSG.GET.S", {"last_by_subj": "s.77"}), 1_000_000),
    "restart-purge": Row(after_restart("STREAM.PURGE.S", {"filter": "s.77"}), 1_000_000),
    "restart-streams": Row(streams_at_start, 1_000),
    "streams-written": Row(streams_written, 2_000),
    "pause": Row(paused, 300_000),
    "unpin": Row(unpinned, 50_000),
    "get-no-match": Row(get_last_before, 1_000_000),
    "names-by-subject": Row(names_by_subject, 5_000),
    "transforms": Row(transforms, 1_000),
    "large-messages": Row(large_messages, 20, "max_payload: 16MB\n"),
    "insight": Row(insight, 300_000, both=False),
    "batch-given-up": Row(batch_is_given_up, 1_000),
}
