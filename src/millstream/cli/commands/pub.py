"""`millstream pub`: publish messages, to a subject or into a stream."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Annotated, Any, Final

import typer

from millstream.base.reasons import file_reason
from millstream.base.words import counted
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import FAILED, NOTHING, Ending, UsageError
from millstream.cli.output.readings import read_duration, read_headers_given
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import count_text
from millstream.cli.session import run
from millstream.jsapi import headers as names
from millstream.link.errors import NoResponders
from millstream.link.frames import header_block
from millstream.link.options import LinkOptions
from millstream.link.publisher import Publisher
from millstream.transfer.api import JetStreamApi

_BATCH: Final = 500

Body = Annotated[
    str | None,
    typer.Argument(
        metavar="BODY",
        help="The payload; without it, or with -, it is read from standard input.",
        show_default=False,
    ),
]
BodyFile = Annotated[
    Path | None, typer.Option("--file", "-F", metavar="FILE", help="The payload is the content of this file.")
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME:VALUE", help="A header; may be given several times."),
]


def read_body(body: str | None, file: Path | None) -> bytes:
    """Return the payload from the command line, a file or standard input."""
    if file is not None:
        if body is not None:
            raise UsageError("BODY and --file exclude each other")
        try:
            return file.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {file}: {file_reason(error)}") from None
    if body is None or body == "-":
        if sys.stdin.isatty() and body is None:
            raise UsageError("a payload is missing: give it as the last argument ('' for none), or by a pipe")
        return sys.stdin.buffer.read()
    return body.encode(errors="surrogateescape")


@talks_to_a_server
def pub(
    *,
    server: LinkOptions,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Where to.", show_default=False)],
    body: Body = None,
    file: BodyFile = None,
    header: HeaderOption = None,
    stored: Annotated[
        bool,
        typer.Option("--jetstream", "-J", help="Wait until a stream has stored each message; shows where."),
    ] = False,
    msg_id: Annotated[
        str, typer.Option("--id", metavar="TEXT", help="Message id, against duplicates; {n} is the number.")
    ] = "",
    expect_seq: Annotated[
        int | None,
        typer.Option(
            "--expect-seq", metavar="NUMBER", help="Only if this is the last sequence of the stream."
        ),
    ] = None,
    ttl: Annotated[
        str, typer.Option("--ttl", metavar="TIME", help="The stream removes it after this time.")
    ] = "",
    reply: Annotated[str, typer.Option("--reply", metavar="SUBJECT", help="Reply subject.")] = "",
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="NUMBER", min=1, help="Number of messages.")
    ] = 1,
    pause: Annotated[str, typer.Option("--sleep", metavar="TIME", help="Pause between two messages.")] = "",
    lines: Annotated[bool, typer.Option("--lines", help="Each line of the input is a message.")] = False,
    json: JsonOption = False,
) -> None:
    """Publish a message; {n} in the payload is the number of the message, with --count.

    Without --jetstream, only the receipt by the server is confirmed.

    \b
    Examples:
      millstream pub orders.eu '{"order": 1}'
      millstream pub orders.eu 'order {n}' --count 1000 --jetstream
      millstream pub orders.eu -H 'Trace: 7' --file order.json
      tail -f app.log | millstream pub logs.app --lines
    """
    headers = _headers(header, expect_seq, ttl)
    if msg_id and not stored:
        raise UsageError("--id is for --jetstream")
    if reply and stored:
        raise UsageError("--reply and --jetstream exclude each other: the answer is the stream's")
    sleep_s = read_duration(pause, "--sleep") / 1e9 if pause else 0.0
    if lines and (body is not None or file is not None or count > 1):
        raise UsageError("--lines reads standard input; it excludes BODY, --file and --count")

    async def work() -> None:
        output = CommandOutput(json=json)
        async with connected(server, "millstream pub") as api:
            sender = _Sender(api, output, subject, headers, msg_id, reply, stored=stored)
            if lines:
                await _send_lines(sender)
            else:
                payload = read_body(body, file)
                for n in range(1, count + 1):
                    await sender.send(payload.replace(b"{n}", b"%d" % n) if count > 1 else payload)
                    if sleep_s and n < count:
                        await sender.settle()
                        await asyncio.sleep(sleep_s)
            await sender.end()

    run(work())


def _headers(header: list[str] | None, expect_seq: int | None, ttl: str) -> list[tuple[str, str]]:
    headers = read_headers_given(header)
    if expect_seq is not None:
        headers.append((names.EXPECTED_LAST_SEQUENCE, str(expect_seq)))
    if ttl:
        headers.append((names.TTL, "never" if ttl == "never" else f"{read_duration(ttl, '--ttl') // 10**9}s"))
    return headers


async def _send_lines(sender: _Sender) -> None:
    """Send lines as they come; wait for confirmations whenever no line is ready."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue(_BATCH)

    def read() -> None:
        while line := sys.stdin.buffer.readline():
            asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
        asyncio.run_coroutine_threadsafe(queue.put(b""), loop).result()

    Thread(target=read, daemon=True).start()  # a daemon thread, so that Ctrl-C does not wait for a line
    while line := await queue.get():
        await sender.send(line.rstrip(b"\r\n"))
        if queue.empty():
            await sender.settle()


class _Sender:
    """Publishes messages, with or without a stream, and prints the result."""

    def __init__(
        self,
        api: JetStreamApi,
        output: CommandOutput,
        subject: str,
        headers: list[tuple[str, str]],
        msg_id: str,
        reply: str,
        *,
        stored: bool,
    ) -> None:
        self._link = api.link
        self._output = output
        self._subject = subject
        self._headers = headers
        self._msg_id = msg_id
        self._reply = reply
        self._publisher = Publisher(api.link, timeout_s=api.timeout_s) if stored else None
        self._waiting: list[tuple[bytes, bytes, bytes]] = []
        self._sent = self._bytes = 0
        self._last: Any = None
        self._began = time.monotonic()

    async def send(self, payload: bytes) -> None:
        """Send one message; messages are sent in groups."""
        self._sent += 1
        self._bytes += len(payload)
        headers = list(self._headers)
        if self._msg_id:
            headers.append((names.MSG_ID, self._msg_id.replace("{n}", str(self._sent))))
        if self._publisher is None:
            self._link.publish(self._subject, payload, reply=self._reply, headers=headers)
        else:
            self._waiting.append((self._subject.encode(), header_block(headers), payload))
        if self._sent % _BATCH == 0:
            await self.settle()

    async def settle(self) -> None:
        """Wait until all sent messages are confirmed."""
        if self._publisher is None:
            await self._link.flush()
            return
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        receipts = await self._publisher.publish_many(batch)
        for place in range(len(batch)):
            try:
                self._last = receipts.ack(place)
            except NoResponders:
                hint = "see millstream stream ls --subject"
                raise Ending(f"no stream stores {self._subject}; {hint} {self._subject}", NOTHING) from None
        if self._last is None:
            raise Ending("nothing was confirmed", FAILED)

    async def end(self) -> None:
        """Wait for the last confirmations, and print the result."""
        await self.settle()
        document: dict[str, Any] = {"subject": self._subject, "messages": self._sent, "bytes": self._bytes}
        text = f"{counted(self._sent, 'message')} to {self._subject}"
        if self._last is not None:
            ack = self._last
            document |= {"stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate}
            known = ", a duplicate" if ack.duplicate else ""
            text += f", stored in {ack.stream} up to sequence {ack.seq}{known}"
        took = time.monotonic() - self._began
        if self._sent > 1:
            text += f", {count_text(self._sent / max(took, 1e-9))} a second"
        self._output.done(document, text)
