"""Messages that a stream removes once its consumers are done with them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from millstream.base import slices
from millstream.base.slices import MOST_ITEMS
from millstream.jetstream.consumers.state_saver import state_of
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.fake_world import FakeWorld

SECOND = 1_000_000_000


class Site:
    """A stream, and clients that take and acknowledge."""

    def __init__(self, retention: RetentionPolicy) -> None:
        self.world = FakeWorld()
        self.account = self.world.account()
        self.stream: Stream = self.account.add(
            StreamConfig(
                name="S",
                subjects=["a", "b"],
                retention=retention,
                max_msgs=-1,
                max_bytes=-1,
                max_msgs_per_subject=-1,
                max_msg_size=-1,
                max_consumers=-1,
                duplicate_window=120 * SECOND,
            )
        )

    def consumer(self, name: str, **fields: Any) -> None:
        settings: dict[str, Any] = {
            "ack_policy": AckPolicy.EXPLICIT,
            "ack_wait": 30 * SECOND,
            "max_deliver": -1,
            "max_ack_pending": 1000,
            "max_waiting": 512,
            **fields,
        }
        self.stream.consumers.add(ConsumerConfig(durable_name=name, name=name, **settings), name)
        self.world.settle()

    def publish(self, *subjects: bytes) -> None:
        for subject in subjects:
            self.world.send(subject, b"x")
        self.world.settle()

    def take(self, name: str, count: int) -> list[bytes]:
        """Ack subjects of what came."""
        self.world.delivered.clear()
        body = b'{"batch":%d,"no_wait":true}' % count
        self.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S." + name.encode(), body, reply=b"_INBOX.me")
        self.world.settle()
        return [each.reply for each in self.world.delivered]

    def ack(self, *replies: bytes) -> None:
        for reply in replies:
            self.world.send(reply, b"+ACK")
        self.world.settle()

    def answers(self, subject: bytes) -> list[bytes]:
        return [each.payload for each in self.world.published if each.subject == subject]

    @property
    def kept(self) -> list[int]:
        log = self.stream.log
        return list(log.sequences(1, log.last_seq))


def test_a_work_queue_lets_go_what_is_acknowledged() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C")
    site.publish(b"a", b"a", b"a")
    replies = site.take("C", 3)
    site.ack(replies[1])
    assert site.kept == [1, 3]


def test_a_work_queue_keeps_what_nobody_has_asked_for() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C", filter_subject="a")
    site.publish(b"b", b"a")
    site.ack(*site.take("C", 9))
    assert site.kept == [1]


def test_interest_ends_with_the_last_consumer_that_waits() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C")
    site.consumer("D")
    site.publish(b"a", b"a")
    site.ack(*site.take("C", 2))
    assert site.kept == [1, 2]
    site.ack(site.take("D", 2)[0])
    assert site.kept == [2]


def test_interest_asks_only_consumers_that_want_the_subject() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", filter_subject="a")
    site.consumer("D", filter_subject="b")
    site.publish(b"a", b"b")
    site.ack(*site.take("C", 2))
    assert site.kept == [2]


def test_what_nobody_wants_is_not_kept_at_all() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", filter_subject="a")
    site.publish(b"b", b"a")
    assert site.stream.log.messages == 1


def test_a_consumer_that_goes_takes_its_interest_along() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", filter_subject="a")
    site.consumer("D", filter_subject="b")
    site.publish(b"a", b"b")
    site.stream.consumers["D"].delete()
    site.world.settle()
    assert site.kept == [1]


def test_without_acks_a_delivery_is_enough() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", ack_policy=AckPolicy.NONE, max_ack_pending=0)
    site.publish(b"a", b"a", b"a")
    site.take("C", 2)
    assert site.kept == [3]


def test_what_was_given_up_stays() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C", max_deliver=1)
    site.publish(b"a", b"a")
    site.take("C", 1)
    site.world.advance(31)
    site.ack(*site.take("C", 1))
    assert site.kept == [1]


def test_ack_all_lets_go_everything_below() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", ack_policy=AckPolicy.ALL)
    site.publish(b"a", b"a", b"a")
    site.ack(site.take("C", 3)[1])
    assert site.kept == [3]


def many_taken(site: Site, count: int) -> list[bytes]:
    """Ack subjects of as many messages, none of which is acknowledged."""
    site.consumer("C", ack_policy=AckPolicy.ALL, max_ack_pending=-1)
    site.publish(*[b"a"] * count)
    return site.take("C", count)


def test_ack_all_of_many_messages_is_done_in_slices_and_answered_behind_the_last() -> None:
    site = Site(RetentionPolicy.INTEREST)
    subjects = many_taken(site, 5000)
    site.world.send(subjects[4499], b"+ACK", reply=b"answer")
    assert 500 < len(site.kept) < 5000
    assert not site.answers(b"answer")
    site.world.send(subjects[4499], b"+ACK", reply=b"again")
    assert not site.answers(b"again")
    site.world.settle()
    assert site.kept == list(range(4501, 5001))
    assert len(site.answers(b"answer")) == len(site.answers(b"again")) == 1
    consumer = site.stream.consumers["C"]
    assert (consumer.ledger.floor_sseq, len(consumer.ledger.pending)) == (4500, 500)


def test_ack_all_of_many_messages_ends_when_the_consumer_begins_anew() -> None:
    site = Site(RetentionPolicy.LIMITS)
    subjects = many_taken(site, 5000)
    site.world.send(subjects[4499], b"+ACK")
    consumer = site.stream.consumers["C"]
    assert 0 < consumer.ledger.floor_sseq < 4500
    consumer.reset(1)
    site.world.settle()
    assert (consumer.ledger.floor_dseq, consumer.ledger.floor_sseq) == (0, 0)


def test_ack_all_of_many_messages_ends_with_the_consumer() -> None:
    site = Site(RetentionPolicy.LIMITS)
    subjects = many_taken(site, 5000)
    site.world.send(subjects[4499], b"+ACK", reply=b"answer")
    site.stream.consumers.remove(site.stream.consumers["C"])
    site.world.settle()
    assert not site.answers(b"answer")


@pytest.mark.parametrize("acknowledged", [0, 2])
def test_a_stream_that_turns_to_interest_lets_go_what_is_settled(acknowledged: int) -> None:
    site = Site(RetentionPolicy.LIMITS)
    site.consumer("C", filter_subject="a")
    site.publish(b"a", b"b", b"a")
    site.ack(*site.take("C", acknowledged or 1)[:acknowledged])
    config = msgspec.structs.replace(site.stream.config, retention=RetentionPolicy.INTEREST)
    site.account.update(site.stream, config)
    site.world.settle()
    assert site.kept == ([] if acknowledged else [1, 3])
    site.publish(b"a")
    site.ack(*site.take("C", 9))
    assert site.kept == ([] if acknowledged else [1])  # the first one is still in flight


def test_a_restart_lets_go_what_was_acknowledged_before() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C")
    site.publish(b"a", b"a")
    replies = site.take("C", 2)
    ledger = site.stream.consumers["C"].ledger
    ledger.ack(1)  # as if the power had gone before the message was removed
    site.stream.consumers.interest.recovered()
    assert site.kept == [2]
    assert len(replies) == 2


def test_a_consumer_that_nobody_asks_does_not_hear_about_commits() -> None:
    site = Site(RetentionPolicy.LIMITS)
    site.consumer("C")
    site.publish(b"a")
    assert not site.stream.consumers.awaiting_commit
    site.take("C", 5)
    assert not site.stream.consumers.awaiting_commit
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"5", reply=b"_INBOX.me")
    site.world.settle()
    assert list(site.stream.consumers.awaiting_commit) == [site.stream.consumers["C"]]


def test_consumers_that_are_put_back_one_by_one_keep_what_the_next_one_needs() -> None:
    site = Site(RetentionPolicy.INTEREST)
    for name in ("C", "D"):
        site.consumer(name)
    site.publish(b"a", b"a")
    site.ack(*site.take("C", 2))
    back = Site(RetentionPolicy.LIMITS)
    back.publish(b"a", b"a")
    back.stream.config = site.stream.config
    manager = back.stream.consumers
    for name in ("C", "D"):
        consumer = site.stream.consumers[name]
        manager.put_back(name, consumer.config, consumer.created_ns, state_of(consumer.ledger))
    manager.all_are_back()
    assert back.kept == [1, 2]


def test_a_consumer_without_acks_that_was_reset_lets_go_what_it_delivers_again() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C")
    site.consumer("N", ack_policy=AckPolicy.NONE, max_ack_pending=0)
    site.publish(b"a", b"a", b"a")
    site.take("N", 3)
    site.stream.consumers["N"].reset(1)
    site.ack(*site.take("C", 3))
    assert site.kept == [1, 2, 3]
    site.take("N", 3)
    assert site.kept == []


def test_a_consumer_that_goes_lets_go_what_it_gave_up_and_what_it_never_got() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", max_deliver=1, ack_wait=SECOND)
    site.consumer("D")
    site.publish(b"a", b"a", b"a")
    _, second = site.take("C", 2)
    site.world.advance(2)
    site.ack(second)
    site.ack(*site.take("D", 3))
    assert site.kept == [1, 3]
    site.stream.consumers["C"].delete()
    assert site.kept == []


def test_the_messages_of_a_consumer_that_goes_are_looked_through_in_turn_with_other_work() -> None:
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", filter_subject="a")
    site.consumer("D", filter_subject="b")
    count = MOST_ITEMS + 10
    site.publish(*[b"a"] * count, b"b")
    site.stream.consumers["C"].delete()
    assert len(site.kept) > 1
    site.world.settle()
    assert site.kept == [count + 1]


def test_what_a_consumer_gave_up_is_let_go_in_slices_when_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", 3)
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C", max_deliver=1, ack_wait=SECOND)
    site.consumer("D", filter_subject="b")
    site.publish(*[b"a"] * 10)
    site.take("C", 10)
    site.world.advance(2)
    assert site.kept == list(range(1, 11))
    site.stream.consumers["C"].delete()
    assert len(site.kept) == 9
    site.world.settle()
    assert site.kept == []


@pytest.fixture
def letting_go(monkeypatch: pytest.MonkeyPatch) -> Site:
    """A stream that is in the middle of letting go ten messages, whose consumer has gone."""
    monkeypatch.setattr(slices, "MOST_ITEMS", 3)
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C")
    site.consumer("D", filter_subject="b")
    site.publish(*[b"a"] * 10)
    site.stream.consumers["C"].delete()
    return site


def test_a_consumer_that_comes_while_messages_are_let_go_keeps_what_it_needs(
    letting_go: Site,
) -> None:
    site = letting_go
    settings = ConsumerConfig(durable_name="E", name="E", ack_policy=AckPolicy.EXPLICIT, ack_wait=SECOND)
    site.stream.consumers.add(settings, "E")
    left = site.kept
    site.world.settle()
    assert site.kept == left != []


def test_a_stream_that_begins_to_keep_everything_while_messages_are_let_go_loses_no_more(
    letting_go: Site,
) -> None:
    site = letting_go
    site.account.update(
        site.stream, msgspec.structs.replace(site.stream.config, retention=RetentionPolicy.LIMITS)
    )
    left = site.kept
    site.world.settle()
    assert site.kept == left != []


def test_a_stream_that_is_deleted_while_messages_are_let_go_loses_no_more(
    letting_go: Site,
) -> None:
    site = letting_go
    left = site.stream.log.messages
    site.account.delete(site.stream)
    site.world.settle()
    assert site.stream.log.messages == left > 0


def test_a_double_ack_at_a_consumer_in_memory_is_answered_when_its_message_is_gone_for_good() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C", mem_storage=True)
    site.publish(b"a")
    [ack] = site.take("C", 1)
    site.world.send(ack, b"+ACK", reply=b"me")
    assert b"me" not in [each.subject for each in site.world.published]
    site.world.settle()
    assert b"me" in [each.subject for each in site.world.published]
    assert site.kept == []


@pytest.mark.parametrize("committed", [False, True])
def test_what_is_left_is_not_counted_again_when_only_delivered_messages_leave(committed: bool) -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C", filter_subject="a")
    site.publish(*[b"a", b"b"] * 5)
    first, second = site.take("C", 2)
    feed = site.stream.consumers["C"].feed
    recounts = feed.recounts
    site.world.send(first, b"+ACK")
    if committed:
        site.world.settle()
    assert (feed.count(), feed.recounts) == (3, recounts)
    site.world.send(second, b"+ACK")
    site.stream.log.remove(7)
    if committed:
        site.stream.account.committer.dirty(site.stream)
        site.world.settle()
    assert (feed.count(), feed.recounts) == (2, recounts + 1)
