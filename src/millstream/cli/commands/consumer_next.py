"""`millstream consumer next`: fetch messages of a pull consumer, and acknowledge them."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import typer

from millstream.cli.commands.lookup import consumer_info
from millstream.cli.commands.messages import show_message
from millstream.cli.completion import ConsumerName, StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import FAILED, NOTHING, Ending, UsageError
from millstream.cli.output.readings import SECOND, read_duration
from millstream.cli.output.tables import CommandOutput, JsonOption, RawOption, check_raw
from millstream.cli.output.texts import header_fields, payload_fields, safe, time_text
from millstream.cli.session import run
from millstream.golang.time import format_time
from millstream.link.deliveries import LinkMessage
from millstream.link.options import LinkOptions
from millstream.protocol.ack_subject import AckSubject, read_ack_subject
from millstream.protocol.headers import read_pairs
from millstream.transfer.api import JetStreamApi

_GRACE_S: Final = 2.0  # seconds for the server to report that a request has expired
_NO_MESSAGES, _TIMED_OUT, _CONFLICT = 404, 408, 409


class AckChoice(StrEnum):
    """The acknowledgement of each message."""

    ACK = "ack"
    NAK = "nak"
    TERM = "term"
    NONE = "none"


_WORDS: Final = {AckChoice.ACK: b"+ACK", AckChoice.NAK: b"-NAK", AckChoice.TERM: b"+TERM"}


@talks_to_a_server
def next_messages(
    *,
    server: LinkOptions,
    stream: StreamName,
    consumer: ConsumerName,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="NUMBER", min=1, help="Maximum number of messages.")
    ] = 1,
    wait: Annotated[
        str, typer.Option("--wait", metavar="TIME", help="Time to wait for messages; 0 does not wait.")
    ] = "5s",
    answer: Annotated[
        AckChoice, typer.Option("--answer", help="Acknowledgement of each message.")
    ] = AckChoice.ACK,
    no_ack: Annotated[
        bool, typer.Option("--no-ack", help="Short for --answer none: messages are redelivered.")
    ] = False,
    delay: Annotated[str, typer.Option(metavar="TIME", help="With nak: redeliver after this time.")] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="With term: the reason.")] = "",
    group: Annotated[str, typer.Option(metavar="NAME", help="Priority group, if the consumer has one.")] = "",
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Take messages of a pull consumer and acknowledge them.

    A message is acknowledged once it is shown. Ends with 7 if there is no message.

    \b
    Examples:
      millstream consumer next ORDERS billing
      millstream consumer next ORDERS billing --count 100 --wait 0 --json
      millstream consumer next ORDERS billing --no-ack
      millstream consumer next ORDERS billing --answer nak --delay 30s
    """
    check_raw(raw, json)
    kind = AckChoice.NONE if no_ack else answer
    word = _word(kind, delay, reason)
    wait_ns = read_duration(wait, "--wait")

    async def work() -> int:
        output = CommandOutput(json=json)
        async with connected(server, "millstream consumer next") as api:
            info = await consumer_info(api, stream, consumer)
            target = info["config"].get("deliver_subject")
            if target:
                hint = f"; it pushes to {target}: millstream sub {target}"
                raise UsageError(f"consumer {consumer} is no pull consumer{hint}")
            acked = info["config"].get("ack_policy", "none") != "none"
            request: dict[str, Any] = {"batch": count} | (
                {"expires": wait_ns} if wait_ns else {"no_wait": True}
            )
            request |= {"group": group} if group else {}
            taken = 0
            async for message in _pull(api, api.next_subject(stream, consumer), request, wait_ns / SECOND):
                _show(output, message, raw=raw)
                taken += 1
                if word and acked and message.reply:
                    await api.link.request(message.reply, word)  # the answer confirms the ack
            if not taken:
                output.note(f"consumer {consumer} of stream {stream} has no message")
        return 0 if taken else NOTHING

    run(work())


def _word(kind: AckChoice, delay: str, reason: str) -> bytes:
    if delay and kind is not AckChoice.NAK:
        raise UsageError("--delay is for --answer nak")
    if reason and kind is not AckChoice.TERM:
        raise UsageError("--reason is for --answer term")
    word = _WORDS.get(kind, b"")
    if delay:
        return word + b' {"delay": %d}' % read_duration(delay, "--delay")
    return word + b" " + reason.encode() if reason else word


async def _pull(api: JetStreamApi, subject: str, request: dict[str, Any], wait_s: float) -> Any:
    """Send one pull request, and yield its messages until it ends."""
    with api.inbox() as (inbox, messages):
        api.link.publish(subject, msgspec.json.encode(request), reply=inbox)
        left = int(request["batch"])
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s + max(_GRACE_S, api.timeout_s if not wait_s else 0.0)
        while left:
            try:
                message = await messages.next(max(deadline - loop.time(), 0.01))
            except TimeoutError:
                return
            if not message.status:
                left -= 1
                yield message
            elif message.status in (_NO_MESSAGES, _TIMED_OUT) or (
                message.status == _CONFLICT and "Batch Completed" in message.description
            ):
                return
            elif message.status >= 400:
                raise Ending(f"the server ended the request: {message.description or message.status}", FAILED)


def _show(output: CommandOutput, message: LinkMessage, *, raw: bool) -> None:
    if raw:
        output.raw(message.payload + b"\n")
        return
    headers = read_pairs(message.block) if message.block else []
    document: dict[str, Any] = {"subject": message.subject}
    text = safe(message.subject)
    place = read_ack_subject(message.reply)
    if place is not None:
        document |= _fields(place)
        again = f", delivery {place.delivered}" if place.delivered > 1 else ""
        when = time_text(format_time(place.timestamp_ns))
        text = f"[{place.stream_seq}] {when} {text} ({place.pending} left{again})"
    if headers:
        document["headers"] = header_fields(headers)
    show_message(output, document | payload_fields(message.payload), text, headers, message.payload)


def _fields(place: AckSubject) -> dict[str, Any]:
    return {
        "stream": place.stream,
        "seq": place.stream_seq,
        "time": format_time(place.timestamp_ns),
        "consumer": place.consumer,
        "consumer_seq": place.consumer_seq,
        "delivered": place.delivered,
        "pending": place.pending,
    }
