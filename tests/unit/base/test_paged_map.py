"""A map from numbers, compared with a dict."""

from __future__ import annotations

from random import Random

import pytest

from millstream.base.paged_map import PagedMap


@pytest.mark.parametrize("spread", [50, 5_000, 10_000_000])
def test_it_does_what_a_dict_does(spread: int) -> None:
    chance = Random(spread)
    ours, plain = PagedMap(), dict[int, int]()
    for step in range(4000):
        number = chance.randrange(1, spread)
        choice = chance.random()
        if choice < 0.5:
            ours[number] = step
            plain[number] = step
        elif choice < 0.8:
            assert ours.take(number) == plain.pop(number, None)
        elif plain and choice < 0.9:
            number = min(plain)
            del ours[number], plain[number]
        assert ours.get(number) == plain.get(number)
        assert (number in ours) == (number in plain)
        assert len(ours) == len(plain)
        if step % 50 == 0:
            assert ours.first() == min(plain, default=0)
            assert ours.after(number) == min((each for each in plain if each > number), default=0)
    assert list(ours.items()) == sorted(plain.items())
    assert list(ours) == sorted(plain)


def test_an_absent_number_is_a_key_error() -> None:
    ours = PagedMap()
    with pytest.raises(KeyError):
        ours[3]
    ours[3] = 1
    with pytest.raises(KeyError):
        ours[4]
    with pytest.raises(KeyError):
        del ours[4]


def test_it_goes_a_page_at_a_time() -> None:
    ours = PagedMap()
    for number in range(1, 5001):
        ours[number] = number
    dropped = []
    while count := ours.drop_some():
        dropped.append(count)
    assert sum(dropped) == 5000
    assert max(dropped) == 256
    assert (len(ours), ours.first(), list(ours)) == (0, 0, [])
    ours[7] = 1
    assert ours.first() == 7


def test_pages_that_come_and_go_leave_nothing_behind() -> None:
    ours = PagedMap()
    ours[1] = 1
    for number in range(2, 2_000_000, 1000):
        ours[number] = 1
        del ours[number]
    ours[5_000_000] = 1
    assert list(ours) == [1, 5_000_000]
    assert ours.after(1) == 5_000_000
