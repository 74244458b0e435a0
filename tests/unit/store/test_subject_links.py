"""The next message of a subject, in a segment that is searched so often that it gets links."""

from random import Random

from millstream.store.segment import Segment

_SUBJECTS = 50


def build(count: int, chance: Random) -> tuple[Segment, list[int]]:
    """Return a segment, and the number of the subject of each message."""
    segment = Segment(1, 100)
    numbers: list[int] = []
    add(segment, numbers, count, chance)
    return segment, numbers


def add(segment: Segment, numbers: list[int], count: int, chance: Random) -> None:
    for _ in range(count):
        number = chance.randrange(_SUBJECTS)
        segment.note(segment.last_seq + 1, 1, b"s.%d" % number, chance.random() < 0.5, 20)
        numbers.append(number)


def check(segment: Segment, numbers: list[int], removed: set[int], chance: Random) -> None:
    """Compare searches from everywhere with a naive one."""
    for _ in range(300):
        start, number = chance.randrange(len(numbers) + 1), chance.randrange(_SUBJECTS)
        matches = (at for at in range(start, len(numbers)) if numbers[at] == number and at not in removed)
        known = segment.subject_id(b"s.%d" % number)
        if known >= 0:
            assert segment.next_of(known, start) == next(matches, segment.count)


def search_long(segment: Segment) -> int:
    """Search until there are links; return the memory that they need."""
    before = segment.table_bytes()
    for _ in range(1000):
        segment.next_of(segment.subject_id(b"s.0"), 0)
        for start in range(0, segment.count, 7):
            segment.next_of(segment.subject_id(b"s.1"), start)
    return segment.table_bytes() - before


def test_links_find_what_a_search_finds() -> None:
    chance = Random(1)
    segment, numbers = build(500, chance)
    removed: set[int] = set()
    assert search_long(segment) >= 4 * segment.count
    check(segment, numbers, removed, chance)
    add(segment, numbers, 100, chance)
    check(segment, numbers, removed, chance)
    for ordinal in chance.sample(range(600), 300):
        segment.mark_removed(ordinal, 20)
        removed.add(ordinal)
    check(segment, numbers, removed, chance)


def test_a_subject_that_comes_later_is_found() -> None:
    chance = Random(2)
    segment, _ = build(500, chance)
    search_long(segment)
    segment.note(segment.last_seq + 1, 1, b"new", False, 20)
    assert segment.next_of(segment.subject_id(b"new"), 3) == 500


def test_links_go_with_the_tables() -> None:
    segment, _ = build(500, Random(3))
    assert search_long(segment) > 0
    segment.unload()
    assert segment.table_bytes() < 500
