"""A consumer that wants few of many messages gets them all, and lets others have their turn meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.jetstream.consumers import delivery
from millstream.jetstream.consumers.consumer import Consumer
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.fake_world import FakeWorld

COUNT = 100
EVERY = 20


def world_with_messages() -> tuple[FakeWorld, Any]:
    world = FakeWorld()
    config = StreamConfig(
        name="S",
        subjects=["*"],
        max_msgs=-1,
        max_bytes=-1,
        max_msgs_per_subject=-1,
        max_msg_size=-1,
        max_consumers=-1,
    )
    stream = world.account().add(config)
    for number in range(COUNT):
        world.send(b"rare" if number % EVERY == 0 else b"usual", b"x")
    world.settle()
    return world, stream


def add(stream: Any, **fields: Any) -> Consumer:
    config = ConsumerConfig(
        durable_name="C",
        name="C",
        ack_policy=AckPolicy.NONE,
        filter_subject="rare",
        max_deliver=-1,
        max_waiting=512,
        **fields,
    )
    consumer: Consumer = stream.consumers.add(config, "C")
    consumer.delivery.reach = 3
    return consumer


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_all_of_them_arrive_in_order(mode: str) -> None:
    world, stream = world_with_messages()
    if mode == "push":
        add(stream, deliver_subject="deliver")
        world.listen(b"deliver")
    else:
        add(stream)
        place = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
        world.send(place, b'{"batch":99,"expires":9000000000}', reply=b"_INBOX.me")
    world.settle()
    expected = list(range(1, COUNT + 1, EVERY))
    assert [int(message.reply.split(b".")[5]) for message in world.delivered] == expected


def test_it_stops_on_the_way() -> None:
    world, stream = world_with_messages()
    consumer = add(stream, deliver_subject="deliver")
    world.listen(b"deliver")
    outlet = world.outlet(b"deliver")
    stops = []
    while not stops or stops[-1] == delivery.TIRED:
        stops.append(consumer.feed.send(outlet, 99, 1_000_000, world.now_ns()))
    assert stops.count(delivery.TIRED) >= COUNT // EVERY - 1
    assert stops[-1] == delivery.END
    assert len(world.delivered) == COUNT // EVERY
