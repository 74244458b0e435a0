"""Server-Sent Events at a steady pace: the result of a repeated request as events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec

from millstream.gateway.errors import FAILURES, Stopping
from millstream.gateway.v2.calls import AnswerHead, Call, Flow, Reply, begun
from millstream.gateway.v2.frames import RETRY_MS
from millstream.gateway.v2.operations import EVENTS, Answer
from millstream.gateway.v2.payload import to_json
from millstream.gateway.v2.problems import problem_of

EVERY_S: Final = 2.0

Every = Annotated[float, msgspec.Meta(ge=0.5, le=60, description="seconds between two events")]
Look = Callable[[], Awaitable[Any]]


class TickQuery(msgspec.Struct, frozen=True):
    every: Every = EVERY_S


def tick_answer(event: str, what: str) -> Answer:
    """Describe an answer of `ticks`."""
    text = f"an event `{event}` every two seconds, or as `every` says, with {what}; `problem` at the end"
    return Answer(200, text, {EVENTS: {"type": "string"}})


async def ticks(
    call: Call, event: str, look: Look, *, every_s: float, close: Callable[[], None] | None = None
) -> Reply:
    """Return an answer with periodic events; an error of the first look is answered with its status."""
    call.accepted(EVENTS)
    try:
        first = await look()
    except BaseException:
        if close is not None:
            close()
        raise
    if call.is_head:
        if close is not None:
            close()
        return AnswerHead(EVENTS)
    return Flow(EVENTS, await begun(_events(call, event, look, first, every_s, close)))


async def _events(
    call: Call, event: str, look: Look, found: Any, every_s: float, close: Callable[[], None] | None
) -> AsyncGenerator[bytes, None]:
    try:
        yield b""  # for `begun`
        yield b"retry: %d\n\n" % RETRY_MS
        while True:
            yield b"event: %b\ndata: %b\n\n" % (event.encode(), to_json(found))
            if await _stopping(call, every_s):
                raise Stopping("the gateway is being stopped")
            found = await look()
    except FAILURES as error:
        yield b"event: problem\ndata: %b\n\n" % to_json(problem_of(error))
    finally:
        if close is not None:
            close()


async def _stopping(call: Call, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await call.core.stopping.wait()
            return True
    except TimeoutError:
        return False
