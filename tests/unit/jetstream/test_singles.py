"""The last message of each subject, gathered and delivered while messages come and go."""

from __future__ import annotations

import itertools
import json

import pytest

from millstream.base import slices
from millstream.base.slices import finish
from millstream.jetstream.consumers import last_messages as module
from millstream.jetstream.consumers.last_messages import LastOfEach, Singles
from tests.kits.jetstream.stream import Site

CONFIG = {
    "durable_name": "d",
    "ack_policy": "explicit",
    "deliver_policy": "last_per_subject",
    "filter_subject": "s.*",
}


def taken(of: Singles) -> list[int]:
    found = []
    while of.first:
        found.append(of.first)
        of.pop()
    return found


def test_singles_are_delivered_in_order() -> None:
    of = Singles([2, 5, 9])
    assert len(of) == 3
    assert taken(of) == [2, 5, 9]
    assert len(of) == 0


def test_what_is_removed_is_neither_counted_nor_delivered() -> None:
    of = Singles([2, 5, 9, 12])
    of.removed([1, 5, 9, 9, 100])
    assert len(of) == 2
    of.removed([5])
    assert of.left() == [2, 12]
    assert taken(of) == [2, 12]
    of.removed([2])
    assert len(of) == 0


def test_what_lies_below_is_passed_over() -> None:
    of = Singles([2, 5, 9, 12])
    of.removed([5, 12])
    of.skip_to(6)
    assert len(of) == 1
    assert taken(of) == [9]


@pytest.fixture
def site() -> Site:
    site = Site()
    site.create()
    for number in range(12):
        site.publish(f"s.{number % 4}")  # the last ones are 9 to 12
    return site


def test_patterns_that_overlap_find_a_message_once(site: Site) -> None:
    lasts = LastOfEach(site.account.stream("S").log, (b"s.1", b"s.*"))
    assert finish(lasts.gather()).left() == [9, 10, 11, 12]
    assert lasts.resume == 13


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_messages_may_come_and_go_while_lasts_are_gathered(
    site: Site, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", 1)
    manager = site.account.stream("S").consumers
    gathering = manager.find_lasts(())
    for _ in itertools.islice(gathering, steps):
        pass
    site.publish("s.0")
    site.ask("STREAM.MSG.DELETE.S", {"seq": 10})
    site.ask("STREAM.PURGE.S", {"filter": "s.2"})
    start = finish(gathering)
    assert start.singles is not None
    left = start.singles.left()
    # Nothing that is gone, nothing twice: what came meanwhile is delivered from `resume` on.
    assert set(left) <= {9, 6, 12}
    assert 12 in left
    assert start.resume == 13
    assert manager.stream.log.gone is None


def test_a_consumer_is_made_in_slices_and_counts_what_is_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", 1)
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    body = json.dumps({"stream_name": "S", "config": CONFIG}).encode()
    site.world.send(b"$JS.API.CONSUMER.DURABLE.CREATE.S.d", body, reply=b"answer")
    site.account.stream("S").log.remove(12)
    site.account.committer.dirty(site.account.stream("S"))
    site.world.settle()
    [answer] = site.sent(b"answer")
    assert json.loads(answer.payload)["num_pending"] in (3, 4)  # with the one before 12, or without
    assert len(site.world.slices) > 4
    site.ask("STREAM.MSG.DELETE.S", {"seq": 9})
    info = site.ask("CONSUMER.INFO.S.d")
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.d", b'{"batch":10,"no_wait":true}', reply=b"inbox")
    site.world.settle()
    got = [each for each in site.world.delivered if each.to == b"inbox"]
    assert len(got) == info["num_pending"]
    assert got[-1].reply.endswith(b".0")


def test_a_stream_that_is_deleted_meanwhile_has_no_consumer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", 1)
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    body = json.dumps({"stream_name": "S", "config": CONFIG}).encode()
    site.world.send(b"$JS.API.CONSUMER.DURABLE.CREATE.S.d", body, reply=b"answer")
    site.ask("STREAM.DELETE.S")
    site.world.settle()
    [answer] = site.sent(b"answer")
    assert json.loads(answer.payload)["error"]["err_code"] == 10059


# -- other filters --------------------------------------------------------------------------------


def change_filters(site: Site, *filters: str) -> None:
    """Ask for other filters."""
    config = {key: value for key, value in CONFIG.items() if key != "filter_subject"}
    body = {"stream_name": "S", "config": {**config, "filter_subjects": list(filters)}}
    site.world.send(
        b"$JS.API.CONSUMER.DURABLE.CREATE.S.d", json.dumps(body).encode(), reply=b"_INBOX.changed"
    )


@pytest.fixture
def many() -> Site:
    """A stream with 400 subjects, of which a consumer has the last messages, 401 to 800, before it."""
    site = Site()
    site.create()
    for number in range(800):
        site.publish(f"s.{number % 400}")
    body = json.dumps({"stream_name": "S", "config": CONFIG}).encode()
    site.world.request(b"$JS.API.CONSUMER.DURABLE.CREATE.S.d", body)
    site.world.settle()
    return site


def left_of(site: Site, most: int = 1000) -> list[int]:
    """Pull what the consumer has, and return the sequences."""
    site.world.delivered.clear()
    body = b'{"batch": %d, "no_wait": true}' % most
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.d", body, reply=b"_INBOX.me")
    site.world.settle()
    return [int(each.reply.split(b".")[5]) for each in site.world.delivered if each.reply]


def test_other_filters_are_looked_through_in_slices(many: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    consumer = many.account.stream("S").consumers["d"]
    change_filters(many, "s.1", "s.7", "s.399")
    assert consumer.patterns == (b"s.*",)  # not yet
    many.world.settle()
    assert set(consumer.patterns) == {b"s.1", b"s.7", b"s.399"}
    assert consumer.feed.count() == 3
    assert left_of(many) == [402, 408, 800]


@pytest.mark.parametrize("steps", range(0, 16, 3))
def test_what_happens_while_messages_are_looked_through_counts(many: Site, steps: int) -> None:
    consumer = many.account.stream("S").consumers["d"]
    sifting = consumer.feed.sift((b"s.1", b"s.7", b"s.200", b"s.399"))
    for _ in itertools.islice(sifting, steps):
        pass
    got = left_of(many, 2)
    many.ask("STREAM.MSG.DELETE.S", {"seq": 601})
    many.world.settle()
    sifted = finish(sifting)
    consumer.feed.choose((b"s.1", b"s.7", b"s.200", b"s.399"), sifted)
    assert got == [401, 402]
    assert consumer.feed.count() == 2
    assert left_of(many) == [408, 800]


def test_a_result_for_other_messages_is_not_used(many: Site) -> None:
    consumer = many.account.stream("S").consumers["d"]
    sifted = finish(consumer.feed.sift((b"s.1",)))
    consumer.reset(None)
    assert consumer.feed.must_sift((b"s.1",), sifted)
    assert consumer.feed.must_sift((b"s.2",), finish(consumer.feed.sift((b"s.1",))))
    consumer.feed.choose((b"s.1",), sifted)
    assert left_of(many) == [402]


def test_a_consumer_that_is_deleted_meanwhile_is_created(many: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    change_filters(many, "s.1", "s.7")
    many.world.request(b"$JS.API.CONSUMER.DELETE.S.d", b"")
    many.world.settle()
    consumer = many.account.stream("S").consumers["d"]
    assert set(consumer.patterns) == {b"s.1", b"s.7"}
    assert left_of(many) == [402, 408]
