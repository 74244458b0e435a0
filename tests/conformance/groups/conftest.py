"""Consumer groups on either server, over either kind of connection; every test leaves an empty account."""

import contextlib
from collections.abc import AsyncIterator

import pytest_asyncio
from nats.js.errors import NotFoundError

from tests.kits.client import Connect, Lab
from tests.kits.fixtures.client import *
from tests.kits.reference import ServerProcess


@pytest_asyncio.fixture
async def orders(js_server: ServerProcess, connect: Connect) -> AsyncIterator[Lab]:
    """A stream, whose groups go with it."""
    lab = Lab(js_server, await connect(js_server.port))
    await lab.create()
    yield lab
    names = [info.config.name for info in await lab.js.streams_info()]
    for name in [each for each in names if each.startswith((lab.stream, "KV_"))]:
        with contextlib.suppress(NotFoundError):
            await lab.js.delete_stream(name)
