"""`millstream mcp` as an assistant uses it: a process that speaks the Model Context Protocol on a pipe."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.kits.cli import Cli
from tests.kits.queries import fill

LOOKING = {"list_streams", "stream_info", "read_messages", "list_consumers", "consumer_info", "why", "sql"}
CHANGING = {"publish", "delete_message", "purge_stream"}


class Assistant:
    """A client of the protocol."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self._client.list_tools()).tools}

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        answer = await self._client.call_tool(tool, arguments)
        text = answer.content[0].text
        assert not answer.is_error, text
        return json.loads(text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        answer = await self._client.call_tool(tool, arguments)
        assert answer.is_error
        return str(answer.content[0].text)


@asynccontextmanager
async def assistant(url: str, *flags: str) -> AsyncIterator[Assistant]:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "millstream", "mcp", "-s", url, *flags]
    )
    async with Client(stdio_client(command)) as client:
        yield Assistant(client)


@pytest.fixture
def orders(url: str, name: str) -> str:
    fill(url, name)
    return name


async def test_an_assistant_looks_at_streams_and_changes_nothing(url: str, orders: str, cli: Cli) -> None:
    await asyncio.to_thread(cli, "consumer", "add", orders, "billing", "--ack", "explicit")
    async with assistant(url) as ask:
        tools = await ask.tools()
        assert tools.keys() == LOOKING
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert all(tool.description for tool in tools.values())
        before = await ask("stream_info", stream=orders)
        assert orders in [each["name"] for each in (await ask("list_streams"))["streams"]]
        [message] = (await ask("read_messages", stream=orders, seq=2, limit=1))["messages"]
        assert message["seq"] == 2
        assert json.loads(message["data"])["item"] == "pear"
        assert [each["name"] for each in (await ask("list_consumers", stream=orders))["consumers"]] == [
            "billing"
        ]
        assert (await ask("consumer_info", stream=orders, consumer="billing"))["name"] == "billing"
        assert (await ask("why", stream=orders, consumer="billing"))["verdict"]
        found = await ask("sql", query=f"select count(*) as n from {orders} where seq <= 6")
        assert found == {"rows": [{"n": 6}], "more": False}
        assert (await ask("stream_info", stream=orders))["state"] == before["state"]


async def test_failures_are_told_in_words(url: str, orders: str) -> None:
    async with assistant(url) as ask:
        assert "stream not found" in await ask.refused("stream_info", stream=f"{orders}_NOT")
        assert "name" in await ask.refused("stream_info", stream="a.b > c")
        assert "DELETE is not allowed" in await ask.refused("sql", query=f"delete from {orders}")
        assert "publish" in await ask.refused("publish", subject=f"{orders}.eu", payload="x")


async def test_changes_are_offered_only_when_allowed(url: str, orders: str) -> None:
    async with assistant(url, "--allow-changes") as ask:
        assert (await ask.tools()).keys() == LOOKING | CHANGING
        first = await ask("publish", subject=f"{orders}.eu", payload="hello", message_id="one")
        again = await ask("publish", subject=f"{orders}.eu", payload="hello", message_id="one")
        assert (first["seq"], first["duplicate"]) == (again["seq"], False)
        assert again["duplicate"]
        assert "blanks" in await ask.refused("publish", subject="a b\r\nPUB c 0", payload="")
        await ask("delete_message", stream=orders, seq=first["seq"])
        assert (await ask("purge_stream", stream=orders, keep=1))["purged"] > 0
        assert (await ask("stream_info", stream=orders))["state"]["messages"] == 1


async def test_long_payloads_are_cut(url: str, orders: str) -> None:
    async with assistant(url, "--allow-changes") as ask:
        stored = await ask("publish", subject=f"{orders}.eu", payload="x" * 100_000)
        [message] = (await ask("read_messages", stream=orders, seq=stored["seq"]))["messages"]
        assert message["cut"]
        assert len(message["data"]) < 10_000
