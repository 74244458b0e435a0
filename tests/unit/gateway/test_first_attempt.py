"""The gateway prints its address when requests can be served, or NATS cannot be reached."""

import asyncio

import pytest

from millstream.gateway.link import CallerLink
from millstream.gateway.settings import Nats
from millstream.link.errors import NotConnected
from millstream.link.link import LinkState


@pytest.mark.parametrize("state", [LinkState.CONNECTED, LinkState.RETRYING])
async def test_the_first_attempt_is_waited_for(state: LinkState, monkeypatch: pytest.MonkeyPatch) -> None:
    link = CallerLink(Nats())
    monkeypatch.setattr(link, "is_own", False)  # asks nobody about JetStream
    waiting = asyncio.ensure_future(link.first_attempt(3600))
    await asyncio.sleep(0)
    assert not waiting.done()
    link._told(state, NotConnected("refused"))
    await waiting


async def test_a_server_that_does_not_answer_is_not_waited_for_forever() -> None:
    await CallerLink(Nats()).first_attempt(0)
