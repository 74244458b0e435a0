"""One page of a stream's messages, in their order, with or without their bodies.

Each page is read by a pull consumer of its own, because that is the only way on any server to get many
filtered messages without their bodies.  Its state is in memory, and the server removes it if the connection
is lost.
"""

import asyncio
import contextlib
from typing import Any, Final, NamedTuple

from millstream.base.ids import nuid
from millstream.golang.time import Time
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkApiError, LinkError, RequestTimeout
from millstream.link.link import Link
from millstream.link.stored import Stored
from millstream.link.verbs import request_body
from millstream.protocol.ack_subject import read_ack_subject
from millstream.protocol.headers import read_pairs

_SECOND: Final = 1_000_000_000
_FORGET_AFTER_S: Final = 30  # seconds after which the server removes an unused consumer
_ENDS: Final = (404, 408, 409)  # statuses that end a pull: nothing left, expired, limits reached


class Page(NamedTuple):
    """Messages, and the number of those that follow."""

    messages: list[Stored]
    pending: int


async def read_page(
    link: Link,
    stream: str,
    subject: str,
    *,
    start: int,
    limit: int,
    headers_only: bool = False,
    max_bytes: int = 0,
) -> Page:
    """Return up to `limit` messages at or after sequence `start` whose subject matches.

    With `max_bytes` a page may end early.  It is empty only if no message matches, or none is small enough.
    """
    name = nuid()
    config: dict[str, Any] = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": max(start, 1),
        "ack_policy": "none",
        "filter_subject": subject,
        "headers_only": headers_only,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _FORGET_AFTER_S * _SECOND,
    }
    made = await link.api(
        f"CONSUMER.CREATE.{stream}.{name}.{subject}",
        {"stream_name": stream, "config": config, "action": "create"},
    )
    pending = int(made.get("num_pending") or 0)
    try:
        if not pending:
            return Page([], 0)
        pull: dict[str, Any] = {"batch": min(limit, pending), "no_wait": True}
        if max_bytes:
            pull["max_bytes"] = max_bytes
        return await _pull(link, f"{link.options.api}.CONSUMER.MSG.NEXT.{stream}.{name}", pull, pending)
    finally:
        with contextlib.suppress(LinkError):
            await link.api(f"CONSUMER.DELETE.{stream}.{name}")


async def _pull(link: Link, subject: str, pull: dict[str, Any], pending: int) -> Page:
    inbox = link.new_inbox()
    found: list[Stored] = []
    async with link.subscribe(inbox) as replies:
        link.publish(subject, request_body(pull), reply=inbox)
        while len(found) < pull["batch"]:
            try:
                message = await replies.next(link.options.request_timeout_s or None)
            except TimeoutError:
                raise RequestTimeout(f"no answer to {subject}") from None
            if message.status:
                if message.status not in _ENDS:
                    raise LinkApiError(message.status, 0, message.description, subject)
                break
            stored, pending = _delivered(message)
            found.append(stored)
    return Page(found, pending)


def _delivered(message: LinkMessage) -> tuple[Stored, int]:
    position = read_ack_subject(message.reply)
    if position is None:
        raise LinkApiError(500, 0, "a delivered message does not say where it is in its stream")
    stored = Stored(
        message.subject,
        position.stream_seq,
        Time(position.timestamp_ns),
        read_pairs(message.block),
        message.payload,
    )
    return stored, position.pending


async def gathered(limit: int, works: list[Any]) -> list[Any]:
    """Return the results of awaitables; at most `limit` run at a time."""
    turn = asyncio.Semaphore(limit)

    async def one(work: Any) -> Any:
        async with turn:
            return await work

    return list(await asyncio.gather(*(one(work) for work in works)))
