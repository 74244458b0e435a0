"""Questions to servers that are given up before they are asked."""

import asyncio
import gc

import pytest

from millstream.gateway.v2.system import permitted


async def test_a_question_that_is_cancelled_before_it_begins_leaves_nothing(
    recwarn: pytest.WarningsRecorder,
) -> None:
    async def ask() -> int:
        return 1

    task = asyncio.ensure_future(permitted(ask, "server", []))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    assert not recwarn
