"""The carrier on a program's own nats-py connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from millstream.client.nats_py import NatsPyCarrier


class Connection:
    """Waits for its answer as nats-py does."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def request(self, subject: str, payload: bytes, timeout: float, headers: Any) -> Any:
        return await asyncio.wait_for(self.answer, timeout)


@pytest.mark.parametrize("failure", [None, ConnectionError()])
async def test_a_cancellation_that_comes_with_the_answer_is_kept(failure: Exception | None) -> None:
    connection: Any = Connection()
    asked = NatsPyCarrier(connection).request("s", b"", {}, 5.0)
    task = asyncio.create_task(asked)
    await asyncio.sleep(0)
    if failure is None:
        connection.answer.set_result(SimpleNamespace(data=b"answer"))
    else:
        connection.answer.set_exception(failure)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_is_returned() -> None:
    connection: Any = Connection()
    connection.answer.set_result(SimpleNamespace(data=b"answer"))
    assert await NatsPyCarrier(connection).request("s", b"", {}, 5.0) == b"answer"
