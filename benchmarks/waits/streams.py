"""Rows that change what a stream has: purges, limits, expiry, deletes, snapshots, mirrors."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.waits.site import (
    Operation,
    Prepare,
    Row,
    Site,
    frame,
    next_message,
    pull,
    receive,
    wait_for,
    wait_until,
)
from benchmarks.wire import PING, WireError, dial

_NS: Final = 1_000_000_000


def purge_all(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    config = {"durable_name": "d", "ack_policy": "explicit"}
    site.ask("CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": config})
    return lambda: site.ask("STREAM.PURGE.S")


def purge_half(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("STREAM.PURGE.S", {"keep": size // 2})


def purge_subject(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("STREAM.PURGE.S", {"filter": "s.3"})


def lower_limit(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    config = {"name": "S", "subjects": ["s.*"], "max_msgs": 1000}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def delete_stream(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number}")
    return lambda: site.ask("STREAM.DELETE.S")


def purge_all_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    return lambda: site.ask("STREAM.PURGE.S")


def purge_half_of_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    return lambda: site.ask("STREAM.PURGE.S", {"keep": size // 2})


def purge_wildcard(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    return lambda: site.ask("STREAM.PURGE.S", {"filter": "s.*", "keep": 1000})


def lower_limit_of_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % (size // 8 + 1)}")
    config = {"name": "S", "subjects": ["s.*"], "max_msgs_per_subject": 1}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def lower_bytes(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    config = {"name": "S", "subjects": ["s.*"], "max_bytes": 100_000}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def rollup(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"], allow_rollup_hdrs=True)
    site.fill(size, lambda number: f"s.{number % 10}")
    return lambda: _publish(site, "s.1", "Nats-Rollup: all")


def _publish(site: Site, subject: str, header: str) -> None:
    """Publish one message with a header and wait for its answer."""
    block = f"NATS/1.0\r\n{header}\r\n\r\n".encode()
    with dial(site.address, greeting=b"SUB _INBOX.p 1\r\n") as connection:
        connection.sendall(
            b"HPUB %b _INBOX.p %d %d\r\n%bx\r\n" % (subject.encode(), len(block), len(block) + 1, block)
        )
        answer = next_message(connection)
    if b'"error"' in answer:
        raise WireError(f"cannot publish: {answer!r}")


def retention_changes(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.consumer("one", filter_subject="s.1")
    site.fill(size, lambda number: f"s.{number % 2}")
    config = {"name": "S", "subjects": ["s.*"], "retention": "interest"}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def subjects_change(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream that has many subjects in its configuration gets others."""
    site.stream("S", [f"s.{number}" for number in range(size)])
    config = {"name": "S", "subjects": [f"t.{number}" for number in range(size)]}
    return lambda: site.ask("STREAM.UPDATE.S", config)


def expiry(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages expire by age under a steady flow."""
    site.stream("S", ["s.*"], max_age=1_000_000_000, duplicate_window=1_000_000_000)
    return lambda: site.fill(size, lambda number: f"s.{number % 10}")


def object_goes(site: Site, size: int, kept: ExitStack) -> Operation:
    """An object of so many chunks of 128 KiB is deleted."""
    site.stream("S", ["s.*"])
    body = b"x" * 131_072
    with dial(site.address, greeting=b"SUB _INBOX.o 1\r\n") as connection:
        for _ in range(size):
            connection.sendall(b"PUB s.1 _INBOX.o %d\r\n%b\r\n" % (len(body), body))
            next_message(connection)
    return lambda: site.ask("STREAM.PURGE.S", {"filter": "s.1"})


def update(subjects: int, **config: Any) -> Prepare:
    """A stream with messages of so many subjects gets another configuration."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"])
        site.fill(size, lambda number: f"s.{number % subjects}")
        return lambda: site.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], **config})

    return prepare


def age_ends(site: Site, size: int, kept: ExitStack) -> Operation:
    """All messages of an idle stream are too old within a second or two."""
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    config = {"name": "S", "subjects": ["s.*"], "max_age": _NS, "duplicate_window": _NS}

    def operate() -> None:
        site.ask("STREAM.UPDATE.S", config)
        wait_for(lambda: site.ask("STREAM.INFO.S")["state"]["messages"] == 0)

    return operate


def lives_end(header: str, **config: Any) -> Prepare:
    """All messages of a stream reach the end of their own lives at the same time."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"], allow_msg_ttl=True, **config)
        life_s = 8 + size // 60_000
        until = time.monotonic() + life_s + 2

        def left(number: int) -> str:
            return header.format(max(round(until - 2 - time.monotonic()), 1))

        site.fill(size, lambda number: f"s.{number}", left)
        return lambda: wait_until(until + 1)

    return prepare


def schedules_fire(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages that were put off are due at the same time."""
    site.stream("S", ["s.*", "t.*"], allow_msg_schedules=True, allow_msg_ttl=True)
    moment = time.time() + 8 + size // 30_000
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    head = f"Nats-Schedule: @at {at}\r\nNats-Schedule-Target: t.1"
    site.fill(size, lambda number: f"s.{number}", lambda _: head)
    until = time.monotonic() + moment - time.time() + 4
    return lambda: wait_until(until)


def window_ends(site: Site, size: int, kept: ExitStack) -> Operation:
    """The window for duplicates ends for many messages at once."""
    window_s = 8 + size // 100_000
    site.stream("S", ["s.*"], duplicate_window=window_s * _NS)
    site.fill(size, lambda number: "s.1", lambda number: f"Nats-Msg-Id: {number}")
    until = time.monotonic() + window_s + 1

    def operate() -> None:
        wait_until(until)
        site.fill(10, lambda number: "s.1", lambda number: f"Nats-Msg-Id: {number}")

    return operate


def roll_up_subject(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"], allow_rollup_hdrs=True)
    site.fill(size, lambda number: "s.1")
    return lambda: _publish(site, "s.1", "Nats-Rollup: sub")


def seal(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    return lambda: site.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], "sealed": True})


def purge_to(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    return lambda: site.ask("STREAM.PURGE.S", {"seq": size - 10})


def delete_messages(site: Site, size: int, kept: ExitStack) -> Operation:
    """Messages are deleted one by one, and securely erased."""
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")
    lines = b"".join(
        b'PUB $JS.API.STREAM.MSG.DELETE.S %d\r\n{"seq":%d}\r\n' % (len(str(n)) + 8, n)
        for n in range(1, size, 2)
    )

    def operate() -> None:
        with dial(site.address) as connection:
            connection.sendall(lines + PING)
            receive(connection, 1, b"PONG")  # a server loses what it has not read from a closed connection
        wait_for(lambda: site.ask("STREAM.INFO.S")["state"]["messages"] <= (size + 1) // 2)

    return operate


def direct_get(body: Any) -> Prepare:
    """A batch of direct gets from a stream with a message for each of many subjects."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.subjects(size, allow_direct=True)
        return _get_directly(site, body)

    return prepare


def _get_directly(site: Site, body: Any) -> Operation:
    text = json.dumps(body).encode()

    def operate() -> None:
        with dial(site.address, greeting=b"SUB _INBOX.g 1\r\n") as connection:
            connection.sendall(b"PUB $JS.API.DIRECT.GET.S _INBOX.g %d\r\n%b\r\n" % (len(text), text))
            seen = b""
            while not any(status in seen for status in (b" 204 ", b" 404", b" 408", b" 413")):
                seen = seen[-100:] + connection.recv(1 << 20)

    return operate


def _snapshot(site: Site) -> tuple[dict[str, Any], list[bytes]]:
    """Take a snapshot of S; what the request was told, and the chunks."""
    body = json.dumps(
        {"deliver_subject": "_INBOX.chunks", "no_consumers": True, "chunk_size": 131072}
    ).encode()
    chunks: list[bytes] = []
    with dial(site.address, greeting=b"SUB _INBOX.> 1\r\n") as connection:
        connection.sendall(b"PUB $JS.API.STREAM.SNAPSHOT.S _INBOX.snap %d\r\n%b\r\n" % (len(body), body))
        stream = connection.makefile("rb")
        told: dict[str, Any] = {}
        while True:
            line = stream.readline().split()
            if not line or line[0] not in (b"MSG", b"HMSG"):
                if line and line[0] == b"PING":
                    connection.sendall(b"PONG\r\n")
                continue
            payload = stream.read(int(line[-1]) + 2)[:-2]
            if line[1] == b"_INBOX.snap":
                told = json.loads(payload)
                if "error" in told:
                    raise WireError(f"no snapshot: {told}")
                continue
            if line[0] == b"HMSG" or not payload:
                return told, chunks
            chunks.append(payload)
            if len(line) == 5:
                connection.sendall(b"PUB %b 0\r\n\r\n" % line[3])


def snapshot(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    return lambda: _snapshot(site)


def restore(site: Site, size: int, kept: ExitStack) -> Operation:
    site.subjects(size)
    told, chunks = _snapshot(site)
    site.ask("STREAM.DELETE.S")

    def operate() -> None:
        answer = site.ask("STREAM.RESTORE.S", {"config": told["config"], "state": told["state"]})
        subject = answer["deliver_subject"].encode()
        with dial(site.address, greeting=b"SUB _INBOX.r 1\r\n") as connection:
            for chunk in (*chunks, b""):
                connection.sendall(b"PUB %b _INBOX.r %d\r\n%b\r\n" % (subject, len(chunk), chunk))
                next_message(connection)

    return operate


def mirror(site: Site, size: int, kept: ExitStack) -> Operation:
    """A mirror is made, and catches up."""
    site.subjects(size)

    def operate() -> None:
        site.ask("STREAM.CREATE.N", {"name": "N", "mirror": {"name": "S"}})
        wait_for(lambda: site.ask("STREAM.INFO.N")["state"]["messages"] == size)

    return operate


def sources(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream with many origins is made."""
    for number in range(size):
        site.stream(f"O{number}", [f"o.{number}"])
    site.fill(size * 10, lambda number: f"o.{number % size}")

    def operate() -> None:
        origins = [{"name": f"O{number}"} for number in range(size)]
        site.ask("STREAM.CREATE.N", {"name": "N", "sources": origins})
        wait_for(lambda: site.ask("STREAM.INFO.N")["state"]["messages"] == size * 10)

    return operate


def transform(site: Site, size: int, kept: ExitStack) -> Operation:
    """A mirror with a transform of each subject catches up."""
    site.subjects(size)

    def operate() -> None:
        origin = {"name": "S", "subject_transforms": [{"src": "s.*", "dest": "t.{{wildcard(1)}}"}]}
        site.ask("STREAM.CREATE.N", {"name": "N", "mirror": origin})
        wait_for(lambda: site.ask("STREAM.INFO.N")["state"]["messages"] == size)

    return operate


def create_with_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream is made with a configuration of a megabyte."""
    names = [f"s.{number}." + "x" * 480 for number in range(size)]
    return lambda: site.stream("S", names)


def delete_with_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream with many subjects in its configuration goes."""
    site.stream("S", [f"s.{number}" for number in range(size)])
    return lambda: site.ask("STREAM.DELETE.S")


def update_beside_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream is updated beside others that have many subjects together."""
    for number in range(size // 2_000):
        site.stream(f"O{number}", [f"o.{number}.{each}" for each in range(2_000)], "memory")
    site.stream("S", ["s.*"])
    return lambda: site.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*", "t"]})


def list_with_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    """Streams are listed whose configurations have a hundred kilobytes each."""
    for number in range(size):
        names = [f"s.{number}.{each}." + "x" * 80 for each in range(1_000)]
        site.stream(f"S{number}", names, "memory")
    return lambda: site.ask("STREAM.LIST")


def atomic_batch(site: Site, size: int, kept: ExitStack) -> Operation:
    """A batch of so many messages is committed."""
    site.stream("S", ["s.*"], allow_atomic=True)
    head = "Nats-Batch-Id: b\r\nNats-Batch-Sequence: {0}"

    def operate() -> None:
        with dial(site.address, greeting=b"SUB _INBOX.f 1\r\n") as connection:
            for number in range(1, size + 1):
                last = number == size
                text = head.format(number) + ("\r\nNats-Batch-Commit: 1" if last else "")
                connection.sendall(frame(f"s.{number}", text, last))
            if b'"error"' in (answer := next_message(connection)):
                raise WireError(f"cannot publish: {answer!r}")

    return operate


def lasts_before(site: Site, size: int, kept: ExitStack) -> Operation:
    """The last messages of many subjects before one in the middle of the stream are asked for."""
    site.stream("S", ["s.*"], allow_direct=True)
    site.fill(size, lambda number: f"s.{number % 1_000}")
    return _get_directly(site, {"multi_last": ["s.*"], "up_to_seq": size // 2})


def compaction(site: Site, size: int, kept: ExitStack) -> Operation:
    """Nine of ten messages are gone, so files are written anew."""
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 10}")

    def operate() -> None:
        for number in range(9):
            site.ask("STREAM.PURGE.S", {"filter": f"s.{number}"})
        time.sleep(8)

    return operate


def watch_all(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer delivers the last message of each subject."""
    site.subjects(size)

    def operate() -> None:
        config: dict[str, Any] = {"deliver_policy": "last_per_subject", "filter_subject": "s.*"}
        site.consumer("d", **config, max_ack_pending=-1, ack_wait=600 * _NS)
        with dial(site.address, greeting=b"SUB _INBOX.n 1\r\n") as connection:
            pull(connection, size)

    return operate


ROWS: Final[dict[str, Row]] = {
    "purge-all": Row(purge_all, 1_000_000),
    "purge-half": Row(purge_half, 1_000_000),
    "purge-to": Row(purge_to, 1_000_000),
    "purge-subject": Row(purge_subject, 1_000_000),
    "purge-all-subjects": Row(purge_all_subjects, 1_000_000),
    "purge-half-subjects": Row(purge_half_of_subjects, 1_000_000),
    "purge-wildcard": Row(purge_wildcard, 1_000_000),
    "delete-messages": Row(delete_messages, 50_000),
    "delete-stream": Row(delete_stream, 1_000_000),
    "lower-limit": Row(lower_limit, 1_000_000),
    "lower-limit-of-subjects": Row(lower_limit_of_subjects, 1_000_000),
    "lower-bytes": Row(lower_bytes, 1_000_000),
    "rollup": Row(rollup, 1_000_000),
    "rollup-subject": Row(roll_up_subject, 1_000_000),
    "seal": Row(seal, 1_000_000),
    "retention-changes": Row(retention_changes, 1_000_000),
    "subjects-change": Row(subjects_change, 1_900),
    "subject-transform": Row(
        update(10, subject_transform={"src": "s.*", "dest": "t.{{wildcard(1)}}"}), 1_000_000
    ),
    "create-with-subjects": Row(create_with_subjects, 1_900),
    "delete-with-subjects": Row(delete_with_subjects, 4_000),
    "update-beside-subjects": Row(update_beside_subjects, 100_000),
    "list-with-subjects": Row(list_with_subjects, 30),
    "atomic-batch": Row(atomic_batch, 1_000),
    "expiry": Row(expiry, 1_000_000),
    "age-ends": Row(age_ends, 1_000_000),
    "lives-end": Row(lives_end("Nats-TTL: {0}s"), 1_000_000),
    "lives-end-markers": Row(
        lives_end("Nats-TTL: {0}s", subject_delete_marker_ttl=3600 * _NS, allow_rollup_hdrs=True), 200_000
    ),
    "schedules-fire": Row(schedules_fire, 100_000),
    "window-ends": Row(window_ends, 1_000_000),
    "object-goes": Row(object_goes, 1_000),
    "compaction": Row(compaction, 1_000_000),
    "direct-batch": Row(direct_get({"batch": 100_000, "next_by_subj": "s.>"}), 1_000_000),
    "direct-lasts": Row(direct_get({"multi_last": ["s.>"]}), 1_000_000),
    "direct-lasts-before": Row(lasts_before, 1_000_000),
    "direct-batch-filter": Row(
        direct_get({"batch": 1_000, "seq": 10, "next_by_subj": "s.*"}),
        1_000_000,
    ),
    "direct-no-match": Row(direct_get({"batch": 10, "next_by_subj": "s.none"}), 1_000_000),
    "snapshot": Row(snapshot, 1_000_000),
    "restore": Row(restore, 1_000_000),
    "mirror": Row(mirror, 1_000_000),
    "mirror-transform": Row(transform, 1_000_000),
    "sources": Row(sources, 500),
    "watch-all": Row(watch_all, 1_000_000),
}
