"""Queries of a gateway that stops: every engine ends and every pipe is closed, whoever is asked last."""

import asyncio
import os
from pathlib import Path

import pytest

from millstream.gateway import queries
from millstream.gateway.errors import Overloaded
from millstream.gateway.queries import QueryDesk
from millstream.gateway.settings import Limits
from millstream.gateway.tables import TableDesk
from millstream.link.options import LinkOptions
from tests.kits.link import eventually

LONG = "select range from range(100000000)"
NOWHERE = LinkOptions()  # the query names no stream, so nothing connects


def open_pipes() -> set[str]:
    """Return the pipes and sockets of this process."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.add(os.readlink(each))
        except FileNotFoundError:  # the descriptor of the list itself
            continue
    return {each for each in found if each.startswith("pipe:")}


async def test_a_query_that_ends_after_its_gateway_closes_its_pipes() -> None:
    before = open_pipes()
    desk = QueryDesk(Limits(sql_rows=0), TableDesk(None))
    pieces = desk.pieces(LONG, "text/csv", NOWHERE, 0, is_own=True)
    assert await anext(pieces) == b""
    assert await anext(pieces)
    desk.stop()
    await pieces.aclose()
    assert open_pipes() <= before


async def test_a_query_whose_caller_leaves_before_it_began_closes_its_pipes() -> None:
    before = open_pipes()
    desk = QueryDesk(Limits(sql_rows=0), TableDesk(None))
    begun = asyncio.ensure_future(anext(desk.pieces(LONG, "text/csv", NOWHERE, 0, is_own=True)))
    await asyncio.sleep(0)
    begun.cancel()
    await asyncio.wait([begun])
    desk.stop()
    await eventually(lambda: open_pipes() <= before)


async def test_a_caller_that_takes_nothing_holds_no_place_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = QueryDesk(Limits(sql_rows=0, sql_queries=1, sql_time_s=60), TableDesk(None))
    stalled = desk.pieces(LONG, "text/csv", NOWHERE, 0, is_own=True)
    assert await anext(stalled) == b""
    with pytest.raises(Overloaded):
        await anext(desk.pieces("select 1", "text/csv", NOWHERE, 0, is_own=True))
    (place,) = desk._taken
    assert place._timer is not None
    assert place._timer.when() <= asyncio.get_running_loop().time() + 60 + queries._ENDING_S
    await stalled.aclose()
    assert not desk._taken
    desk.stop()
    monkeypatch.setattr(queries, "_ENDING_S", 0.0)
    taken: set[queries._Place] = set()
    queries._Place(taken, 0.001)
    assert len(taken) == 1
    await eventually(lambda: not taken)
