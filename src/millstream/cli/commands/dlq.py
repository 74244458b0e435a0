"""`millstream dlq`: read and redrive the dead letters of pipelines."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
import typer

from millstream.base.words import counted
from millstream.cli.commands.lookup import stream_info
from millstream.cli.commands.pub import BodyFile
from millstream.cli.completion import StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import FAILED, NOTHING, UsageError
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.readings import read_headers_given
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import (
    count_text,
    header_fields,
    payload_fields,
    payload_text,
    safe,
    since_text,
    time_text,
)
from millstream.cli.session import missing, run
from millstream.golang.time import format_time
from millstream.letters.letter import Letter
from millstream.letters.redrives import Edit, Redriven, RedriveOutcome, redrive, redrive_all
from millstream.letters.streams import letter_streams, read_letter, read_letters
from millstream.link.options import LinkOptions

app = CommandGroup("Dead letters: messages that were given up, with the reason. Read them, send them again.")


@app.command("ls")
@talks_to_a_server
def ls(
    *,
    server: LinkOptions,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="Its letters; else all streams with some.")
    ] = "",
    seq: Annotated[int, typer.Option("--seq", metavar="NUMBER", min=1, help="Begin at this sequence.")] = 1,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="NUMBER", min=1, max=1000, help="Maximum number of letters."),
    ] = 50,
    json: JsonOption = False,
) -> None:
    """List streams that hold dead letters, or the letters of one. Ends with 7 if there are none.

    Streams are found by their name, subjects or description, which speak of `dlq` or `dead`, or by
    `millstream.dead_letters` in their metadata; any other can be named.

    \b
    Examples:
      millstream dlq ls
      millstream dlq ls DEAD --limit 10
    """

    async def work() -> int:
        output = CommandOutput(json=json)
        async with connected(server, "millstream dlq ls") as api:
            if not stream:
                streams = await letter_streams(api.link)
                rows = [
                    [each.stream, count_text(each.messages), time_text(each.last_time), each.last_reason]
                    for each in streams
                ]
                columns = ("Stream", "#Letters", "Last", "Last reason")
                output.table(msgspec.to_builtins(streams), columns, rows, empty="there are no dead letters")
                return 0 if streams else NOTHING
            await stream_info(api, stream)
            page = await read_letters(api.link, stream, start=seq, limit=limit)
        now = time.time()
        rows = [_row(each, now) for each in page.letters]
        heads = ("#Seq", "#Age", "From", "Consumer", "#Deliveries", "Reason")
        empty = f"stream {stream} holds no dead letters"
        output.table([letter_document(each) for each in page.letters], heads, rows, empty=empty)
        if page.next:
            output.note(f"more: --seq {page.next}")
        return 0 if page.letters else NOTHING

    run(work())


def _row(letter: Letter, now: float) -> list[str]:
    return [
        str(letter.seq),
        since_text(format_time(letter.time), now),
        safe(letter.origin.subject or "?", 40),
        letter.consumer or "-",
        str(letter.deliveries or "-"),
        safe(letter.reason, 60),
    ]


def letter_document(letter: Letter) -> dict[str, Any]:
    """Return a letter for JSON, in the shape of the gateway's API."""
    origin = letter.origin
    document: dict[str, Any] = {
        "seq": letter.seq,
        "time": format_time(letter.time),
        "subject": letter.subject,
        "original_subject": origin.subject,
        "original_stream": origin.stream,
        "original_seq": origin.seq,
        "consumer": letter.consumer,
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "gone": letter.is_gone,
        "headers": header_fields(letter.headers),
    }
    return document | payload_fields(letter.payload)


@app.command("show")
@talks_to_a_server
def show(
    *,
    server: LinkOptions,
    stream: StreamName,
    seq: Annotated[int, typer.Argument(metavar="SEQ", min=1, help="The letter.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Show a dead letter: reason, origin, headers and payload.

    \b
    Examples:
      millstream dlq show DEAD 7
    """

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream dlq show") as api:
            await stream_info(api, stream)
            letter = await read_letter(api.link, stream, seq)
        if letter is None:
            raise missing(f"stream {stream} has no dead letter {seq}; see millstream dlq ls {stream}")
        origin = letter.origin
        about = {
            "Reason": letter.reason,
            "Kept": time_text(format_time(letter.time)),
            "Consumer": letter.consumer or "-",
            "Deliveries": str(letter.deliveries or "-"),
            "Original": f"{origin.subject or '?'}, {origin.seq or '?'} of stream {origin.stream or '?'}",
            "Stored first": time_text(origin.time) if origin.time else "-",
            "Can be redriven": "yes" if letter.can_be_redriven else "no: there is no payload, or no subject",
        }
        payload = {"Payload": payload_text(letter.payload)} if not letter.is_gone else {}
        sections = {
            f"Dead letter {seq} of {safe(stream)}": about,
            "Headers": dict(letter.headers),
            "": payload,
        }
        output.details(letter_document(letter), sections)

    run(work())


@app.command("redrive")
@talks_to_a_server
def redrive_command(
    *,
    server: LinkOptions,
    stream: StreamName,
    seqs: Annotated[
        list[int] | None, typer.Argument(metavar="SEQ", help="Which letters.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All letters that are there now.")] = False,
    body: Annotated[
        str | None, typer.Option("--body", metavar="TEXT", help="Another payload, for one letter.")
    ] = None,
    file: BodyFile = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME:VALUE", help="Other headers, for one letter; several times."
        ),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Publish letters to their original subject again.

    A letter is deleted once its message is stored there. Each has a message id, so a redrive that was cut off
    can be repeated. Ends with 1 if a letter stays.

    \b
    Examples:
      millstream dlq redrive DEAD 7 8 9
      millstream dlq redrive DEAD 7 --body '{"order": 1}'
      millstream dlq redrive DEAD --all --force
    """
    wanted = list(seqs or [])
    if bool(wanted) == every:
        raise UsageError("name letters, or say --all; see millstream dlq ls")
    edit = _edit(body, file, header)
    if edit is not None and len(wanted) != 1:
        raise UsageError("--body, --file and --header are for one letter")

    async def work() -> int:
        output = CommandOutput(json=json)
        async with connected(server, "millstream dlq redrive") as api:
            found = (await stream_info(api, stream))["state"]
            if every:
                confirm(f"redrive up to {counted(found['messages'], 'letter')} of {stream}", force=force)
                results: list[Redriven] = []
                start = 1
                while start:
                    page = await redrive_all(api.link, stream, start=start)
                    results += page.results
                    failed = page.results and page.results[-1].outcome is RedriveOutcome.FAILED
                    start = 0 if failed else page.next
            else:
                results = [await redrive(api.link, stream, each, edit) for each in wanted]
        rows = [[str(each.seq), str(each.outcome), each.subject, _where(each)] for each in results]
        columns = ("#Seq", "Outcome", "Subject", "Now")
        output.table(msgspec.to_builtins(results), columns, rows, empty=f"{stream} has no dead letters")
        good = (RedriveOutcome.REDRIVEN, RedriveOutcome.DUPLICATE)
        return 0 if all(each.outcome in good for each in results) else FAILED

    run(work())


def _where(result: Redriven) -> str:
    return result.error or (f"{result.stream} {result.stored_seq}" if result.stream else "-")


def _edit(body: str | None, file: Any, header: list[str] | None) -> Edit | None:
    from millstream.cli.commands.pub import read_body

    if body is None and file is None and not header:
        return None
    payload = read_body(body, file) if body is not None or file is not None else None
    return Edit(payload, read_headers_given(header) if header else None)
