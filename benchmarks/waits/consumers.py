"""Rows about consumers: where they start, what they wait for, and what leaves with them."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.waits.site import (
    Operation,
    Prepare,
    Row,
    Site,
    answers,
    next_message,
    pull,
    receive,
    wait_for,
    wait_until,
)
from benchmarks.wire import PING, WireError, dial

_NS: Final = 1_000_000_000
_LONG: Final = 3600 * _NS


def consumer_in_the_middle(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    config = {
        "durable_name": "d",
        "ack_policy": "explicit",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": size // 2,
        "filter_subject": "s.3",
    }
    body = {"stream_name": "S", "config": config}
    return lambda: site.ask("CONSUMER.DURABLE.CREATE.S.d", body)


def consumer_of_lasts(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    config = {
        "durable_name": "d",
        "ack_policy": "explicit",
        "deliver_policy": "last_per_subject",
        "filter_subject": "s.*",
    }
    return lambda: site.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})


def interest_goes(site: Site, size: int, kept: ExitStack) -> Operation:
    """One of two consumers goes, and half of the messages with it."""
    site.stream("S", ["s.*"], retention="interest")
    site.consumer("all")
    site.consumer("one", filter_subject="s.1")
    site.fill(size, lambda number: f"s.{number % 2}")
    return lambda: site.ask("CONSUMER.DELETE.S.all")


def last_interest_goes(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"], retention="interest")
    site.consumer("all")
    site.fill(size, lambda number: f"s.{number}")
    return lambda: site.ask("CONSUMER.DELETE.S.all")


def work_queue_goes(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"], retention="workqueue")
    site.consumer("all")
    site.fill(size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("CONSUMER.DELETE.S.all")


def consumer_with_filters(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer with many filters is made."""
    site.stream("S", ["s.*"])
    site.fill(100 * size, lambda number: f"s.{number % (2 * size)}")
    filters = [f"s.{number}" for number in range(size)]
    return lambda: site.consumer("d", filter_subjects=filters)


def make_many(site: Site, size: int) -> None:
    """Create consumers on one connection."""
    with dial(site.address, greeting=b"SUB _INBOX.c 1\r\n") as connection:
        for number in range(size):
            config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
            body = json.dumps({"stream_name": "S", "config": config}).encode()
            subject = b"$JS.API.CONSUMER.DURABLE.CREATE.S.d%d" % number
            connection.sendall(b"PUB %b _INBOX.c %d\r\n%b\r\n" % (subject, len(body), body))
            if b'"error"' in next_message(connection):
                raise WireError("cannot create a consumer")


def purge_with_consumers(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream with many consumers is purged, and takes a message that displaces another."""
    site.stream("S", ["s.*"], max_msgs=100_000, max_consumers=size)
    make_many(site, size)
    site.fill(100_000, lambda number: f"s.{number % 10}")

    def operate() -> None:
        site.fill(10, lambda number: "s.1")
        site.ask("STREAM.PURGE.S", {"keep": 1000})

    return operate


def new(subjects: int, **config: Any) -> Prepare:
    """A consumer is made for a stream with messages of so many subjects."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"])
        site.fill(size, lambda number: f"s.{number % subjects}")
        return lambda: site.consumer("d", **config)

    return prepare


def by_time(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer begins at the time of a message in the middle."""
    site.stream("S", ["s.*"])
    site.fill(size // 2, lambda number: f"s.{number % 10}")
    middle = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    site.fill(size // 2, lambda number: f"s.{number % 10}")
    config = {"deliver_policy": "by_start_time", "opt_start_time": middle, "filter_subject": "s.3"}
    return lambda: site.consumer("d", **config)


# -- messages that were delivered and are not acknowledged ----------------------------------------


def time_ends(**config: Any) -> Prepare:
    """The time for acknowledgements ends for all messages at once."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        wait_s = 6 + size // 200_000
        site.stream("S", ["s.*"])
        kept.enter_context(site.take(size, ack_wait=wait_s * _NS, **config))
        until = time.monotonic() + wait_s + 3
        return lambda: wait_until(until)

    return prepare


def said(payload: bytes, *, again: bool = False, policy: str = "explicit", **config: Any) -> Prepare:
    """A client says the same about each message that it got, and may ask for all of them again."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"], **config)
        connection = kept.enter_context(site.take(size, ack_policy=policy, ack_wait=_LONG))
        lines = answers(size, payload)

        def operate() -> None:
            connection.sendall(lines)
            if again:
                pull(connection, size)
            site.ask("CONSUMER.INFO.S.d")

        return operate

    return prepare


def refusals_end(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages that were put off are due at the same time."""
    site.stream("S", ["s.*"])
    connection = kept.enter_context(site.take(size, ack_wait=_LONG))
    delay_s = 5 + size // 100_000
    until = time.monotonic() + delay_s + 3
    connection.sendall(answers(size, b'-NAK {"delay":%d}' % (delay_s * _NS)))
    site.ask("CONSUMER.INFO.S.d")
    return lambda: wait_until(until)


def ack_all(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    connection = kept.enter_context(site.take(size, ack_policy="all", ack_wait=_LONG))

    def operate() -> None:
        connection.sendall(b"PUB $JS.ACK.S.d.1.%d.%d.0.0 0\r\n\r\n" % (size, size))
        wait_for(lambda: site.ask("CONSUMER.INFO.S.d")["num_ack_pending"] == 0)

    return operate


def taken(endpoint: str, body: Any = None, **config: Any) -> Prepare:
    """Something is asked of a server with a consumer that waits for many acknowledgements."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"], **config)
        kept.enter_context(site.take(size, ack_wait=_LONG))
        return lambda: site.ask(endpoint, body)

    return prepare


def changed(**config: Any) -> Prepare:
    """A consumer that waits for many acknowledgements gets another configuration."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"])
        kept.enter_context(site.take(size, ack_wait=_LONG))
        return lambda: site.consumer("d", **{"max_ack_pending": -1, "ack_wait": _LONG, **config})

    return prepare


def recovered(site: Site, size: int, kept: ExitStack) -> Operation:
    """After a restart, each of many consumers is asked for the first time: for its state, and a message."""
    site.stream("S", ["s.*"], max_consumers=size)
    make_many(site, size)
    site.fill(100_000, lambda number: f"s.{number % 10}")
    with dial(site.address, greeting=b"SUB _INBOX.n 1\r\n") as connection:
        pull_from_each(connection, size, 50)
    site.restart()

    def operate() -> None:
        site.ask("CONSUMER.LIST.S")
        with dial(site.address, greeting=b"SUB _INBOX.n 1\r\n") as connection:
            pull_from_each(connection, size, 1)

    return operate


def pull_from_each(connection: socket.socket, size: int, batch: int) -> None:
    body = json.dumps({"batch": batch, "expires": _LONG}).encode()
    lines = [
        b"PUB $JS.API.CONSUMER.MSG.NEXT.S.d%d _INBOX.n %d\r\n%b\r\n" % (n, len(body), body)
        for n in range(size)
    ]
    connection.sendall(b"".join(lines))
    receive(connection, size * batch)


def receiver_moves(site: Site, size: int, kept: ExitStack) -> Operation:
    """A push consumer is to deliver elsewhere, everything that is not acknowledged."""
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    connection = kept.enter_context(dial(site.address, greeting=b"SUB there.1 1\r\n"))
    config: dict[str, Any] = {"max_ack_pending": -1, "ack_wait": _LONG}
    site.consumer("d", deliver_subject="there.1", **config)
    receive(connection, size)
    connection.sendall(b"UNSUB 1\r\nSUB there.2 2\r\n" + PING)  # a consumer that delivers may not move
    receive(connection, 1, b"PONG")

    def operate() -> None:
        site.consumer("d", deliver_subject="there.2", **config)
        receive(connection, size)

    return operate


def age_ends_unacknowledged(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages are too old that a consumer waits for."""
    site.stream("S", ["s.*"])
    kept.enter_context(site.take(size, ack_wait=_LONG))
    config = {"name": "S", "subjects": ["s.*"], "max_age": _NS, "duplicate_window": _NS}

    def operate() -> None:
        site.ask("STREAM.UPDATE.S", config)
        wait_for(lambda: site.ask("STREAM.INFO.S")["state"]["messages"] == 0)
        wait_for(lambda: site.ask("CONSUMER.INFO.S.d")["num_ack_pending"] == 0)

    return operate


# -- requests that wait for messages --------------------------------------------------------------


def _waiting(site: Site, size: int, kept: ExitStack, expires_s: int) -> Any:
    site.stream("S", ["s.*"])
    site.consumer("d", max_waiting=size)
    body = json.dumps({"batch": 1, "expires": expires_s * _NS}).encode()
    line = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.n.%d %d\r\n%b\r\n"
    connection = kept.enter_context(dial(site.address, greeting=b"SUB _INBOX.n.* 1\r\n"))
    connection.sendall(b"".join(line % (number, len(body), body) for number in range(size)))
    site.ask("CONSUMER.INFO.S.d")
    return connection


def requests_expire(site: Site, size: int, kept: ExitStack) -> Operation:
    expires_s = 5 + size // 50_000
    until = time.monotonic() + expires_s + 2
    connection = _waiting(site, size, kept, expires_s)

    def operate() -> None:
        receive(connection, size, b" 408 ")
        wait_until(until)

    return operate


def requester_leaves(site: Site, size: int, kept: ExitStack) -> Operation:
    connection = _waiting(site, size, kept, 3600)

    def operate() -> None:
        connection.close()
        time.sleep(1)
        site.fill(10, lambda number: "s.1")
        site.ask("CONSUMER.INFO.S.d")

    return operate


def requests_served(site: Site, size: int, kept: ExitStack) -> Operation:
    connection = _waiting(site, size, kept, 3600)

    def operate() -> None:
        site.fill(size, lambda number: "s.1")
        receive(connection, min(size, 1000))

    return operate


def stream_with_consumers(endpoint: str) -> Prepare:
    """A stream with many consumers goes, or they are asked about."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"], max_consumers=size)
        make_many(site, size)
        site.fill(100_000, lambda number: f"s.{number % 10}")
        return lambda: site.ask(endpoint)

    return prepare


def filters_change(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer of a stream that keeps what is of interest wants less than before."""
    site.stream("S", ["s.*"], retention="interest")
    site.consumer("d", filter_subject="s.*")
    site.fill(size, lambda number: f"s.{number % 2}")
    return lambda: site.consumer("d", filter_subject="s.1")


_OTHER_LIMIT: Final = {"name": "S", "subjects": ["s.*"], "max_msgs": 10}

ROWS: Final[dict[str, Row]] = {
    "consumer-middle": Row(consumer_in_the_middle, 1_000_000),
    "consumer-lasts": Row(consumer_of_lasts, 1_000_000),
    "consumer-filters": Row(consumer_with_filters, 1_000),
    "consumer-time": Row(by_time, 1_000_000),
    "consumer-no-match": Row(new(1_000_000, filter_subject="s.none"), 1_000_000),
    "consumer-no-match-lasts": Row(
        new(1_000_000, filter_subject="s.*.none", deliver_policy="last_per_subject"), 1_000_000
    ),
    "consumer-new": Row(new(1_000_000, deliver_policy="new"), 1_000_000),
    "consumer-last": Row(new(1_000_000, deliver_policy="last", filter_subject="s.*"), 1_000_000),
    "purge-with-consumers": Row(purge_with_consumers, 5_000),
    "delete-with-consumers": Row(stream_with_consumers("STREAM.DELETE.S"), 5_000),
    "interest-goes": Row(interest_goes, 1_000_000),
    "last-interest-goes": Row(last_interest_goes, 1_000_000),
    "work-queue-goes": Row(work_queue_goes, 1_000_000),
    "filters-change": Row(filters_change, 1_000_000),
    "ack-wait-ends": Row(time_ends(), 300_000),
    "max-deliver": Row(time_ends(max_deliver=1), 300_000),
    "naks": Row(said(b"-NAK", again=True), 300_000),
    "naks-delayed": Row(refusals_end, 300_000),
    "terms": Row(said(b"+TERM"), 300_000),
    "in-progress": Row(said(b"+WPI"), 300_000),
    "acks": Row(said(b"+ACK"), 300_000),
    "acks-of-work": Row(said(b"+ACK", retention="workqueue"), 300_000),
    "ack-all": Row(ack_all, 300_000),
    "consumers-recovered": Row(recovered, 1_000),
    "receiver-moves": Row(receiver_moves, 300_000),
    "ack-wait-changes": Row(changed(ack_wait=2 * _LONG), 1_000_000),
    "backoff-changes": Row(changed(backoff=[_LONG, 2 * _LONG]), 1_000_000),
    "consumer-goes-pending": Row(taken("CONSUMER.DELETE.S.d"), 1_000_000),
    "consumer-of-interest-goes-pending": Row(taken("CONSUMER.DELETE.S.d", retention="interest"), 1_000_000),
    "consumer-reset": Row(taken("CONSUMER.RESET.S.d"), 1_000_000, both=False),
    "purge-pending": Row(taken("STREAM.PURGE.S"), 1_000_000),
    "purge-subject-pending": Row(taken("STREAM.PURGE.S", {"filter": "s.1"}), 1_000_000),
    "lower-limit-pending": Row(taken("STREAM.UPDATE.S", _OTHER_LIMIT), 300_000),
    "age-ends-pending": Row(age_ends_unacknowledged, 300_000),
    "delete-stream-pending": Row(taken("STREAM.DELETE.S"), 1_000_000),
    "requests-expire": Row(requests_expire, 50_000),
    "requester-leaves": Row(requester_leaves, 50_000),
    "requests-served": Row(requests_served, 50_000),
}
