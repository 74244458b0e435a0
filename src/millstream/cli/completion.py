"""Names that a shell completes: streams, consumers, buckets, contexts, on the server that the flags name.

A shell waits for this while the user types, so it sends one request with a time-out of a second, and offers
nothing after any error.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import typer

from millstream.base.errors import MillstreamError

_PATIENCE_S: Final = 1.0
_MOST: Final = 500
_PLAIN: Final = re.compile(r"[\w.+:@%/=,-]+")


def _ask(context: Any, look: Callable[[Any], Awaitable[list[str]]]) -> list[str]:
    """Return the result of `look` over a link to the server that the typed flags name."""
    from millstream.cli.connection import flag_layer
    from millstream.link.link import Link
    from millstream.link.options import FIELDS
    from millstream.link.sources import environment_layer, link_options

    given = {
        each.names.flags[0].removeprefix("--").replace("-", "_"): False for each in FIELDS if each.names.flags
    }
    given |= {name: value for name, value in context.params.items() if name in given and value}

    async def work() -> list[str]:
        options = link_options(flag_layer(given), environment_layer(os.environ), selected=True)
        short = dataclasses.replace(options, connect_timeout_s=_PATIENCE_S, request_timeout_s=_PATIENCE_S)
        async with asyncio.timeout(_PATIENCE_S), Link(short) as link:
            return await look(link)

    try:
        return asyncio.run(work())
    except (MillstreamError, OSError, TimeoutError, ValueError, LookupError, TypeError):
        return []


def _is_plain(name: str) -> bool:
    """Return whether a shell takes the name as it is: others would act on `$(…)` in a stranger's name."""
    return _PLAIN.fullmatch(name) is not None


def _streams(context: Any, prefix: str, incomplete: str) -> list[str]:
    async def look(link: Any) -> list[str]:
        found = await link.api("STREAM.NAMES", {"offset": 0})
        return [name for name in found.get("streams") or [] if name.startswith(prefix + incomplete)]

    return [name.removeprefix(prefix) for name in _ask(context, look)[:_MOST] if _is_plain(name)]


def stream_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return streams whose name begins with the typed text."""
    return _streams(ctx, "", incomplete)


def bucket_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return buckets of keys."""
    return _streams(ctx, "KV_", incomplete)


def store_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return buckets of objects."""
    return _streams(ctx, "OBJ_", incomplete)


def consumer_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return consumers of the stream that was typed before."""
    stream = ctx.params.get("stream") or ""

    async def look(link: Any) -> list[str]:
        found = await link.api(f"CONSUMER.NAMES.{stream}", {"offset": 0})
        return [name for name in found.get("consumers") or [] if name.startswith(incomplete)]

    return [name for name in _ask(ctx, look)[:_MOST] if _is_plain(name)] if stream else []


def context_names(incomplete: str) -> list[str]:
    """Return contexts of the `nats` tool."""
    from millstream.link.contexts import contexts_folder

    try:
        found = [path.stem for path in contexts_folder(os.environ).glob("*.json")]
    except OSError:
        return []
    return sorted(name for name in found if name.startswith(incomplete) and _is_plain(name))


StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream.", autocompletion=stream_names, show_default=False)
]
ConsumerName = Annotated[
    str,
    typer.Argument(
        metavar="CONSUMER", help="The consumer.", autocompletion=consumer_names, show_default=False
    ),
]
BucketName = Annotated[
    str, typer.Argument(metavar="BUCKET", help="The bucket.", autocompletion=bucket_names, show_default=False)
]
StoreName = Annotated[
    str, typer.Argument(metavar="BUCKET", help="The bucket.", autocompletion=store_names, show_default=False)
]
