"""Matching of subjects and patterns, by example."""

import pytest

from millstream.subjects.match import collide, is_subset, matches


@pytest.mark.parametrize(
    ("subject", "pattern", "result"),
    [
        (b"foo", b"foo", True),
        (b"foo", b"fo", False),
        (b"fo", b"foo", False),
        (b"foo", b"Foo", False),
        (b"foo.bar", b"foo", False),
        (b"foo", b"foo.bar", False),
        (b"foo.bar", b"foo.bar", True),
        (b"foo.bar", b"foo.*", True),
        (b"foo.bar", b"*.bar", True),
        (b"foo.bar", b"*.*", True),
        (b"foo.bar", b"*", False),
        (b"foo", b"*", True),
        (b"foo", b"*.*", False),
        (b"foo.bar.baz", b"foo.*", False),
        (b"foo.bar.baz", b"foo.*.baz", True),
        (b"foo.bar.baz", b"foo.>", True),
        (b"foo.bar", b"foo.>", True),
        (b"foo", b"foo.>", False),
        (b"foo", b">", True),
        (b"foo.bar", b">", True),
        (b"foo.bar", b"*.>", True),
        (b"foo", b"*.>", False),
        # Wildcards count only when alone in their token.
        (b"foo.bar", b"foo.b*", False),
        (b"foo.b*", b"foo.b*", True),
        (b"foo.*bar", b"foo.*bar", True),
        (b"foo.x", b"foo.>bar", False),
        (b"foo.>bar", b"foo.>bar", True),
        (b"foo.**", b"foo.*", True),
        (b"foo.bar", b"foo.**", False),
        # In a literal subject they are letters.
        (b"foo.*", b"foo.*", True),
        (b"foo.*", b"foo.bar", False),
        (b"foo.>", b"foo.*", True),
        (b"foo.>", b"foo.>", True),
        (b">", b"*", True),
        # Nothing is left for the tail.
        (b"", b">", False),
        (b"foo.", b"foo.>", False),
        # Prefixes of tokens are not tokens.
        (b"foobar.x", b"foo.x", False),
        (b"foo.xy", b"foo.x", False),
        (b"foo.x", b"foo.xy", False),
    ],
)
def test_matches(subject: bytes, pattern: bytes, result: bool) -> None:
    assert matches(subject, pattern) is result


@pytest.mark.parametrize(
    ("subset", "pattern", "result"),
    [
        (b"foo", b"foo", True),
        (b"foo", b"*", True),
        (b"foo.bar", b"foo.*", True),
        (b"foo.*", b"foo.*", True),
        (b"foo.*", b"foo.>", True),
        (b"foo.>", b"foo.>", True),
        (b"foo.>", b"foo.*", False),
        (b"*", b"foo", False),
        (b">", b"*", False),
        (b"*", b">", True),
        (b">", b">", True),
        (b"foo.*.baz", b"foo.>", True),
        (b"foo.>", b">", True),
        (b"foo", b"foo.>", False),
        (b"foo.bar.>", b"foo.*.>", True),
        (b"foo.bar", b"foo", False),
        # What can be published but not subscribed to:
        (b"foo..bar", b"foo.*.bar", False),
        (b"foo.", b"foo.>", True),
        (b"foo.>.bar", b"foo.*.bar", False),
        (b"foo.>.bar", b"foo.>", True),
    ],
)
def test_is_subset(subset: bytes, pattern: bytes, result: bool) -> None:
    assert is_subset(subset, pattern) is result


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (b"foo", b"foo", True),
        (b"foo", b"bar", False),
        (b"foo.*", b"*.bar", True),
        (b"foo.*", b"bar.*", False),
        (b"foo.>", b"*.*.baz", True),
        (b"foo.>", b"foo", False),
        (b"foo.>", b">", True),
        (b"foo.*", b"foo", False),
        (b"foo.*.x", b"foo.y.*", True),
        (b"foo.*.x", b"foo.y.z", False),
        (b"foo.bar", b"foo.bar.baz", False),
    ],
)
def test_collide_both_ways_round(left: bytes, right: bytes, result: bool) -> None:
    assert collide(left, right) is result
    assert collide(right, left) is result
