"""Containers are freed in pieces, whatever they are and however much they hold."""

from __future__ import annotations

from collections import deque

import pytest

from millstream.base.freeing import Container, free, freeing
from millstream.base.paged_map import PagedMap
from millstream.base.slices import MOST_ITEMS, Pieces
from millstream.base.wide_map import WideMap

_MANY = 40_000  # more than a WideMap keeps in one dict


def paged(count: int) -> PagedMap:
    found = PagedMap()
    for number in range(1, count + 1):
        found.put(number, "value")
    return found


def wide(count: int) -> WideMap:
    found = WideMap()
    for number in range(count):
        found.put(b"%d" % number, "value")
    return found


def filled(kind: str, count: int) -> Container:
    if kind == "paged":
        return paged(count)
    if kind == "wide":
        return wide(count)
    if kind == "list":
        return [(number, number) for number in range(count)]
    return set(range(count)) if kind == "set" else deque(range(count))


@pytest.mark.parametrize("kind", ["paged", "wide", "list", "set", "deque"])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, _MANY])
def test_every_container_is_emptied_in_small_pieces(kind: str, count: int) -> None:
    container = filled(kind, count)
    pieces = list(freeing([container]))
    assert len(container) == 0
    assert sum(pieces) == count
    assert max(pieces, default=0) <= MOST_ITEMS


def test_several_containers_are_freed_one_after_the_other() -> None:
    containers = [filled("list", 300), filled("paged", 300), filled("set", 0)]
    left = list(containers)
    list(freeing(left))
    assert left == []
    assert [len(each) for each in containers] == [0, 0, 0]


class _Slicer:
    def __init__(self) -> None:
        self.names: list[str] = []

    def in_slices(self, name: str, pieces: Pieces[None]) -> None:
        self.names.append(name)

    def steady_ns(self) -> int:
        return 0


def test_little_is_freed_at_once() -> None:
    slicer = _Slicer()
    free(slicer, [filled("list", 10), filled("paged", 10)])
    assert slicer.names == []
    free(slicer, [filled("list", 40), filled("paged", 40)])
    assert slicer.names == ["freeing memory"]
