"""A map that becomes many dicts when it grows: the same entries as a dict has, at every size."""

import gc

import pytest

from millstream import BUILD
from millstream.base.wide_map import WideMap

MANY = 20_000  # more than fit into one part


def filled(count: int) -> WideMap:
    wide = WideMap()
    for number in range(count):
        wide.put(b"%d" % number, number)
    return wide


@pytest.mark.parametrize("count", [0, 1, 100, MANY])
def test_every_entry_is_found_once(count: int) -> None:
    wide = filled(count)
    assert len(wide) == count
    assert sorted(wide.values()) == list(range(count))
    assert sorted(wide) == sorted(b"%d" % number for number in range(count))
    assert all(wide.get(b"%d" % number) == number for number in range(count))
    assert wide.get(b"none") is None
    assert b"none" not in wide


@pytest.mark.parametrize("count", [1, 100, MANY])
def test_entries_are_dropped_one_by_one(count: int) -> None:
    wide = filled(count)
    for number in range(0, count, 2):
        wide.remove(b"%d" % number)
    assert len(wide) == count // 2
    assert sorted(wide.values()) == list(range(1, count, 2))
    with pytest.raises(KeyError):
        wide.remove(b"0")


@pytest.mark.parametrize("count", [1, 100, MANY])
def test_all_entries_are_taken_out_and_others_may_come_meanwhile(count: int) -> None:
    wide = filled(count)
    taken = [wide.take_one() for _ in range(count)]
    assert sorted(taken) == list(range(count))
    assert len(wide) == 0
    wide.put(b"late", -1)
    assert wide.take_one() == -1
    with pytest.raises(KeyError):
        wide.take_one()


def test_a_small_map_gives_the_newest_entry_first() -> None:
    wide = filled(3)
    assert [wide.take_one() for _ in range(3)] == [2, 1, 0]


def test_the_values_come_in_parts_so_that_none_is_a_long_list() -> None:
    wide = filled(MANY)
    parts = [wide.list_values(part) for part in range(wide.parts())]
    assert sorted(each for part in parts for each in part) == list(range(MANY))
    assert max(map(len, parts)) < MANY / 10


@pytest.mark.skipif(BUILD == "pure", reason="only the compiled build hides objects from the collector")
def test_the_garbage_collector_does_not_see_the_entries() -> None:
    wide = WideMap()
    hidden: list[object] = []
    wide.put(b"a", hidden)
    assert not any(type(each) is dict and each.get(b"a") is hidden for each in gc.get_objects())
