"""Many clients that connect at once log in a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from millstream.base.slices import Pieces
from millstream.broker.handshake_pace import HandshakePace
from millstream.broker.newcomers import Newcomers


class Later:
    """Stands for a connection."""

    def __init__(self, log: list[int], number: int) -> None:
        self.log = log
        self.number = number

    def take_turn(self) -> None:
        self.log.append(self.number)


def test_clients_log_in_at_once_until_they_took_long_in_this_round() -> None:
    newcomers = Newcomers()
    newcomers.in_slices = lambda _, __: None
    allowed = []
    for _ in range(5):
        allowed.append(newcomers.may_log_in(7))
        newcomers.took(0.0004)
    assert allowed == [True, True, True, False, False]
    assert newcomers.may_log_in(8)


def test_without_a_loop_nobody_waits() -> None:
    newcomers = Newcomers()
    newcomers.took(9.0)
    assert newcomers.may_log_in(0)


def test_the_others_follow_in_one_work_in_their_order() -> None:
    newcomers = Newcomers()
    works: list[Pieces[None]] = []
    log: list[int] = []
    newcomers.in_slices = lambda _, pieces: works.append(pieces)
    for number in range(3):
        newcomers.put_off(Later(log, number))
    [work] = works
    next(work)
    newcomers.put_off(Later(log, 3))
    assert len(works) == 1
    assert list(work) == [1, 1, 1]
    assert log == [0, 1, 2, 3]
    newcomers.put_off(Later(log, 4))
    assert len(works) == 2


def test_one_that_fails_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    newcomers = Newcomers()
    works: list[Pieces[None]] = []
    log: list[int] = []
    newcomers.in_slices = lambda _, pieces: works.append(pieces)
    broken = Later(log, 0)
    broken.take_turn = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    newcomers.put_off(broken)
    newcomers.put_off(Later(log, 1))
    assert list(works[0]) == [1, 1]
    assert log == [1]
    assert "a login failed: ZeroDivisionError" in caplog.text
    newcomers.put_off(Later(log, 2))
    assert len(works) == 2


async def test_a_few_handshakes_begin_in_each_round() -> None:
    rounds: list[Callable[[], None]] = []
    begun: list[int] = []
    pace = HandshakePace(rounds.append)

    async def shake(number: int) -> None:
        await pace.turn()
        begun.append(number)

    tasks = [asyncio.create_task(shake(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert begun == [0, 1]
    tasks[2].cancel()  # this client is gone
    while rounds:
        rounds.pop()()
        await asyncio.sleep(0)
    assert begun == [0, 1, 3, 4]
    await asyncio.gather(*tasks, return_exceptions=True)
