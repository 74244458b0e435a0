"""`millstream mcp`: a server of the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Annotated, Any

import typer

import millstream
from millstream.base.errors import MillstreamError
from millstream.cli.assistant_tools import INSTRUCTIONS, AssistantTools, Tool
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import need
from millstream.cli.session import run
from millstream.link.options import LinkOptions

if TYPE_CHECKING:
    from mcp.server import MCPServer


@talks_to_a_server
def mcp(
    *,
    server: LinkOptions,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Also offer tools that publish, delete and purge.")
    ] = False,
) -> None:
    """Let an assistant look at a server, over the Model Context Protocol.

    An assistant starts this command and talks to it on standard input and output. Its tools list streams and
    consumers, read messages without consuming them, explain why a consumer does not deliver, and run SQL.
    None of them changes anything without --allow-changes. Permissions are those of the NATS user.

    \b
    Examples:
      millstream mcp
      millstream mcp --context production
      millstream mcp -s nats://127.0.0.1:4222 --allow-changes
    """
    need("mcp", "mcp")

    async def work() -> None:
        async with connected(server, "millstream mcp") as api:
            await served(AssistantTools(api, server), allow_changes=allow_changes).run_stdio_async()

    run(work())


def served(tools: AssistantTools, *, allow_changes: bool) -> MCPServer[Any]:
    """Return a server of the protocol with these tools."""
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    logging.getLogger("mcp").setLevel(logging.WARNING)  # standard output is the protocol's
    found: MCPServer[Any] = MCPServer(
        "millstream", instructions=INSTRUCTIONS, version=millstream.__version__, log_level="WARNING"
    )
    for tool in tools.looking():
        found.tool(annotations=ToolAnnotations(read_only_hint=True))(_told(tool))
    for tool in tools.changing() if allow_changes else ():
        found.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))(_told(tool))
    return found


def _told(tool: Tool) -> Tool:
    """Return a tool whose failures the assistant reads as text."""

    @functools.wraps(tool)
    async def call(*arguments: Any, **named: Any) -> Any:
        from mcp.server.mcpserver.exceptions import ToolError

        try:
            return await tool(*arguments, **named)
        except (MillstreamError, TimeoutError) as error:
            raise ToolError(str(error) or "no answer in time") from None

    return call
