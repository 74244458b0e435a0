"""Rollups that displace much: in slices, answered at their end, and safe when they are cut short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream.base import slices
from millstream.protocol import headers
from millstream.store import purge
from tests.kits.jetstream.stream import Site

MANY = 20
ROLLUP = b"Nats-Rollup"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "STRETCH", 3)
    monkeypatch.setattr(slices, "MOST_ITEMS", 3)


def filled(**config: Any) -> Site:
    """A stream S with many messages of s.a and one of s.b."""
    site = Site()
    site.create(allow_rollup_hdrs=True, **config)
    for _ in range(MANY):
        site.world.send(b"s.a")
    site.world.send(b"s.b")
    site.world.settle()
    return site


def roll_up(site: Site, subject: bytes, kind: bytes, reply: bytes = b"rollup") -> None:
    site.world.send(subject, b"new", reply=reply, headers=headers.make((ROLLUP, kind)))


def answers(site: Site, reply: bytes) -> list[dict[str, Any]]:
    return [json.loads(answer.payload) for answer in site.sent(reply)]


def kept(site: Site) -> list[int]:
    log = site.account.stream("S").log
    return list(log.sequences(1, log.last_seq))


@pytest.mark.parametrize(("kind", "left"), [(b"sub", [MANY + 1, MANY + 2]), (b"all", [MANY + 2])])
def test_much_goes_in_slices_and_the_publisher_is_answered_at_the_end(kind: bytes, left: list[int]) -> None:
    site = filled()
    roll_up(site, b"s.a", kind)
    rounds = 0
    while not answers(site, b"rollup"):
        before = len(kept(site))
        assert before > len(left) or rounds
        site.world.settle_once()
        assert before - len(kept(site)) <= 6
        rounds += 1
        assert rounds < 100
    assert kept(site) == left
    assert answers(site, b"rollup") == [{"stream": "S", "seq": MANY + 2}]
    assert rounds > 3


def test_others_are_answered_and_stored_meanwhile() -> None:
    site = filled()
    roll_up(site, b"s.a", b"sub")
    site.world.send(b"s.a", b"later", reply=b"later")
    for _ in range(3):
        site.world.settle_once()
    assert [answer["seq"] for answer in answers(site, b"later")] == [MANY + 3]
    assert answers(site, b"rollup") == []
    site.world.settle()
    assert answers(site, b"rollup") == [{"stream": "S", "seq": MANY + 2}]
    assert kept(site) == [MANY + 1, MANY + 2, MANY + 3]


def test_rollups_are_done_one_after_the_other() -> None:
    site = filled()
    roll_up(site, b"s.a", b"sub", b"1")
    roll_up(site, b"s.b", b"all", b"2")
    site.world.settle()
    order = [each.subject for each in site.world.published if each.subject in (b"1", b"2")]
    assert order == [b"1", b"2"]
    assert kept(site) == [MANY + 3]


def test_a_batch_is_answered_when_all_its_rollups_have_displaced_everything() -> None:
    site = filled(allow_atomic=True)

    def add(number: int, subject: bytes, *more: tuple[bytes, bytes], reply: bytes = b"") -> None:
        block = headers.make((b"Nats-Batch-Id", b"x"), (b"Nats-Batch-Sequence", b"%d" % number), *more)
        site.world.send(subject, b"", reply=reply, headers=block)

    add(1, b"s.a", (ROLLUP, b"sub"))
    add(2, b"s.c", (b"Nats-Batch-Commit", b"1"), reply=b"batch")
    while not answers(site, b"batch"):
        site.world.settle_once()
    assert kept(site) == [MANY + 1, MANY + 2, MANY + 3]


def test_a_stream_that_is_deleted_meanwhile_answers_nobody() -> None:
    site = filled()
    roll_up(site, b"s.a", b"sub")
    site.ask("STREAM.DELETE.S")
    site.world.settle()
    assert answers(site, b"rollup") == []
    site.create(allow_rollup_hdrs=True)
    assert site.publish("s.a", Nats_Rollup="sub")["seq"] == 1


def test_a_purge_meanwhile_leaves_nothing_to_displace() -> None:
    site = filled()
    roll_up(site, b"s.a", b"sub")
    assert site.ask("STREAM.PURGE.S")["success"]
    site.world.settle()
    assert kept(site) == []
    assert answers(site, b"rollup") == [{"stream": "S", "seq": MANY + 2}]


def test_a_crash_in_the_middle_leaves_the_message_and_the_rest() -> None:
    site = filled()
    roll_up(site, b"s.a", b"sub")
    for _ in range(3):
        site.world.settle_once()
    assert answers(site, b"rollup") == []
    again = site.restarted(orderly=False)
    left = kept(again)
    assert left[-2:] == [MANY + 1, MANY + 2]
    assert 2 < len(left) < MANY + 2


def test_a_server_that_stops_meanwhile_removes_nothing_more() -> None:
    site = filled()
    roll_up(site, b"s.a", b"sub")
    site.account.stop()
    site.world.settle()
    assert answers(site, b"rollup") == []
    assert kept(site.restarted(orderly=False))[-1] == MANY + 2
