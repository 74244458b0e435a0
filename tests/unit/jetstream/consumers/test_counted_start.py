"""A new consumer's messages are counted in pieces where they are many, and counted right."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.base.slices import Pieces, finish
from millstream.jetstream.consumers.start import Start, with_count
from millstream.store import counts
from tests.kits.jetstream.stream import Site

MANY = 1_100  # subjects of each kind: more than the index sums up


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """A stream whose one segment counts as many."""
    monkeypatch.setattr(counts, "_FEW_SEGMENTS", 0)
    monkeypatch.setattr(counts, "_FEW_SUBJECTS", MANY - 100)
    site = Site()
    site.create()
    for number in range(MANY):
        site.world.send(b"s.a.%d" % number, b"")
        site.world.send(b"s.b.%d" % number, b"")
    site.world.settle()
    return site


def pending(site: Site, name: str, **config: Any) -> int:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    answer = site.ask(f"CONSUMER.DURABLE.CREATE.S.{name}", body)
    assert "error" not in answer, answer
    found: int = answer["num_pending"]
    return found


def test_the_first_answer_has_the_number(site: Site) -> None:
    assert pending(site, "a", filter_subject="s.a.*") == MANY
    half = {"deliver_policy": "by_start_sequence", "opt_start_seq": MANY + 1}
    assert pending(site, "h", filter_subject="s.a.*", **half) == MANY // 2
    assert pending(site, "n", filter_subject="s.a.*", deliver_policy="new") == 0


def test_what_follows_is_added_and_what_goes_is_counted_again(site: Site) -> None:
    assert pending(site, "a", filter_subject="s.a.*") == MANY
    recounts = site.account.streams["S"].consumers["a"].feed.recounts
    site.publish("s.a.new")
    site.publish("s.b.new")
    info = site.ask("CONSUMER.INFO.S.a")
    assert info["num_pending"] == MANY + 1
    assert site.account.streams["S"].consumers["a"].feed.recounts == recounts == 0
    site.ask("STREAM.PURGE.S", {"filter": "s.a.7"})
    assert site.ask("CONSUMER.INFO.S.a")["num_pending"] == MANY


def test_a_count_is_dropped_if_messages_went_meanwhile(site: Site) -> None:
    log = site.account.streams["S"].log

    def removing(pieces: Pieces[Start]) -> Pieces[Start]:
        yield next(pieces)
        log.remove(1)
        return (yield from pieces)

    whole = finish(with_count(log, Start(1), (b"s.a.*",)))
    assert whole.counted is not None
    assert whole.counted.messages == MANY
    assert finish(removing(with_count(log, Start(1), (b"s.a.*",)))).counted is None
