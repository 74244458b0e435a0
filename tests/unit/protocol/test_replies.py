"""Answers gathered in one buffer."""

import pytest

from millstream.protocol.replies import Replies


def test_answers_come_back_as_they_were_added() -> None:
    replies = Replies()
    replies.add(b"..me.1..", 2, 4, 7, b"}")
    replies.add(b"", 0, 0, 2**64 - 1, b"")
    assert list(replies) == [(b"me.1", 7, b"}"), (b"", 2**64 - 1, b"")]
    assert len(replies) == replies.count == 2


def test_others_follow_those_that_are_there() -> None:
    first, second = Replies(), Replies()
    first.add(b"a", 0, 1, 1, b"x")
    second.add(b"b", 0, 1, 2, b"y")
    first.extend(second)
    first.extend(Replies())
    assert list(first) == [(b"a", 1, b"x"), (b"b", 2, b"y")]
    assert list(second) == [(b"b", 2, b"y")]


@pytest.mark.parametrize(("start", "size"), [(-1, 1), (0, 5), (3, 2), (0, -1), (0, 70_000)])
def test_what_does_not_lie_in_its_source_is_refused(start: int, size: int) -> None:
    replies = Replies()
    with pytest.raises(ValueError, match="does not fit"):
        replies.add(b"me.1", start, size, 1, b"")
    assert list(replies) == []
