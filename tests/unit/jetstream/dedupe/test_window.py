"""Ids of messages, and how long they are known."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.dedupe.window import Dedupe

WINDOW = 10


class Model:
    """A naive duplicate window: each id with its last sequence and time."""

    def __init__(self) -> None:
        self.seen: dict[bytes, tuple[int, int]] = {}

    def find(self, message_id: bytes, now: int) -> int:
        seq, time = self.seen.get(message_id, (0, now - WINDOW))
        return seq if time > now - WINDOW else 0

    def known(self, now: int) -> int:
        return sum(time > now - WINDOW for _, time in self.seen.values())


def test_an_id_is_known_for_as_long_as_the_window() -> None:
    ids = Dedupe(10)
    ids.add(b"a", 7, now_ns=100)
    assert ids.find(b"a", now_ns=109) == 7
    assert ids.find(b"b", now_ns=109) == 0
    assert ids.find(b"a", now_ns=110) == 0
    assert len(ids) == 0


def test_old_ids_go_and_newer_ones_stay() -> None:
    ids = Dedupe(10)
    ids.add(b"a", 1, now_ns=100)
    ids.add(b"b", 2, now_ns=105)
    assert ids.find(b"b", now_ns=112) == 2
    assert len(ids) == 1


def test_an_id_that_comes_again_is_known_from_then_on() -> None:
    ids = Dedupe(10)
    ids.add(b"a", 1, now_ns=100)
    ids.add(b"b", 2, now_ns=105)
    ids.add(b"a", 3, now_ns=112)
    assert ids.find(b"a", now_ns=114) == 3
    assert ids.find(b"b", now_ns=114) == 2


def test_the_last_message_has_an_id_only_if_it_came_with_one() -> None:
    ids = Dedupe(10)
    assert ids.id_of(0) == b""
    ids.add(b"a", 1, now_ns=100)
    assert ids.id_of(1) == b"a"
    assert ids.id_of(2) == b""


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 4), st.booleans())))
def test_ids_that_come_again_and_again(steps: list[tuple[bytes, int, bool]]) -> None:
    ids, model, now = Dedupe(WINDOW), Model(), 0
    for seq, (message_id, later, unseen) in enumerate(steps, 1):
        now += later
        assert ids.find(message_id, now) == model.find(message_id, now)
        assert len(ids) >= model.known(now)
        if unseen or not model.find(message_id, now):  # it is also added where nobody looked before
            ids.add(message_id, seq, now)
            model.seen[message_id] = (seq, now)


@pytest.mark.parametrize("seed", range(2))
def test_many_ids_come_and_go(seed: int) -> None:
    """There are enough ids for tables to grow and shrink, and for entries to be cut off."""
    generator = random.Random(seed)
    ids, model, now = Dedupe(WINDOW), Model(), 0
    for seq in range(1, 20_000):
        if generator.random() < 0.001:
            now += generator.choice([1, 2, WINDOW])
        message_id = b"%d" % generator.randrange(10_000)
        assert ids.find(message_id, now) == model.find(message_id, now)
        if not model.find(message_id, now):
            ids.add(message_id, seq, now)
            model.seen[message_id] = (seq, now)
    for message_id in model.seen:
        assert ids.find(message_id, now) == model.find(message_id, now)
    assert len(ids) == model.known(now)  # after so many looks, all that are old are forgotten
    assert ids.find(b"1", now + WINDOW) == 0
    assert len(ids) == 0


def test_numbers_of_entries_begin_anew_after_four_billion() -> None:
    ids = Dedupe(WINDOW)
    if not hasattr(ids.recent, "_cut_entries"):
        pytest.skip("compiled, nobody can look inside")
    ids.recent._cut_entries = 2**32 - 5
    for seq in range(1, 11):
        ids.add(b"%d" % seq, seq, seq)
    assert [ids.find(b"%d" % seq, 12) for seq in range(1, 11)] == [0, 0, *range(3, 11)]
