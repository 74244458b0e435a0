"""The subscriptions of a stream follow its subjects, in slices and without losing a message."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.base.slices import finish
from millstream.jetstream.stream.captures import Captures


class Listening:
    """A list of the subjects that are listened to, and what happened."""

    def __init__(self) -> None:
        self.subjects: list[bytes] = []
        self.history: list[str] = []

    def capture(self, subject: bytes) -> bytes:
        self.history.append("+" + subject.decode())
        self.subjects.append(subject)
        return subject

    def release(self, handle: bytes) -> None:
        self.history.append("-" + handle.decode())
        self.subjects.remove(handle)


def made(*subjects: str) -> tuple[Captures, Listening]:
    listening = Listening()
    world: Any = listening
    captures = Captures(world, listening.capture)
    finish(captures.follow(subjects))
    listening.history.clear()
    return captures, listening


def test_only_the_difference_changes() -> None:
    captures, listening = made("a", "b.*", "c")
    finish(captures.follow(["b.*", "d", "c"]))
    assert listening.history == ["-a", "+d"]


def test_a_subject_that_is_named_twice_is_captured_once() -> None:
    _, listening = made("a", "a")
    assert listening.subjects == [b"a"]


def test_subjects_with_common_messages_are_exchanged_in_one_step() -> None:
    captures, listening = made("a.*", "b", "c.x")
    change = captures.follow(["a.>", "c.*", "d"])
    for _ in change:
        assert b"a.*" in listening.subjects
        assert b"c.x" in listening.subjects
    assert listening.history == ["-b", "+d", "-a.*", "-c.x", "+a.>", "+c.*"]


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_later_change_ends_the_one_before(steps: int) -> None:
    captures, listening = made("a", "b")
    change = captures.follow(["c", "d"])
    for _ in range(steps):
        next(change, None)
    finish(captures.follow(["e", "b"]))
    finish(change)
    assert sorted(listening.subjects) == [b"b", b"e"]


@pytest.mark.parametrize("steps", range(1, 12))
def test_nothing_is_left_after_a_stop(steps: int) -> None:
    captures, listening = made("a", "b")
    change = captures.follow(["c", "d"])
    for _ in range(steps):
        next(change, None)
    captures.stop()
    finish(change)
    assert listening.subjects == []
