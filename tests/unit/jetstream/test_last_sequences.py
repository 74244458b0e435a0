"""Sequences near 2**64: nothing from outside moves a stream to where it cannot go on or start again."""

import json

import pytest

from millstream.jsapi.limits import LARGEST_SEQ
from tests.kits.jetstream.stream import Site

HUGE = [LARGEST_SEQ + 1, 2**64 - 3, 2**64 - 1]


@pytest.mark.parametrize("seq", HUGE)
def test_a_purge_to_a_sequence_that_leaves_no_room_is_refused(seq: int) -> None:
    site = Site()
    site.create()
    assert site.error("STREAM.PURGE.S", {"seq": seq})[:2] == (500, 10110)
    assert [site.publish("s.1")["seq"] for _ in range(4)] == [1, 2, 3, 4]
    assert site.restarted().state()["messages"] == 4


def test_a_purge_to_the_largest_sequence_leaves_a_stream_that_works_and_starts() -> None:
    site = Site()
    site.create()
    assert site.ask("STREAM.PURGE.S", {"seq": LARGEST_SEQ})["success"]
    for start in range(3):
        found = [site.publish("s.1")["seq"] for _ in range(4)]
        assert found == [LARGEST_SEQ + 4 * start + step for step in range(4)]
        site = site.restarted()
        assert site.account.unrecovered == {}
        assert site.state()["messages"] == 4 * start + 4


@pytest.mark.parametrize("seq", HUGE)
def test_a_first_sequence_that_leaves_no_room_is_refused(seq: int) -> None:
    site = Site()
    assert site.error("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "first_seq": seq})[:2] == (
        500,
        10052,
    )


def test_the_largest_first_sequence_is_taken() -> None:
    site = Site()
    site.create(first_seq=LARGEST_SEQ)
    assert site.publish("s.1")["seq"] == LARGEST_SEQ
    assert site.restarted().publish("s.1")["seq"] == LARGEST_SEQ + 1


@pytest.mark.parametrize("seq", [*HUGE, LARGEST_SEQ])
def test_consumers_and_reads_at_huge_sequences_are_answered(seq: int) -> None:
    site = Site()
    site.create(allow_direct=True)
    site.publish("s.1")
    config = {"name": "c", "durable_name": "c", "deliver_policy": "by_start_sequence", "opt_start_seq": seq}
    made = site.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    assert made.get("num_pending", 0) == 0
    assert "error" in site.ask("STREAM.MSG.GET.S", {"seq": seq})
    assert "error" in site.ask("STREAM.MSG.GET.S", {"seq": seq, "next_by_subj": "s.>"})
    assert "error" in site.ask("STREAM.MSG.DELETE.S", {"seq": seq})
    site.ask("CONSUMER.RESET.S.c", {"seq": seq})
    site.world.send(b"$JS.API.DIRECT.GET.S", json.dumps({"seq": seq}).encode(), reply=b"me")
    site.world.send(b"$JS.API.DIRECT.GET.S", json.dumps({"seq": seq, "batch": 5}).encode(), reply=b"me")
    site.world.settle()
    assert site.publish("s.1")["seq"] == 2
    again = site.restarted()
    assert again.account.unrecovered == {}
    assert again.publish("s.1")["seq"] == 3
