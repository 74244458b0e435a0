"""Subjects as deep as a raised `max_control_line` allows cost no stack."""

from __future__ import annotations

import pytest

from millstream.subjects.tree import SubjectTree
from tests.kits.security.gate import client, running

DEPTH = 400_000
ENOUGH = 100_000  # for the stack: a hundred bytes for each would be more than it has


@pytest.mark.parametrize("token", [b"a", b"*"])
@pytest.mark.parametrize("last", [b"", b".>"])
def test_a_deep_pattern_is_found_and_forgotten(token: bytes, last: bytes) -> None:
    tree = SubjectTree()
    pattern = b".".join([token] * ENOUGH) + last
    subject = b".".join([b"a"] * (ENOUGH + (1 if last else 0)))
    tree.insert(pattern, None, "value")
    assert tree.match(subject).plain == ["value"]
    assert tree.match(subject + b".b.c").plain == (["value"] if last else [])
    tree.match_any_last(subject)
    tree.match_any_tail(subject)
    tree.remove(pattern, None, "value")
    assert tree.root.is_empty()
    tree.insert(pattern, None, "value")
    del tree  # what is left of it goes without recursion, too


def test_a_deep_subscription_does_not_end_the_server() -> None:
    subject = b".".join([b"a"] * DEPTH)
    with running("max_control_line: 1MB") as server, client(server) as user:
        user.round_trip(b"SUB %b 1\r\nSUB %b 2\r\n" % (subject, b".".join([b"*"] * DEPTH)))
        user.wire.send(b"PUB %b 2\r\nhi\r\n" % subject)
        assert user.wire.read_frame().endswith(b"hi\r\n")
        assert user.wire.read_frame().endswith(b"hi\r\n")
        user.round_trip(b"UNSUB 1\r\nUNSUB 2\r\n")
        with client(server) as other:
            assert other.round_trip() == b""
