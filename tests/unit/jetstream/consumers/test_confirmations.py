"""Acks that ask for a confirmation: who gets one, when, and what it costs."""

from __future__ import annotations

import msgspec
import pytest

from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from tests.unit.jetstream.consumers.test_interest import Site

RETENTIONS = [RetentionPolicy.LIMITS, RetentionPolicy.WORKQUEUE, RetentionPolicy.INTEREST]


def say(site: Site, reply: bytes, payload: bytes = b"+ACK", to: bytes = b"me") -> None:
    site.world.send(reply, payload, reply=to)


@pytest.fixture(params=RETENTIONS, ids=lambda retention: retention.value)
def site(request: pytest.FixtureRequest) -> Site:
    site = Site(request.param)
    site.consumer("C")
    site.publish(*[b"a"] * 20)
    return site


def entries(site: Site) -> int:
    journal = site.stream.consumers.journal
    assert journal is not None
    return journal.log.last_seq


def test_all_of_a_turn_share_an_entry_of_the_journal(site: Site) -> None:
    replies = site.take("C", 20)
    before = entries(site)
    for number, reply in enumerate(replies[1:]):
        say(site, reply, to=b"me.%d" % number)
    assert not [each for each in site.world.published if each.subject.startswith(b"me.")]
    site.world.settle()
    assert all(site.answers(b"me.%d" % number) == [b""] for number in range(19))
    assert entries(site) - before <= 2
    assert site.stream.consumers["C"].info().num_ack_pending == 1


def test_a_message_that_is_not_pending_is_confirmed_again_unless_it_was_never_delivered(site: Site) -> None:
    reply = site.take("C", 1)[0]
    for _ in range(2):
        say(site, reply)
        site.world.settle()
    assert site.answers(b"me") == [b"", b""]
    say(site, b"$JS.ACK.S.C.1.15.15.0.0", to=b"never")
    site.world.settle()
    assert site.answers(b"never") == []


def test_terminated_messages_are_confirmed_together_with_acknowledged_ones(site: Site) -> None:
    replies = site.take("C", 3)
    for reply, payload in zip(replies, (b"+TERM", b"", b"+TERM no"), strict=True):
        say(site, reply, payload)
    site.world.settle()
    assert site.answers(b"me") == [b""] * 3
    assert site.stream.consumers["C"].info().num_ack_pending == 0


def test_a_consumer_that_is_deleted_meanwhile_confirms_what_it_was_told(site: Site) -> None:
    [reply] = site.take("C", 1)
    say(site, reply)
    site.stream.consumers["C"].delete()
    site.world.settle()
    assert site.answers(b"me") == [b""]


def test_nothing_is_confirmed_after_the_stream_is_gone(site: Site) -> None:
    [reply] = site.take("C", 1)
    say(site, reply)
    site.stream.consumers.abandon()
    site.world.settle()
    assert site.answers(b"me") == []


def test_an_ack_of_all_is_confirmed_when_all_are_settled() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C", ack_policy=AckPolicy.ALL, max_ack_pending=-1)
    site.publish(*[b"a"] * 500)
    replies = site.take("C", 500)
    say(site, replies[-2])
    site.world.settle()
    assert site.answers(b"me") == [b""]
    assert site.kept == [500]
    was = site.stream.consumers["C"].last_ack_ns
    site.world.advance(1)
    say(site, replies[3])  # which is settled already: confirmed, but nothing happened
    site.world.settle()
    assert site.answers(b"me") == [b"", b""]
    assert site.stream.consumers["C"].last_ack_ns == was


def test_an_ack_of_all_counts_after_that_of_an_earlier_message_that_was_delivered_later() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C", ack_policy=AckPolicy.ALL, max_ack_pending=-1)
    site.publish(b"a", b"a")
    [first, second] = site.take("C", 2)
    site.world.send(first, b"-NAK")
    [again] = site.take("C", 1)
    site.ack(again)
    say(site, second)
    site.world.settle()
    assert site.answers(b"me") == [b""]
    assert site.kept == []


def test_a_consumer_with_other_filters_is_told_what_others_let_go() -> None:
    """The consumer's new filter does not match its pending message, which another consumer's ack removes."""
    site = Site(RetentionPolicy.INTEREST)
    site.consumer("C")
    site.consumer("D", filter_subject="a")
    site.publish(b"a")
    site.take("C", 1)
    replies = site.take("D", 1)
    consumer = site.stream.consumers["C"]
    site.stream.consumers.update(consumer, msgspec.structs.replace(consumer.config, filter_subject="b"))
    site.ack(*replies)
    assert site.kept == []
    assert consumer.info().num_ack_pending == 0


def test_what_a_limit_removes_is_told_beside_what_acks_let_go() -> None:
    site = Site(RetentionPolicy.WORKQUEUE)
    site.consumer("C")
    site.publish(*[b"a"] * 4)
    replies = site.take("C", 4)
    site.world.send(replies[1], b"+ACK")
    site.stream.log.remove(3)
    site.world.settle()
    assert site.kept == [1, 4]
    assert sorted(site.stream.consumers["C"].ledger.pending) == [1, 4]
