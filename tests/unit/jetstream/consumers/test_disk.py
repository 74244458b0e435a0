"""A consumer whose messages the disk does not give: nobody is told nonsense, and it goes on when it can."""

from __future__ import annotations

from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.record import Record
from tests.kits.bad_disk import BadDisk
from tests.kits.fake_world import FakeWorld

SECOND = 1_000_000_000


def test_a_disk_that_fails_to_read_holds_a_consumer_up_and_no_more() -> None:
    disk = BadDisk()
    world = FakeWorld()
    stream = world.account(fs=disk).add(
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
    config = ConsumerConfig(
        durable_name="C", name="C", ack_policy=AckPolicy.NONE, max_deliver=-1, max_waiting=512
    )
    stream.consumers.add(config, "C")
    world.send(b"a", b"x")
    world.settle()
    assert stream.load(1, Record())
    disk.broken = True
    world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"1", reply=b"_INBOX.me")
    world.settle()
    assert world.delivered == []
    disk.broken = False
    world.advance(2)
    assert [each.payload for each in world.delivered] == [b"x"]
