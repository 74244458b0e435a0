"""Somebody sets the clock of the machine, back or forward: what takes a time still takes that time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kits.jetstream.stream import SECOND, Site, block

DAY_S = 86_400
JUMPS = [-DAY_S, -3600, -1, 1, 3600, DAY_S]
either_way = pytest.mark.parametrize("jump_s", JUMPS)


def set_clock(site: Site, seconds: float) -> None:
    site.world.was_set_ns += round(seconds * SECOND)


def consumer(site: Site, **config: Any) -> None:
    body = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"} | config}
    answer = site.ask("CONSUMER.DURABLE.CREATE.S.c", body)
    assert "error" not in answer, answer


def pull(site: Site, reply: bytes, **request: Any) -> None:
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.c", json.dumps(request).encode(), reply=reply)
    site.world.settle()


def delivered(site: Site, to: bytes) -> int:
    return sum(each.to == to and not each.headers for each in site.world.delivered)


def statuses(site: Site, to: bytes) -> list[bytes]:
    return [each.headers[9:12] for each in site.world.published if each.subject == to and each.headers]


@either_way
def test_a_message_that_nobody_acknowledged_comes_again_after_ack_wait(jump_s: float) -> None:
    site = Site()
    site.create()
    consumer(site, ack_wait=10 * SECOND)
    site.publish("s.1", b"x")
    pull(site, b"one", batch=5)
    assert delivered(site, b"one") == 1
    set_clock(site, jump_s)
    site.world.advance(9)
    assert delivered(site, b"one") == 1
    site.world.advance(2)
    assert delivered(site, b"one") == 2


@either_way
def test_a_pull_request_expires_when_it_should(jump_s: float) -> None:
    site = Site()
    site.create()
    consumer(site)
    pull(site, b"one", batch=1, expires=10 * SECOND)
    set_clock(site, jump_s)
    site.world.advance(9)
    assert statuses(site, b"one") == []
    site.world.advance(2)
    assert statuses(site, b"one") == [b"408"]


@either_way
def test_heartbeats_go_on(jump_s: float) -> None:
    site = Site()
    site.create()
    consumer(site)
    pull(site, b"one", batch=1, expires=60 * SECOND, idle_heartbeat=5 * SECOND)
    site.world.advance(6)
    assert len(statuses(site, b"one")) == 1
    set_clock(site, jump_s)
    site.world.advance(20)
    assert statuses(site, b"one") == [b"100"] * 5


@either_way
def test_an_unused_consumer_goes_after_its_threshold(jump_s: float) -> None:
    site = Site()
    site.create()
    consumer(site, inactive_threshold=30 * SECOND)
    set_clock(site, jump_s)
    site.world.advance(25)
    assert "error" not in site.ask("CONSUMER.INFO.S.c")
    site.world.advance(20)
    assert "error" in site.ask("CONSUMER.INFO.S.c")


def test_a_clock_that_is_set_forward_ages_messages_within_a_minute() -> None:
    site = Site()
    site.create(max_age=10 * 3600 * SECOND)
    site.publish("s.1", b"x")
    site.world.advance(1)
    set_clock(site, 11 * 3600)
    site.world.advance(61)
    assert site.state()["messages"] == 0


def test_a_clock_that_is_set_forward_ends_a_pause_within_a_minute() -> None:
    site = Site()
    site.create()
    consumer(site)
    until = "2023-11-15T10:13:20Z"  # twelve hours from the beginning of this world
    answer = site.ask("CONSUMER.PAUSE.S.c", {"pause_until": until})
    assert answer["paused"], answer
    site.publish("s.1", b"x")
    pull(site, b"one", batch=1)
    set_clock(site, 13 * 3600)
    site.world.advance(61)
    assert delivered(site, b"one") == 1


@either_way
def test_times_that_are_shown_are_those_of_the_clock(jump_s: float) -> None:
    site = Site()
    site.create()
    consumer(site)
    before = site.ask("CONSUMER.INFO.S.c")["ts"]
    set_clock(site, jump_s)
    after = site.ask("CONSUMER.INFO.S.c")["ts"]
    assert (after > before) == (jump_s > 0)


@either_way
def test_an_atomic_batch_waits_for_its_next_message_as_long_as_it_should(jump_s: float) -> None:
    site = Site()
    site.create(allow_atomic=True)
    first = block(Nats_Batch_Id="b", Nats_Batch_Sequence="1")
    site.world.send(b"s.1", b"x", headers=first)
    site.world.settle()
    set_clock(site, jump_s)
    site.world.advance(5)
    answer = site.publish("s.2", b"y", Nats_Batch_Id="b", Nats_Batch_Sequence="2", Nats_Batch_Commit="1")
    assert "error" not in answer, answer
