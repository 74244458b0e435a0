"""Pieces of an answer that have reached the socket when the caller leaves in the middle of it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from millstream.gateway.bounds import BodyBudget
from millstream.gateway.exchange import Exchange
from millstream.gateway.v2.calls import Flow, begun


class Caller:
    """One who takes `room` pieces and then no more, until it leaves."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.is_full = asyncio.Event()
        self._left = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            return
        if self._room == 0:
            self.is_full.set()
            await self._left.wait()  # as uvicorn does: then it returns, and has written nothing
            return
        self._room -= 1

    async def receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    def exchange(self, version: str) -> Exchange:
        scope = {"type": "http", "http_version": version, "method": "GET", "headers": []}
        return Exchange(scope, self.receive, self.send, max_body=0, body_timeout_s=0, budget=BodyBudget(0))

    def leave(self) -> None:
        self._left.set()


async def _pieces(taken: list[int]) -> AsyncGenerator[bytes, None]:
    yield b""
    for number in range(100):
        taken.append(number)
        yield b"%d" % number


@pytest.mark.parametrize(("version", "sent_pieces"), [("1.1", 3), ("2", 4)])
async def test_a_piece_that_waits_for_room_is_not_sent_unless_parts_of_it_may_leave(
    version: str, sent_pieces: int
) -> None:
    caller, taken, sent = Caller(3), list[int](), list[int]()
    flow = Flow(
        "text/plain",
        await begun(_pieces(taken)),
        sent=lambda: None if sent[-1:] == taken[-1:] else sent.append(taken[-1]),
    )
    responding = asyncio.ensure_future(flow.respond(caller.exchange(version)))
    await caller.is_full.wait()
    caller.leave()
    await responding
    assert taken == [0, 1, 2, 3]
    assert len(sent) == sent_pieces
