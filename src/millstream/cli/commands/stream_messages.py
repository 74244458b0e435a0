"""`millstream stream view` and `tail`: show messages of any stream without consuming them."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import Annotated, Any, Final

import typer

from millstream.cli.commands.lookup import stream_info
from millstream.cli.commands.messages import StreamPlace, next_stored, show_stored, stored_range
from millstream.cli.completion import StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import NOTHING, UsageError
from millstream.cli.output.readings import read_moment
from millstream.cli.output.tables import CommandOutput, JsonOption, RawOption, check_raw
from millstream.cli.session import run
from millstream.golang.time import Time
from millstream.link.link import Link
from millstream.link.options import LinkOptions
from millstream.link.stored import Stored

_MOST_READ: Final = 20_000  # messages that a search for the newest ones reads
_POLL_S: Final = 0.2

FilterOption = Annotated[
    str, typer.Option("--subject", "--filter", metavar="SUBJECT", help="Only messages that match.")
]
SeqOption = Annotated[int, typer.Option("--seq", metavar="NUMBER", min=0, help="Begin at this sequence.")]
SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Begin at this time: 1h, 2026-11-18, RFC 3339.")
]
WidthOption = Annotated[
    int,
    typer.Option(
        "--width", metavar="NUMBER", min=0, help="Cut payloads after this number of characters; 0 is never."
    ),
]


def _place(seq: int, since: str) -> StreamPlace:
    if seq and since:
        raise UsageError("--seq and --since exclude each other")
    return StreamPlace(seq or 1, read_moment(since, "--since") if since else "")


@talks_to_a_server
def view(
    *,
    server: LinkOptions,
    stream: StreamName,
    seq: SeqOption = 0,
    since: SinceOption = "",
    subject: FilterOption = ">",
    last: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=10_000, help="Number of the newest messages.")
    ] = 0,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="NUMBER", min=1, help="Maximum number of messages.")
    ] = 10,
    width: WidthOption = 1000,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Show messages of a stream, without consuming them.

    This holds for work queues, too. Ends with 7 if there is no message.

    \b
    Examples:
      millstream stream view ORDERS
      millstream stream view ORDERS --last 3
      millstream stream view ORDERS --since 1h --subject 'orders.eu.>' --limit 100
      millstream stream view ORDERS --seq 42 --limit 1 --raw > message.bin
    """
    check_raw(raw, json)
    place = _place(seq, since)
    if last and (seq or since):
        raise UsageError("--last begins at the end; it excludes --seq and --since")

    async def work() -> int:
        output = CommandOutput(json=json)
        async with connected(server, "millstream stream view") as api:
            info = await stream_info(api, stream)
            if last:
                for message in await newest(api.link, stream, info["state"], subject, last):
                    show_stored(output, stream, message, raw=raw, most=width)
                return 0 if info["state"]["messages"] else NOTHING
            count, at = 0, 0
            async for message in stored_range(api.link, stream, place, subject, limit):
                show_stored(output, stream, message, raw=raw, most=width)
                count, at = count + 1, message.seq
            if not count:
                output.note(f"stream {stream} has no such message")
            elif count == limit and at < info["state"]["last_seq"]:
                output.note(f"more: millstream stream view {stream} --seq {at + 1}")
        return 0 if count else NOTHING

    run(work())


async def newest(link: Link, stream: str, state: dict[str, Any], subject: str, count: int) -> deque[Stored]:
    """Return the last messages that match, the oldest first.

    The search begins `count` sequences before the end, and further back while gaps or other subjects leave
    too few messages.
    """
    first, end = int(state["first_seq"]), int(state["last_seq"]) + 1
    found: deque[Stored] = deque()
    span, budget = count, _MOST_READ
    while end > first and len(found) < count and budget > 0:
        begin = max(end - span, first)
        before: list[Stored] = []
        place = StreamPlace(begin)
        while budget > 0:
            message = await next_stored(link, stream, place, subject)
            budget -= 1
            if message is None or message.seq >= end:
                break
            before.append(message)
            place = StreamPlace(message.seq + 1)
        found.extendleft(reversed(before[-(count - len(found)) :]))
        end, span = begin, span * 2
    return found


@talks_to_a_server
def tail(
    *,
    server: LinkOptions,
    stream: StreamName,
    seq: SeqOption = 0,
    since: SinceOption = "",
    subject: FilterOption = ">",
    last: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=10_000, help="Begin with this number of the newest.")
    ] = 0,
    count: Annotated[
        int, typer.Option("--count", metavar="NUMBER", min=0, help="End after this number.")
    ] = 0,
    width: WidthOption = 1000,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Show messages as a stream stores them, without consuming them.

    Ends with Ctrl-C, or with --count. A stream with limits is read by an ordered consumer, which loses
    nothing. A work queue or a stream with interest is looked at five times a second, so a message that is
    consumed sooner is not shown.

    \b
    Examples:
      millstream stream tail ORDERS
      millstream stream tail ORDERS --subject 'orders.eu.>' --last 5
      millstream stream tail ORDERS --json | jq .data
    """
    check_raw(raw, json)
    place = _place(seq, since)

    async def work() -> None:
        output = CommandOutput(json=json)
        shown = 0
        async with connected(server, "millstream stream tail") as api:
            info = await stream_info(api, stream)
            begin = place if seq or since else StreamPlace(info["state"]["last_seq"] + 1)
            if last:
                for message in await newest(api.link, stream, info["state"], subject, last):
                    show_stored(output, stream, message, raw=raw, most=width)
                    shown += 1
            live = info["config"].get("retention", "limits") == "limits"
            follow = _followed if live else _polled
            if count and shown >= count:
                return
            # Closed while the link is up: then the consumer on the server is deleted.
            async with aclosing(follow(api.link, stream, begin, subject)) as messages:
                async for message in messages:
                    show_stored(output, stream, message, raw=raw, most=width)
                    shown += 1
                    if count and shown >= count:
                        break

    run(work())


async def _followed(link: Link, stream: str, place: StreamPlace, subject: str) -> Any:
    """Yield messages by an ordered consumer, across lost connections."""
    from datetime import datetime

    from millstream.client.client import Client
    from millstream.client.config import StartAt

    start = StartAt.by_sequence(max(place.seq, 1))
    if place.time:
        start = StartAt.by_time(datetime.fromisoformat(_micro(place.time)))
    reading = Client(link).ordered(stream, subjects=subject, start=start, name_prefix="tail")
    async with reading as messages:
        async for each in messages:
            when = Time(each.timestamp_ns)
            yield Stored(each.subject, each.stream_seq, when, list(each.headers.items()), each.data)


def _micro(text: str) -> str:
    """Return a time with at most microseconds, the precision of `datetime`."""
    head, dot, rest = text.partition(".")
    return f"{head}.{rest.rstrip('Z')[:6]}+00:00" if dot else text.replace("Z", "+00:00")


async def _polled(link: Link, stream: str, place: StreamPlace, subject: str) -> Any:
    """Yield messages by polling for the next one."""
    while True:
        message = await next_stored(link, stream, place, subject)
        if message is None:
            await asyncio.sleep(_POLL_S)
            continue
        place = StreamPlace(message.seq + 1)
        yield message
