"""Changes of a bucket as Server-Sent Events.

id: 17                 the revision, after which a reconnecting client continues
event: entry
data: {"bucket":…,"key":…,"revision":17,"operation":"put","data":…}

event: caught_up       once, when all revisions of the start have been sent
data: {"revision":17}
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec

from millstream.buckets.kv import KeyValue, Watch
from millstream.buckets.kv_types import KvEntry
from millstream.gateway.errors import FAILURES, BadRequest, Stopping
from millstream.gateway.v2.bucket_errors import told
from millstream.gateway.v2.calls import AnswerHead, Call, Flow, Reply, begun
from millstream.gateway.v2.frames import PING_S, RETRY_MS
from millstream.gateway.v2.kv_routes import bucket_of, entry_json
from millstream.gateway.v2.messages import Payload
from millstream.gateway.v2.operations import EVENTS, Answer, Section, Tag
from millstream.gateway.v2.payload import PayloadForm, to_json
from millstream.gateway.v2.problems import problem_of

section: Final = Section(Tag.KEY_VALUE)

_AT_ONCE: Final = 64  # changes in one step of the event loop
_STOP_LOOK_S: Final = 1.0
_MOST_PATTERNS: Final = 64


class WatchQuery(msgspec.Struct, frozen=True):
    key: Annotated[
        list[str], msgspec.Meta(description="only these keys; `*` for a token and `>` for the rest")
    ] = []
    history: Annotated[bool, msgspec.Meta(description="begin with all revisions, not with the last ones")] = (
        False
    )
    new: Annotated[bool, msgspec.Meta(description="begin with nothing that is there already")] = False
    after: (
        Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="begin behind this revision")] | None
    ) = None
    payload: Payload = PayloadForm.AUTO


@section.get(
    "/kv/{bucket}/watch",
    "Watch keys",
    query=WatchQuery,
    stream=True,
    headers={"Last-Event-ID": "the id of the last event that arrived: go on behind it"},
    answers=(Answer(200, "changes, until the caller goes away", {EVENTS: {"type": "string"}}),),
    problems=(404, 406, 409, 422),
)
async def watch_keys(call: Call) -> Reply:
    """The last revision of each key, then every change. The id of an event is the revision, so `EventSource`
    continues after a reconnect. `caught_up` comes once, when all revisions that existed at the start have
    been sent. With `payload=none` values are not sent."""
    query: WatchQuery = call.query
    call.accepted(EVENTS)
    if len(query.key) > _MOST_PATTERNS:
        raise BadRequest(f"at most {_MOST_PATTERNS} patterns are allowed")
    kv = await bucket_of(call)
    after = _after(call, query)
    with told():
        watch = kv.watch(
            *query.key,
            after=after,
            history=query.history,
            new_only=query.new,
            headers_only=query.payload is PayloadForm.NONE,
            buffer_bytes=call.settings.limits.stream_buffer or 256 * 1024,
        )
        if call.is_head:
            return AnswerHead(EVENTS)
        await watch.open()
    return Flow(EVENTS, await begun(_events(call, kv, watch, query.payload)))


def _after(call: Call, query: WatchQuery) -> int | None:
    if sum((query.history, query.new, query.after is not None)) > 1:
        raise BadRequest("give one of `history`, `new` and `after`")
    last = call.header("last-event-id")
    if not last:
        return query.after
    if not (last.isascii() and last.isdigit() and len(last) < 20):
        raise BadRequest("Last-Event-ID is no revision")
    return int(last)


async def _events(call: Call, kv: KeyValue, watch: Watch, form: PayloadForm) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    said = loop.time()
    caught_up = False
    revision = 0
    try:
        yield b""  # for `begun`
        yield b"retry: %d\n\n" % RETRY_MS
        while True:
            if watch.caught_up and not caught_up:
                caught_up = True
                yield b'event: caught_up\ndata: {"revision":%d}\n\n' % revision
            if call.core.stopping.is_set():
                raise Stopping("the gateway is being stopped")
            entries = await _take(watch)
            if entries:
                revision = entries[-1].revision
                yield b"".join(_event(kv, entry, form) for entry in entries)
            elif loop.time() - said >= PING_S:
                yield b": ping\n\n"
            else:
                continue
            said = loop.time()
    except FAILURES as error:
        yield b"event: problem\ndata: %b\n\n" % to_json(problem_of(error))
    finally:
        await watch.close()


async def _take(watch: Watch) -> list[KvEntry]:
    """Return changes, or none if none came in time."""
    try:
        async with asyncio.timeout(_STOP_LOOK_S):
            with told():
                return await watch.take(_AT_ONCE)
    except TimeoutError:
        return []


def _event(kv: KeyValue, entry: KvEntry, form: PayloadForm) -> bytes:
    return b"id: %d\nevent: entry\ndata: %b\n\n" % (
        entry.revision,
        to_json(entry_json(kv.bucket, entry, form)),
    )
