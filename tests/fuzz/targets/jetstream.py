"""JetStream of one account, under a manual clock: requests to its API, messages, acks, restarts.

An input is a script, one step to a line::

    $JS.API.STREAM.CREATE.S {"name":"S"}         a request, or a message to a stream
    s.a NATS/1.0~Nats-Msg-Id: 1~~body            the same with headers; `~` is CR LF
    !3 +NXT                                      what is said about the third delivery
    +30                                          so many seconds pass
    -                                            the server is stopped and started
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator
from typing import Any

from millstream.jetstream.api import AccountApi
from millstream.store.fs import MemoryFileSystem
from tests.kits.fake_world import FakeWorld
from tests.kits.paths import GOLDEN

MOST_STEPS = 60
_LONGEST_S = 400_000.0

WORDS = (
    b"$JS.API.", b"STREAM.CREATE.S ", b"STREAM.UPDATE.S ", b"STREAM.INFO.S ", b"STREAM.PURGE.S ",
    b"STREAM.DELETE.S ",
    b"STREAM.MSG.GET.S ", b"STREAM.MSG.DELETE.S ", b"DIRECT.GET.S ", b"CONSUMER.CREATE.S.C ",
    b"CONSUMER.INFO.S.C ",
    b"CONSUMER.MSG.NEXT.S.C ", b"CONSUMER.PAUSE.S.C ", b"CONSUMER.RESET.S.C ", b"CONSUMER.UNPIN.S.C ",
    b"CONSUMER.LIST.S ",
    b"\n+1\n", b"\n+3600\n", b"\n-\n", b"\n!1 +ACK\n", b"\n!1 -NAK {\"delay\":1}\n", b"\n!2 +TERM\n",
    b"\n!1 +WPI\n", b"\n!1 +NXT 2\n",
    b"NATS/1.0~Nats-TTL: 5~~", b"~Nats-Schedule: @every 1s~Nats-Schedule-Target: s.b~", b"~Nats-Rollup: all~",
    b"~Nats-Expected-Last-Sequence: 1~", b"~Nats-Batch-Id: b~Nats-Batch-Sequence: 1~",
    b"~Nats-Batch-Commit: 1~",
    b"~Nats-Incr: +1~", b"~Nats-Required-Api-PackLevel: 9~",
)  # fmt: skip


class Place:
    """An account in memory that can be stopped and started."""

    def __init__(self, fs: MemoryFileSystem | None = None) -> None:
        self.fs = fs or MemoryFileSystem()
        self.world = FakeWorld()
        self._start()

    def _start(self) -> None:
        self.account = self.world.account(fs=self.fs)
        self.account.recover()
        self.api = AccountApi(self.account, "server", "2.15.1", strict=True)
        self.api.start()
        self.world.settle()

    def restart(self) -> None:
        self.account.stop()
        self.world = FakeWorld(self.world.time_ns)
        self._start()

    def ask(self, endpoint: str, body: object = b"") -> dict[str, Any]:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        before = len(self.world.published)
        self.world.send(f"$JS.API.{endpoint}".encode(), text, reply=b"_INBOX.ask")
        self.world.settle()
        answers = [each for each in self.world.published[before:] if each.subject == b"_INBOX.ask"]
        found = [each.payload for each in answers if each.payload.startswith(b"{")]
        return json.loads(found[-1]) if found else {}

    def play(self, step: bytes) -> None:
        world = self.world
        if step == b"-":
            self.restart()
        elif step.startswith(b"+"):
            world.advance(_seconds(step[1:]))
        elif step.startswith(b"!"):
            number, _, body = step[1:].partition(b" ")
            replies = [each.reply for each in world.delivered if each.reply]
            if replies:
                world.send(replies[int(_seconds(number)) % len(replies)], body, reply=b"_INBOX.ack")
        else:
            subject, _, rest = step.partition(b" ")
            headers = None
            if rest.startswith(b"NATS/1.0"):
                block, end, payload = rest.partition(b"~~")
                headers, rest = (block + end).replace(b"~", b"\r\n"), payload
            if subject and b"\r" not in subject:
                world.send(subject, rest, reply=b"_INBOX.%d" % len(world.published), headers=headers)
        world.settle()


def _seconds(text: bytes) -> float:
    try:
        found = float(text[:20])
    except ValueError:
        return 1.0
    return min(max(found, 0.0), _LONGEST_S) if math.isfinite(found) else 1.0


def check_api(data: bytes) -> Hashable:
    """Every request is answered in JSON or not at all; a restart finds the same streams."""
    place = Place()
    for step in data.split(b"\n")[:MOST_STEPS]:
        place.play(step)
    # Time passes in small steps only if something waits for it.
    place.world.advance(31.0)
    inbox = [each for each in place.world.published if each.subject.startswith(b"_INBOX.")]
    answers = [each for each in inbox if not each.headers and not each.reply]  # no deliveries
    kinds = set()
    for answer in answers:
        if answer.payload.startswith(b"{"):
            found = json.loads(answer.payload)
            kinds.add((found.get("type", "")[-24:], found.get("error", {}).get("err_code", 0)))
    before = {
        name: stream.log.messages for name, stream in place.account.streams.items() if not stream.in_memory
    }
    place.restart()
    assert set(before) == set(place.account.streams), (before, place.account.unrecovered)
    assert not place.account.unrecovered, place.account.unrecovered
    for name in before:
        assert place.ask(f"STREAM.INFO.{name}", {"subjects_filter": ">", "deleted_details": True})
    return frozenset(kinds)


_STREAM = b'$JS.API.STREAM.CREATE.S {"name":"S","subjects":["s.>"],"allow_direct":true,"allow_msg_ttl":true}'
_MESSAGES = b"\n".join(b"s.%c NATS/1.0~Nats-Msg-Id: %d~~body %d" % (97 + n % 3, n, n) for n in range(6))
_CONSUMER = (
    b"$JS.API.CONSUMER.CREATE.S.C "
    b'{"stream_name":"S","config":{"name":"C","durable_name":"C","ack_policy":"explicit"}}'
)
_PULL = b'$JS.API.CONSUMER.MSG.NEXT.S.C {"batch":3,"expires":5000000000}'
_ENDPOINTS = (
    b"INFO ", b"STREAM.NAMES {\"offset\":0,\"subject\":\"s.a\"}", b"STREAM.LIST {\"offset\":0}",
    b'STREAM.INFO.S {"deleted_details":true,"subjects_filter":">"}',
    b'STREAM.PURGE.S {"filter":"s.a","keep":1}',
    b'STREAM.PURGE.S {"seq":4}', b'STREAM.MSG.GET.S {"seq":2}', b'STREAM.MSG.GET.S {"last_by_subj":"s.a"}',
    b'STREAM.MSG.DELETE.S {"seq":2,"no_erase":true}', b'DIRECT.GET.S {"next_by_subj":"s.*","seq":1}',
    b"DIRECT.GET.S.s.a ",
    b'DIRECT.GET.S {"multi_last":["s.>"],"batch":5}', b"CONSUMER.NAMES.S {\"offset\":0}",
    b"CONSUMER.LIST.S {}",
    b"CONSUMER.INFO.S.C ", b'CONSUMER.PAUSE.S.C {"pause_until":"2030-01-01T00:00:00Z"}',
    b'CONSUMER.RESET.S.C {"seq":2}',
    b'CONSUMER.UNPIN.S.C {"group":"g"}', b"CONSUMER.DELETE.S.C ", b"STREAM.DELETE.S ",
    b'STREAM.SNAPSHOT.S {"deliver_subject":"_D.x","chunk_size":1024}',
    b'STREAM.RESTORE.T {"config":{"name":"T"},"state":{}}',
    b'STREAM.PEER.REMOVE.S {"peer":"x"}', b"STREAM.LEADER.STEPDOWN.S ", b'SERVER.REMOVE {"peer":"x"}',
    b"META.LEADER.STEPDOWN ",
)  # fmt: skip
_CONFIGS = (
    b'{"retention":"workqueue","max_msgs":5,"discard":"new"}',
    b'{"max_msgs_per_subject":1,"discard_new_per_subject":true}',
    b'{"max_age":5000000000,"subject_delete_marker_ttl":5000000000}',
    b'{"republish":{"src":"s.>","dest":"r.>"}}',
    b'{"subject_transform":{"src":"s.*","dest":"t.$1"}}', b'{"mirror":{"name":"O","opt_start_seq":2}}',
    b'{"sources":[{"name":"O","filter_subject":"s.a"}]}', b'{"compression":"s2","max_bytes":2000}',
    b'{"storage":"memory"}',
    b'{"allow_rollup_hdrs":true,"deny_delete":true}', b'{"allow_msg_schedules":true}',
    b'{"allow_msg_counter":true}',
    b'{"allow_atomic":true}', b'{"metadata":{"a":"b"},"placement":{"cluster":"x"}}',
    b'{"first_seq":100,"retention":"interest"}',
)  # fmt: skip
_CONSUMERS = (
    b'{"deliver_subject":"d","idle_heartbeat":1000000000,"flow_control":true}',
    b'{"deliver_policy":"by_start_sequence","opt_start_seq":3}',
    b'{"filter_subjects":["s.a","s.b"],"max_deliver":2,"backoff":[1000000000]}',
    b'{"ack_policy":"all","max_ack_pending":2}',
    b'{"deliver_policy":"last_per_subject","filter_subject":"s.*"}',
    b'{"priority_groups":["g"],"priority_policy":"pinned_client"}',
    b'{"inactive_threshold":5000000000,"mem_storage":true}',
    b'{"replay_policy":"original","headers_only":true}',
    b'{"deliver_policy":"by_start_time","opt_start_time":"2023-11-14T22:13:20Z"}',
    b'{"max_batch":2,"max_expires":1000000000,"max_waiting":1}',
)  # fmt: skip


def _with(base: bytes, extra: bytes) -> bytes:
    return json.dumps({**json.loads(base), **json.loads(extra)}).encode()


def api_seeds() -> Iterator[bytes]:
    for endpoint in _ENDPOINTS:
        yield b"\n".join(
            (_STREAM, _MESSAGES, _CONSUMER, _PULL, b"!1 +ACK", b"$JS.API." + endpoint, b"+2", b"s.a x")
        )
    create, _, stream = _STREAM.partition(b" ")
    for config in _CONFIGS:
        changed = _with(stream, config)
        if b"mirror" in config:
            changed = json.dumps(
                {key: value for key, value in json.loads(changed).items() if key != "subjects"}
            ).encode()
        steps = (
            create + b" " + changed,
            _MESSAGES,
            _CONSUMER,
            _PULL,
            b"!2 -NAK",
            b"+6",
            b"-",
            _PULL,
            b"!1 +ACK",
        )
        yield b"\n".join(steps)
        yield b"\n".join((_STREAM, _MESSAGES, b"$JS.API.STREAM.UPDATE.S " + changed, b"s.a y", b"+10"))
    create, _, text = _CONSUMER.partition(b" ")
    whole = json.loads(text)
    for config in _CONSUMERS:
        changed = json.dumps({**whole, "config": {**whole["config"], **json.loads(config)}}).encode()
        acks = (b"!1 +ACK", b'!2 -NAK {"delay":1000000000}', b"!3 +WPI", b"!1 +NXT 2", b"!4 +TERM why")
        yield b"\n".join(
            (_STREAM, _MESSAGES, create + b" " + changed, _PULL, *acks, b"+40", b"-", b"s.b z", _PULL, b"+5")
        )
    batch = b"s.a NATS/1.0~Nats-Batch-Id: b~Nats-Batch-Sequence: %d%b~~x"
    yield b"\n".join(
        (
            create_of(b'{"allow_atomic":true}'),
            batch % (1, b""),
            batch % (2, b""),
            batch % (3, b"~Nats-Batch-Commit: 1"),
        )
    )
    schedule = b"s.x NATS/1.0~Nats-Schedule: @every 1s~Nats-Schedule-Target: s.y~Nats-Schedule-TTL: 5m~~tick"
    yield b"\n".join((create_of(b'{"allow_msg_schedules":true}'), schedule, b"+3", b"-", b"+2"))
    yield b"\n".join(
        (
            create_of(b'{"allow_msg_counter":true}'),
            b"s.n NATS/1.0~Nats-Incr: +2~~",
            b"s.n NATS/1.0~Nats-Incr: -5~~",
        )
    )
    yield b"\n".join(
        (
            _STREAM,
            b"s.a NATS/1.0~Nats-TTL: 5s~~x",
            b"s.b NATS/1.0~Nats-TTL: 1h~Nats-Rollup: sub~~y",
            b"+6",
            b"-",
        )
    )
    for path in sorted((GOLDEN / "jetstream_config").glob("*.json")):
        cases = json.loads(path.read_text())
        for case in (cases if isinstance(cases, list) else list(cases.values()))[:40]:
            body = json.dumps(case.get("config", case) if isinstance(case, dict) else case).encode()
            yield b"\n".join(
                (
                    _STREAM,
                    b"$JS.API.STREAM.CREATE.S " + body,
                    b"$JS.API.CONSUMER.CREATE.S.C " + body,
                    _MESSAGES,
                )
            )


def create_of(config: bytes) -> bytes:
    create, _, stream = _STREAM.partition(b" ")
    return create + b" " + _with(stream, config)
