"""Ids of messages, and how long they are known."""

from millrace.jetstream.dedupe import Dedupe


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


def test_nothing_is_known_after_clearing() -> None:
    ids = Dedupe(10)
    ids.add(b"a", 1, now_ns=100)
    ids.clear()
    assert ids.find(b"a", now_ns=100) == 0
