"""Numbers that no sensible client sends: they do what they say as far as that goes, and break nothing."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.golang.time import Time
from millstream.jetstream.consumers.consumer import Consumer
from millstream.jetstream.consumers.flow import OriginalPace
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.fake_world import FakeWorld

SECOND = 1_000_000_000
MOST = 2**63 - 1
PULL = b"$JS.API.CONSUMER.MSG.NEXT.S.C"


def consumer_in(world: FakeWorld, **fields: Any) -> Consumer:
    stream = world.account().add(
        StreamConfig(
            name="S",
            subjects=["a"],
            max_msgs=-1,
            max_bytes=-1,
            max_msgs_per_subject=-1,
            max_msg_size=-1,
            max_consumers=-1,
            duplicate_window=120 * SECOND,
        )
    )
    settings: dict[str, Any] = {
        "ack_policy": AckPolicy.EXPLICIT,
        "ack_wait": 30 * SECOND,
        "max_deliver": -1,
        "max_waiting": 512,
        **fields,
    }
    consumer = stream.consumers.add(ConsumerConfig(durable_name="C", name="C", **settings), "C")
    world.send(b"a", b"x")
    world.settle()
    return consumer


@pytest.mark.parametrize(
    "waits", [{"ack_wait": MOST}, {"ack_wait": MOST, "backoff": [MOST]}], ids=["ack_wait", "backoff"]
)
def test_the_longest_wait_does_not_end_at_once(waits: dict[str, Any]) -> None:
    world = FakeWorld()
    consumer = consumer_in(world, **waits)
    world.send(PULL, b"2", reply=b"_INBOX.me")
    world.advance(3600)
    assert len(world.delivered) == 1
    assert consumer.ledger.due() > world.now_ns()


def test_the_longest_delay_of_a_refused_message_is_waited_for() -> None:
    world = FakeWorld()
    consumer_in(world)
    world.send(PULL, b"2", reply=b"_INBOX.me")
    world.settle()
    world.send(world.delivered[0].reply, b'-NAK {"delay":%d}' % MOST)
    world.advance(3600)
    assert len(world.delivered) == 1


def test_an_answer_that_claims_more_than_was_delivered_acknowledges_nothing() -> None:
    world = FakeWorld()
    consumer = consumer_in(
        world,
        deliver_subject="d",
        ack_policy=AckPolicy.FLOW_CONTROL,
        flow_control=True,
        idle_heartbeat=SECOND,
        max_ack_pending=1,
    )
    asked = [each.reply for each in world.published if each.reply.startswith(b"$JS.FC.")]
    claims = b"NATS/1.0\r\nNats-Last-Stream: %d\r\nNats-Last-Consumer: %d\r\n\r\n" % (MOST, MOST)
    world.send(asked[-1], headers=claims)
    world.settle()
    assert (consumer.ledger.floor_sseq, list(consumer.ledger.pending)) == (0, [1])


def test_an_ack_of_all_that_names_a_delivery_to_come_leaves_later_ones_to_be_acknowledged() -> None:
    world = FakeWorld()
    consumer = consumer_in(world, ack_policy=AckPolicy.ALL)
    world.send(b"a", b"y")
    world.send(PULL, b"1", reply=b"_INBOX.me")
    world.settle()
    world.send(b"$JS.ACK.S.C.1.1.999999999999.1.0")
    world.send(PULL, b"1", reply=b"_INBOX.me")
    world.settle()
    world.send(world.delivered[1].reply)
    world.settle()
    assert (consumer.ledger.floor_dseq, consumer.ledger.floor_sseq) == (2, 2)


class TickingWorld(FakeWorld):
    """A clock that moves on whenever it is looked at, once it is `ticking`."""

    ticking = False

    def now_ns(self) -> int:
        self.time_ns += self.ticking
        return self.time_ns


def test_a_pause_ends_also_if_its_timer_fires_a_moment_too_early() -> None:
    world = TickingWorld()
    consumer = consumer_in(world)
    until = Time(world.now_ns() + 10)
    consumer.pause(until)
    world.send(PULL, b"1", reply=b"_INBOX.me")
    world.settle()
    assert world.delivered == []
    world.time_ns = int(until) - 2
    world.ticking = True
    early, world._timers = world._timers, []
    for _, _, timer in early:
        if timer.callback is not None:
            timer.callback()
    world.advance(1)
    assert len(world.delivered) == 1


def test_heartbeats_go_on_when_the_clock_is_set_back() -> None:
    world = FakeWorld()
    consumer_in(world, deliver_subject="d", ack_policy=AckPolicy.NONE, idle_heartbeat=SECOND)
    assert len(world.delivered) == 1
    world.was_set_ns -= 3600 * SECOND
    before = len(world.published)
    world.advance(2)
    assert b"Idle Heartbeat" in world.published[before].headers


def test_the_original_pace_goes_on_when_the_clock_is_set_back() -> None:
    pace = OriginalPace(2)
    pace.sent(SECOND)
    assert pace.wait_ns(3 * SECOND, 3600 * SECOND) == 2 * SECOND
    assert pace.wait_ns(3 * SECOND, 0) == 2 * SECOND
