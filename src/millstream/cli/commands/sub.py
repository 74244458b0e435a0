"""`millstream sub`: show messages of subjects as they come."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Annotated, Any

import typer

from millstream.cli.commands.messages import show_message
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import NOTHING
from millstream.cli.output.readings import read_duration
from millstream.cli.output.tables import CommandOutput, JsonOption, RawOption, check_raw
from millstream.cli.output.texts import count_text, header_fields, payload_fields, safe
from millstream.cli.session import run
from millstream.link.deliveries import LinkMessage
from millstream.link.link import Link
from millstream.link.options import LinkOptions
from millstream.link.subscriptions import DEFAULT_BUFFER
from millstream.protocol.ack_subject import ACK_PREFIX
from millstream.protocol.headers import read_pairs


@talks_to_a_server
def sub(
    *,
    server: LinkOptions,
    subjects: Annotated[
        list[str], typer.Argument(metavar="SUBJECT", help="Subjects; * and > as in NATS.", show_default=False)
    ],
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="Join this queue group.")] = "",
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="NUMBER", min=0, help="End after this number.")
    ] = 0,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="End if no message comes for this time.")
    ] = "",
    headers_only: Annotated[bool, typer.Option("--headers-only", help="Without payloads.")] = False,
    ack: Annotated[
        bool, typer.Option("--ack", help="Acknowledge messages that a consumer pushes here.")
    ] = False,
    width: Annotated[
        int,
        typer.Option(
            "--width",
            metavar="NUMBER",
            min=0,
            help="Cut payloads after this number of characters; 0 is never.",
        ),
    ] = 1000,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Show messages as they come, until Ctrl-C. For stored messages, see `stream view`.

    Ends with 7 if no message came within --wait.

    \b
    Examples:
      millstream sub 'orders.>'
      millstream sub orders.eu --count 1 --wait 10s
      millstream sub jobs --queue workers --json | jq -r .data
    """
    check_raw(raw, json)
    wait_s = read_duration(wait, "--wait") / 1e9 if wait else None

    async def work() -> int:
        output = CommandOutput(json=json)
        shown = 0
        async with connected(server, "millstream sub") as api:
            feed = _Feed(api.link, subjects, queue)
            await api.link.flush()  # a refusal of a subscription arrives before the flush ends
            feed.check()
            while not count or shown < count:
                message = await feed.next(wait_s)
                if message is None:
                    break
                shown += 1
                if raw:
                    output.raw(message.payload + b"\n")
                else:
                    _show(output, message, headers_only=headers_only, most=width)
                if ack and message.reply.startswith(ACK_PREFIX):
                    api.link.publish(message.reply, b"+ACK")
            if ack:
                await api.link.flush()
            if feed.dropped:
                output.note(
                    f"{count_text(feed.dropped)} messages came faster than they could be shown, and are lost"
                )
        return 0 if shown else NOTHING

    run(work())


class _Feed:
    """The messages of several subscriptions, in order of arrival."""

    def __init__(self, link: Link, subjects: list[str], queue: str) -> None:
        self._waiting: deque[LinkMessage] = deque()
        self._came = asyncio.Event()
        self.dropped = 0
        self._subscriptions = [link.subscribe(each, queue=queue, deliver=self._take) for each in subjects]

    def check(self) -> None:
        """Raise if the server has refused one of the subjects."""
        for each in self._subscriptions:
            if each.error is not None:
                raise each.error

    def _take(self, messages: list[LinkMessage]) -> None:
        room = DEFAULT_BUFFER - len(self._waiting)
        self._waiting.extend(messages[:room])
        self.dropped += max(len(messages) - room, 0)
        self._came.set()

    async def next(self, timeout_s: float | None) -> LinkMessage | None:
        """Return the next message; None if none came in time."""
        while not self._waiting:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), timeout_s)
            except TimeoutError:
                self.check()
                return None
        return self._waiting.popleft()


def _show(output: CommandOutput, message: LinkMessage, *, headers_only: bool, most: int) -> None:
    headers = read_pairs(message.block) if message.block else []
    document: dict[str, Any] = {"subject": message.subject}
    if message.reply:
        document["reply"] = message.reply
    if headers:
        document["headers"] = header_fields(headers)
    if message.status:
        document["status"] = message.status
    payload = b"" if headers_only else message.payload
    if not headers_only:
        document |= payload_fields(payload)
    clock = time.strftime("%H:%M:%S")
    reply = f" (reply to {safe(message.reply)})" if message.reply else ""
    status = f" [{message.status} {safe(message.description)}]" if message.status else ""
    show_message(output, document, f"{clock} {safe(message.subject)}{reply}{status}", headers, payload, most)
