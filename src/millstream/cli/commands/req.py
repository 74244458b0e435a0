"""`millstream req`: send a request, and show the answers."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from millstream.cli.commands.messages import show_message
from millstream.cli.commands.pub import Body, BodyFile, HeaderOption, read_body
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import NO_SERVER, NOTHING, Ending
from millstream.cli.output.readings import read_duration, read_headers_given
from millstream.cli.output.tables import CommandOutput, JsonOption, RawOption, check_raw
from millstream.cli.output.texts import header_fields, payload_fields, safe
from millstream.cli.session import run
from millstream.link.deliveries import LinkMessage
from millstream.link.options import LinkOptions
from millstream.protocol.headers import read_pairs

_NO_RESPONDERS: Final = 503


@talks_to_a_server
def req(
    *,
    server: LinkOptions,
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="Subject of the request.", show_default=False)
    ],
    body: Body = None,
    file: BodyFile = None,
    header: HeaderOption = None,
    replies: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Number of answers to wait for; 0 is all that come.")
    ] = 1,
    gap: Annotated[
        str,
        typer.Option("--reply-timeout", metavar="TIME", help="With several: the longest pause between two."),
    ] = "300ms",
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Send a request and show the answers.

    Ends with 7 if nobody listens, and with 4 if nobody answers within --timeout.

    \b
    Examples:
      millstream req help.please 'what time is it?'
      millstream req time.now '' --timeout 1s --json
      millstream req '$SRV.PING' '' --replies 0
    """
    check_raw(raw, json)
    headers = read_headers_given(header)
    gap_s = read_duration(gap, "--reply-timeout") / 1e9
    payload = read_body(body, file)

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream req") as api:
            began = time.monotonic()
            with api.inbox() as (inbox, answers):
                api.link.publish(subject, payload, reply=inbox, headers=headers)
                got = 0
                while not replies or got < replies:
                    try:
                        message = await answers.next(api.timeout_s if not got else gap_s)
                    except TimeoutError:
                        break
                    if message.status == _NO_RESPONDERS:
                        raise Ending(f"nobody listens on {subject}", NOTHING)
                    got += 1
                    if raw:
                        output.raw(message.payload + b"\n")
                    else:
                        _show(output, message, time.monotonic() - began)
                if not got:
                    text = f"nobody answered on {subject} within {api.timeout_s:g} s; see --timeout"
                    raise Ending(text, NO_SERVER)

    run(work())


def _show(output: CommandOutput, message: LinkMessage, took_s: float) -> None:
    headers = read_pairs(message.block) if message.block else []
    document: dict[str, Any] = {"subject": message.subject, "seconds": round(took_s, 6)}
    if headers:
        document["headers"] = header_fields(headers)
    document |= payload_fields(message.payload)
    show_message(
        output, document, f"after {took_s * 1000:.1f} ms{_status(message)}", headers, message.payload
    )


def _status(message: LinkMessage) -> str:
    return f" [{message.status} {safe(message.description)}]" if message.status else ""
