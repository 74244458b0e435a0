"""Publishing many messages in one request: NDJSON in, a line of result for each out, in order.

    body ─▶ whole lines of a chunk ─▶ decode all at once ─▶ publisher (window) ─▶ queue ─▶ lines of results
            └────────────── reader task ──────────────────────────────────┘      └── the answer's generator

A body of any size is streamed: few chunks wait for their acknowledgements, and while the caller does not read
results, the body is not read either.  Messages are sent in the order of their lines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.gateway.errors import BadRequest, BodyTooLarge, Disconnected, GatewayError, UnsupportedMedia
from millstream.gateway.v2.calls import Call, Flow, Reply, cancelled
from millstream.gateway.v2.message_headers import JsonHeaders, from_json, refuse_batches
from millstream.gateway.v2.names import check_header_reach, check_reach, check_subject
from millstream.gateway.v2.operations import NDJSON, Answer, Body, Section, Tag
from millstream.gateway.v2.payload import body_of, to_json
from millstream.gateway.v2.problems import Problem, problem_of
from millstream.jsapi import headers as jetstream
from millstream.link.publish_window import Receipts, StoredIn
from millstream.link.publisher import Publisher
from millstream.protocol.headers import make_text

section: Final = Section(Tag.PUBLISHING)

_LOG: Final = logging.getLogger("millstream.gateway")
_CHUNKS_IN_FLIGHT: Final = 8
_MEDIA_TYPES: Final = (NDJSON, "application/ndjson", "application/jsonl", "application/json-lines")

WireMessage = tuple[bytes, bytes, bytes]  # subject, header block, body


class Results(StrEnum):
    """The lines of the answer."""

    ALL = "all"  # one for each message
    FAILURES = "failures"  # one for each message that was not stored, and totals at the end


class BatchQuery(msgspec.Struct, frozen=True):
    subject: Annotated[str, msgspec.Meta(description="for lines that have no `subject`")] | None = None
    results: Annotated[
        Results,
        msgspec.Meta(description="`failures` for callers that read nothing before they have sent everything"),
    ] = Results.ALL


class BatchLine(msgspec.Struct, forbid_unknown_fields=True):
    """A message to publish; at most one of `data`, `json` and `base64`."""

    subject: str = ""
    data: str | msgspec.UnsetType = msgspec.UNSET
    json: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    base64: str | msgspec.UnsetType = msgspec.UNSET
    headers: JsonHeaders | msgspec.UnsetType = msgspec.UNSET
    msg_id: Annotated[str, msgspec.Meta(description="the same as the header Nats-Msg-Id")] = ""


class BatchResult(msgspec.Struct, omit_defaults=True):
    """The result of one line; `line` counts from 1 and is sent with `results=failures`."""

    ok: bool = msgspec.field(default_factory=bool)
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    val: str = ""
    error: Problem | None = None
    line: int = 0


class BatchSum(msgspec.Struct):
    """The last line, with `results=failures`."""

    published: int
    duplicates: int
    failed: int


class _Chunk:
    """Messages that were read together, and their pending acknowledgements."""

    __slots__ = ("mistakes", "receipts")

    def __init__(self, receipts: asyncio.Future[Receipts], mistakes: dict[int, GatewayError]) -> None:
        self.receipts = receipts
        self.mistakes = mistakes  # by position, for lines that were never sent


_decoder: Final = msgspec.json.Decoder(BatchLine)
_UNSET: Final = msgspec.UNSET


@section.post(
    "/messages",
    "Publish many messages",
    query=BatchQuery,
    body=Body({NDJSON: BatchLine}, "one message on each line"),
    answers=(Answer(200, "one result on each line, in the order of the messages", {NDJSON: BatchResult}),),
    problems=(415,),
)
async def publish_batch(call: Call) -> Reply:
    """Each line of the body is one message, with the limits of a single one. The body may be of any size:
    results are sent while it arrives, so read them meanwhile (as curl does), or request failures only.
    Messages of one request are stored in their order. A line that fails does not stop the others."""
    if call.media_type and call.media_type not in _MEDIA_TYPES:
        raise UnsupportedMedia(f"{call.media_type} is not supported here; send {NDJSON}")
    query: BatchQuery = call.query
    if query.subject is not None:
        check_subject(query.subject)
        check_reach(query.subject, call.settings)
    call.link.out.check()
    batch = _Batch(call, call.link.publisher, query)
    return Flow(NDJSON, batch.lines(), watch=False)


class _Batch:
    def __init__(self, call: Call, publisher: Publisher, query: BatchQuery) -> None:
        self._call = call
        self._publisher = publisher
        self._subject = (query.subject or "").encode()
        self._results = query.results
        self._queue: asyncio.Queue[_Chunk | GatewayError | None] = asyncio.Queue(_CHUNKS_IN_FLIGHT)
        self._longest = call.settings.limits.max_body
        self._published = call.core.published_v2
        self._looked_at = (
            "$",
            call.settings.nats.link.inbox_prefix[:1],
        )  # prefixes of subjects that are not for callers
        self._done = 0
        self._duplicates = 0
        self._failed = 0

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the answer."""
        reader = asyncio.get_running_loop().create_task(self._read())
        try:
            while (chunk := await self._queue.get()) is not None:
                if isinstance(chunk, GatewayError):
                    yield to_json(BatchResult(error=problem_of(chunk))) + b"\n"
                    break
                told = self._told(await chunk.receipts, chunk.mistakes)
                if told:
                    yield told
            if self._results is Results.FAILURES:
                stored = self._done - self._failed
                yield to_json(BatchSum(stored, self._duplicates, self._failed)) + b"\n"
        finally:
            await cancelled(reader)

    # -- in -------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        rest = b""
        timeout_s = self._call.settings.limits.body_timeout_s or None
        chunks = self._call.chunks()
        try:
            while True:
                async with asyncio.timeout(timeout_s):  # for each piece, not for the whole body
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                end = chunk.rfind(b"\n")
                if end < 0:
                    rest += chunk
                    self._call.exchange.hold(len(rest))
                    if self._longest and len(rest) > self._longest:
                        raise BodyTooLarge(f"a line has at most {self._longest} bytes here")
                    continue
                await self._submit(rest + chunk[: end + 1])
                rest = chunk[end + 1 :]
                self._call.exchange.hold(len(rest))
            if rest:
                await self._submit(rest)
            await self._queue.put(None)
        except TimeoutError:
            await self._queue.put(BadRequest("the body stopped arriving"))
        except Disconnected:
            await self._queue.put(None)
        except GatewayError as error:
            await self._queue.put(error)
        except Exception:  # any error: the answer must not wait for more
            _LOG.exception("request %s: the body of a batch can not be read", self._call.exchange.request_id)
            await self._queue.put(GatewayError("the rest of the batch was not read"))

    async def _submit(self, text: bytes) -> None:
        mistakes: dict[int, GatewayError] = {}
        try:
            lines: list[BatchLine | GatewayError] = _decoder.decode_lines(text)  # type: ignore[assignment]
        except UNREADABLE_JSON:
            lines = [_decoded(line) for line in text.split(b"\n") if line.strip()]
        messages: list[WireMessage] = []
        for place, line in enumerate(lines):
            if isinstance(line, BatchLine):
                data = line.data
                if (
                    line.headers is _UNSET
                    and line.subject[:1] not in self._looked_at
                    and not line.msg_id
                    and line.json is line.base64 is _UNSET
                    and data is not _UNSET
                ):
                    messages.append((line.subject.encode() or self._subject, b"", data.encode()))
                    continue
                try:
                    messages.append(self._message(line))
                    continue
                except GatewayError as error:
                    line = error
            mistakes[place] = line
        await self._queue.put(_Chunk(await self._publisher.submit(messages), mistakes))

    def _message(self, line: BatchLine) -> WireMessage:
        check_reach(line.subject, self._call.settings)
        pairs = [] if line.headers is _UNSET else from_json(line.headers)
        if pairs:
            refuse_batches(pairs)
            check_header_reach(pairs, self._call.settings)
        if line.msg_id:
            pairs += from_json({jetstream.MSG_ID: line.msg_id})
        body = body_of(line.data, line.json, line.base64)
        return line.subject.encode() or self._subject, make_text(pairs), body

    # -- out ------------------------------------------------------------------------------------------

    def _told(self, receipts: Receipts, mistakes: dict[int, GatewayError]) -> bytes:
        """Return the lines about one chunk."""
        sequences = receipts.sequences
        self._duplicates += len(receipts.duplicates)
        first = self._done
        self._done += len(sequences) + len(mistakes)
        self._failed += len(receipts.errors) + len(mistakes)
        self._published.inc(len(sequences) - len(receipts.errors))
        if self._results is Results.FAILURES and not receipts.errors and not mistakes:
            return b""
        plain = not (mistakes or receipts.errors or receipts.duplicates or receipts.values)
        origins = receipts.origins
        if plain and sequences and self._results is Results.ALL and origins.count(origins[0]) == len(origins):
            start = _start(origins[0])
            between = "}\n" + start
            return (start + between.join(map(str, sequences)) + "}\n").encode()
        told: list[bytes] = []
        place = 0  # in receipts
        for position in range(len(sequences) + len(mistakes)):
            mistake = mistakes.get(position)
            if mistake is not None:
                result = BatchResult(error=problem_of(mistake))
            else:
                result = _result(receipts, place)
                place += 1
            if self._results is Results.FAILURES:
                if result.ok:
                    continue
                result.line = first + position + 1
            told.append(to_json(result))
        return b"\n".join(told) + b"\n" if told else b""


def _decoded(line: bytes) -> BatchLine | GatewayError:
    try:
        return _decoder.decode(line)
    except UNREADABLE_JSON as error:
        return BadRequest(f"the line can not be read: {error}")


def _result(receipts: Receipts, place: int) -> BatchResult:
    error = receipts.errors.get(place)
    if error is not None:
        return BatchResult(error=problem_of(error))
    origin = receipts.origins[place]
    return BatchResult(
        ok=True,
        stream=origin.stream if origin is not None else "",
        seq=receipts.sequences[place],
        duplicate=place in receipts.duplicates,
        val=receipts.values.get(place, ""),
    )


def _start(origin: StoredIn | None) -> str:
    stream = to_json(origin.stream if origin is not None else "").decode()
    return f'{{"ok":true,"stream":{stream},"seq":'
