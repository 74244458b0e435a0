"""Subjects, patterns and transforms, compared with one another and with naive versions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from random import Random

from millstream.store.index import SubjectIndex
from millstream.subjects.functions import TransformError
from millstream.subjects.match import collide, is_subset, matches, valid_literal_subject
from millstream.subjects.overlap import PatternSet
from millstream.subjects.tokens import is_literal, token_count, valid_subject
from millstream.subjects.transform import SubjectTransform, WeightedMapping, check_mapping
from millstream.subjects.tree import SubjectTree

WORDS = (b".", b"*", b">", b"\n", b"a", b"b", b"a.b", b"*.*", b".>", b"a." * 100, b"$1", b"$2", b" ", b"\xff")
CALLS = (
    b"{{wildcard(1)}}", b"{{partition(3,1,2)}}", b"{{split(1,-)}}", b"{{splitfromleft(1,2)}}",
    b"{{SliceFromRight(1,3)}}",
    b"{{left(1,2)}}", b"{{right(1,2)}}", b"{{random(5)}}", b"{{", b"}}", b"(", b",", b"$1", b"$99", b".",
    b"*", b">", b"\n", b" ",
)  # fmt: skip
_DESTINATIONS = (
    "b.$1", "b.{{wildcard(2)}}.$1", "p.{{partition(5,1,2)}}.$1", "s.{{split(1,-)}}",
    "s.{{splitfromright(2,1)}}",
    "s.{{slicefromleft(1,3)}}", "l.{{left(1,2)}}.{{right(2,1)}}", "r.{{random(9)}}", "{{partition(10)}}.x",
)  # fmt: skip


def naive_match(subject: bytes, pattern: bytes) -> bool:
    tokens, wanted = subject.split(b"."), pattern.split(b".")
    for place, token in enumerate(wanted):
        if token == b">" and place == len(wanted) - 1:
            return len(tokens) > place
        if place >= len(tokens) or token not in (b"*", tokens[place]):
            return False
    return len(tokens) == len(wanted)


def pattern_seeds() -> Iterator[bytes]:
    yield b"a.b.c\na.b.d\nx\n\na.*.c\na.>\n*.b.*\n>\nx\n"
    yield b"foo\nfoo.bar\nfoo.bar.baz\n\nfoo.*\nfoo.>\n*\nfoo.bar\n"
    yield b".".join([b"t"] * 200) + b"\n\n" + b".".join([b"*"] * 200) + b"\n" + b"t.>\n"


def _lines(data: bytes) -> tuple[list[bytes], list[bytes]]:
    subjects, _, patterns = data.partition(b"\n\n")
    return subjects.split(b"\n")[:40], patterns.split(b"\n")[:40]


def check_trees(data: bytes) -> Hashable:
    """The trees find what a look at each pair finds; what is removed is gone."""
    subjects, patterns = _lines(data)
    subjects = [each for each in subjects if valid_subject(each) and is_literal(each)]
    patterns = [each for each in patterns if valid_subject(each)]
    tree, index, wide = SubjectTree(), SubjectIndex(), PatternSet()
    for number, pattern in enumerate(patterns):
        tree.insert(pattern, b"q" if number % 3 == 0 else None, number)
        assert wide.collides(pattern) == any(collide(pattern, earlier) for earlier in patterns[:number])
        wide.add(pattern)
    for seq, subject in enumerate(subjects, 1):
        index.add(subject, seq)
    count = 0
    for subject in subjects:
        found = tree.match(subject)
        for pattern in patterns:
            assert matches(subject, pattern) == naive_match(subject, pattern), (subject, pattern)
        expected = [number for number, pattern in enumerate(patterns) if naive_match(subject, pattern)]
        assert sorted((*found.plain, *found.queues.get(b"q", ()))) == expected
        count += len(expected)
        tree.match_any_last(subject)
        tree.match_any_tail(subject)
    for pattern in patterns:
        below = {subject for subject in subjects if naive_match(subject, pattern)}
        assert {subject for subject, _ in index.match(pattern)} == below
        for other in patterns:
            if is_subset(pattern, other):
                assert all(naive_match(subject, other) for subject in below)
    for seq, subject in enumerate(subjects, 1):
        index.discount(subject, seq)
    assert index.subjects == 0
    for number, pattern in enumerate(patterns):
        tree.remove(pattern, b"q" if number % 3 == 0 else None, number)
    return len(subjects), len(patterns), count


def check_tokens(data: bytes) -> Hashable:
    """Any bytes are a question, no matter what they are."""
    left, _, right = data.partition(b"\n")
    answers = (
        matches(left, right),
        is_subset(left, right),
        collide(left, right),
        valid_subject(left),
        valid_literal_subject(left),
    )
    assert collide(left, right) == collide(right, left)
    if valid_subject(left) and valid_subject(right) and is_literal(left):
        assert matches(left, right) == naive_match(left, right)
    return (*answers, min(token_count(left), 9))


def transform_seeds() -> Iterator[bytes]:
    for destination in _DESTINATIONS:
        yield f"a.*.*\n{destination}\na.one-two.three\n".encode()
    yield b"a.>\nb.>\na.x.y.z\n"
    yield b"\nx.>\nq\n"


def check_transforms(data: bytes) -> Hashable:
    """A transform that was taken makes a subject of every subject; a way back leads back."""
    source, _, rest = data.decode(errors="replace").partition("\n")
    destination, *subjects = rest.split("\n")
    try:
        check_mapping(source, destination)
        mapped = WeightedMapping(source, [(destination, 50)], Random(1))
    except TransformError:
        mapped = None
    answers = []
    for strict in (False, True):
        try:
            transform = SubjectTransform(source, destination, strict=strict, generator=Random(1))
        except TransformError as error:
            answers.append(str(error)[:30])
            continue
        back = transform.inverse()
        for subject in subjects[:20]:
            result = transform.apply(subject.encode())
            answers.append(str(result is None))
            reversible = back is not None and strict and "$" not in source and "{{" not in source
            if result is not None and reversible and valid_literal_subject(result):
                assert back.apply(result) == subject.encode(), (source, destination, subject, result)
            if mapped is not None:
                mapped.apply(subject.encode())
    return tuple(sorted(set(answers)))
