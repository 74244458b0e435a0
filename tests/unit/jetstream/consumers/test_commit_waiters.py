"""Consumers that a commit wakes."""

from __future__ import annotations

import pytest

from millstream.jetstream.consumers.commit_waiters import AwaitingCommit
from millstream.jetstream.consumers.consumer import Consumer
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.fake_world import FakeWorld

MANY = 30


class Site:
    """A stream, consumers of it, and those of them that are awaiting commit."""

    def __init__(self) -> None:
        self.world = FakeWorld()
        config = StreamConfig(
            name="S",
            subjects=["a.*"],
            max_msgs=-1,
            max_bytes=-1,
            max_msgs_per_subject=-1,
            max_msg_size=-1,
            max_consumers=-1,
        )
        self.stream: Stream = self.world.account().add(config)
        self.awaiting_commit = AwaitingCommit()

    def consumer(self, name: str, *filters: str) -> Consumer:
        config = ConsumerConfig(
            durable_name=name,
            name=name,
            ack_policy=AckPolicy.NONE,
            max_deliver=-1,
            max_waiting=512,
            filter_subjects=list(filters),
        )
        return self.stream.consumers.add(config, name)

    def crowd(self) -> None:
        """Add so many consumers that they are found by their subjects."""
        for number in range(MANY):
            self.awaiting_commit.add(self.consumer(f"one{number}", f"a.{number}"))

    def publish(self, *subjects: bytes) -> None:
        for subject in subjects:
            self.world.send(subject, b"x")
        self.world.settle()

    def concerned(self) -> list[str]:
        return sorted(consumer.name for consumer in self.awaiting_commit.committed(self.stream.log))


def test_a_commit_is_told_to_those_who_want_its_subjects() -> None:
    site = Site()
    site.crowd()
    site.publish(b"a.3", b"a.7", b"a.3", b"a.other")
    assert site.concerned() == ["one3", "one7"]


def test_the_same_messages_are_told_once() -> None:
    site = Site()
    site.crowd()
    site.publish(b"a.3")
    site.concerned()
    assert site.concerned() == []
    site.publish(b"a.4")
    assert site.concerned() == ["one4"]


def test_those_without_a_plain_subject_hear_of_every_commit() -> None:
    site = Site()
    site.crowd()
    site.awaiting_commit.add(site.consumer("all"))
    site.awaiting_commit.add(site.consumer("wild", "a.*"))
    site.publish(b"a.1")
    assert site.concerned() == ["all", "one1", "wild"]


def test_who_wants_several_subjects_is_told_about_each() -> None:
    site = Site()
    site.crowd()
    site.awaiting_commit.add(site.consumer("two", "a.x", "a.y"))
    for subject in (b"a.x", b"a.y"):
        site.publish(subject)
        assert site.concerned() == ["two"]


def test_a_few_look_for_themselves() -> None:
    site = Site()
    site.awaiting_commit.add(site.consumer("one", "a.1"))
    site.publish(b"a.2")
    assert site.concerned() == ["one"]


def test_a_consumer_that_stopped_waiting_is_not_woken() -> None:
    site = Site()
    site.crowd()
    two = site.consumer("two", "a.3", "a.4")
    site.awaiting_commit.add(two)
    site.awaiting_commit.discard(two)
    site.awaiting_commit.discard(two)
    site.publish(b"a.3")
    assert site.concerned() == ["one3"]
    assert two not in list(site.awaiting_commit)


def test_another_filter_counts_when_the_consumer_awaits_commit_again() -> None:
    site = Site()
    site.crowd()
    consumer = site.stream.consumers["one3"]
    consumer.patterns = (b"a.x",)
    site.awaiting_commit.add(consumer)
    site.publish(b"a.3")
    assert site.concerned() == []
    site.publish(b"a.x")
    assert site.concerned() == ["one3"]


@pytest.mark.parametrize("number", [0, 11, MANY - 1])
def test_a_waiting_pull_of_a_filtered_consumer_is_served_by_the_commit(number: int) -> None:
    site = Site()
    site.crowd()
    for each in range(MANY):
        place = b"$JS.API.CONSUMER.MSG.NEXT.S.one%d" % each
        site.world.send(place, b'{"batch":2,"expires":9000000000}', reply=b"_INBOX.%d" % each)
    site.world.settle()
    site.world.delivered.clear()
    site.publish(b"a.%d" % number)
    assert [message.to for message in site.world.delivered] == [b"_INBOX.%d" % number]
