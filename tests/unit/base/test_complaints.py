"""A complaint is logged once a minute for each kind, and the rest is counted."""

import logging

import pytest

from millstream.base import guard
from millstream.base.complaints import Complaints


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_of_a_kind_is_logged_and_the_next_one_after_a_minute_counts_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    complaints = Complaints(logging.getLogger("millstream.test"), clock)
    for _ in range(1000):
        complaints.tell("a", "%s is wrong", "a")
    complaints.tell("b", "%s is wrong", "b")
    assert [record.getMessage() for record in caplog.records] == ["a is wrong", "b is wrong"]
    clock.now += 61
    complaints.tell("a", "%s is wrong", "a")
    assert caplog.records[-1].getMessage() == "a is wrong (and 999 times before)"


def test_the_table_of_kinds_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("millstream.test"), Clock())
    for kind in range(10_000):
        complaints.tell(kind, "x")
    assert len(complaints._kinds) <= 256


def test_who_fails_is_reported_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise ValueError("for this test")

    for _ in range(5):
        assert not guard.alone("a thing of this test", fails)
    assert guard.alone("a thing of this test", lambda: None)
    (record,) = caplog.records
    assert record.getMessage() == "a thing of this test failed: ValueError: for this test"
    assert record.exc_info is not None
