"""The tree of subscriptions, by example."""

import pytest

from millstream.subjects.tree import SubjectTree


def found(tree: SubjectTree, subject: bytes) -> list[str]:
    return sorted(tree.match(subject).plain)


def test_every_way_of_naming_a_subject_is_found() -> None:
    tree = SubjectTree()
    for pattern in (b"a.b.c", b"a.*.c", b"a.b.*", b"a.>", b"a.b.>", b">", b"*.b.c", b"*.*.*", b"*.>"):
        tree.insert(pattern, None, pattern.decode())
    for pattern in (b"a", b"a.b", b"a.b.c.d", b"a.b.c.>", b"*", b"b.>", b"a.*", b"a.b.c.*"):
        tree.insert(pattern, None, "wrong " + pattern.decode())
    assert found(tree, b"a.b.c") == sorted(
        ["a.b.c", "a.*.c", "a.b.*", "a.>", "a.b.>", ">", "*.b.c", "*.*.*", "*.>"]
    )


def test_wildcards_inside_a_token_are_letters() -> None:
    tree = SubjectTree()
    tree.insert(b"a.b*", None, "star")
    tree.insert(b"a.>b", None, "tail")
    assert found(tree, b"a.bc") == []
    assert found(tree, b"a.b*") == ["star"]
    assert found(tree, b"a.>b") == ["tail"]


def test_a_tail_that_is_not_last_is_a_letter() -> None:
    tree = SubjectTree()
    tree.insert(b"a.>.b", None, "odd")
    assert found(tree, b"a.x.b") == []
    assert found(tree, b"a.>.b") == ["odd"]
    tree.remove(b"a.>.b", None, "odd")
    assert tree.root.is_empty()


def test_a_literal_star_or_tail_reaches_only_wildcards() -> None:
    tree = SubjectTree()
    for pattern in (b"a.*", b"a.>", b"a.b"):
        tree.insert(pattern, None, pattern.decode())
    assert found(tree, b"a.*") == ["a.*", "a.>"]
    assert found(tree, b"a.>") == ["a.*", "a.>"]


@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b".."])
def test_a_subject_with_an_empty_token_reaches_nobody(subject: bytes) -> None:
    tree = SubjectTree()
    for pattern in (b">", b"*", b"*.*", b"a.>", b"a.*.b"):
        tree.insert(pattern, None, pattern)
        tree.insert(pattern, b"q", pattern)
    result = tree.match(subject)
    assert result.plain == []
    assert result.queues == {}


def test_members_of_a_group_are_gathered_across_patterns() -> None:
    tree = SubjectTree()
    tree.insert(b"a.b", b"q", 1)
    tree.insert(b"a.*", b"q", 2)
    tree.insert(b">", b"q", 3)
    tree.insert(b">", b"other", 4)
    tree.insert(b"a.b", None, 5)
    result = tree.match(b"a.b")
    assert {queue: sorted(members) for queue, members in result.queues.items()} == {
        b"q": [1, 2, 3],
        b"other": [4],
    }
    assert result.plain == [5]


def test_a_result_is_a_copy() -> None:
    tree = SubjectTree()
    tree.insert(b"a", None, 1)
    tree.insert(b"a", b"q", 2)
    result = tree.match(b"a")
    tree.remove(b"a", None, 1)
    tree.remove(b"a", b"q", 2)
    assert (result.plain, result.queues) == ([1], {b"q": [2]})


def test_removing_prunes_only_what_is_empty() -> None:
    tree = SubjectTree()
    tree.insert(b"a.b.c", None, 1)
    tree.insert(b"a.b", None, 2)
    tree.insert(b"a.b.*", b"q", 3)
    tree.remove(b"a.b.c", None, 1)
    assert found(tree, b"a.b.c") == []
    assert tree.match(b"a.b.c").queues == {b"q": [3]}
    assert found(tree, b"a.b") == [2]
    tree.remove(b"a.b.*", b"q", 3)
    tree.remove(b"a.b", None, 2)
    assert tree.root.is_empty()


@pytest.mark.parametrize(
    ("pattern", "queue", "value"),
    [
        (b"a.b", None, 2),
        (b"a.b", b"q", 1),
        (b"a.c", None, 1),
        (b"a.*", None, 1),
        (b"a.>", None, 1),
        (b"a", None, 1),
        (b"a.b.c", None, 1),
    ],
)
def test_removing_what_is_not_there_raises_and_changes_nothing(
    pattern: bytes, queue: bytes | None, value: int
) -> None:
    tree = SubjectTree()
    tree.insert(b"a.b", None, 1)
    with pytest.raises(KeyError):
        tree.remove(pattern, queue, value)
    assert found(tree, b"a.b") == [1]
    assert (tree.count, tree.inserts, tree.removes) == (1, 1, 0)


def test_counts_are_kept() -> None:
    tree = SubjectTree()
    tree.insert(b"a", None, 1)
    tree.insert(b"a", b"q", 1)
    tree.insert(b"b", None, 1)
    tree.remove(b"a", b"q", 1)
    assert (tree.count, tree.inserts, tree.removes) == (2, 3, 1)


def test_a_walk_finds_everything_below_very_many_children() -> None:
    tree = SubjectTree()
    patterns = [b"wide.%d" % number for number in range(20_000)] + [
        b"wide",
        b"wide.*",
        b"wide.>",
        b"other.a.b",
    ]
    for pattern in patterns:
        tree.insert(pattern, None, pattern)
    tree.insert(b"wide.7", b"queue", b"member")
    found = [value for values in tree.walk() for value in values]
    assert sorted(found) == sorted([*patterns, b"member"])
