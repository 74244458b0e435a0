"""Send an archive to a server, which creates a stream from it.

Several chunks are under way at a time; the server acknowledges each when it has taken it, or reports an error
in such a response.  The last, empty chunk is answered with the stream, after as long as the server needs to
make everything durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any, Final

from millstream.link.errors import NotConnected
from millstream.link.subscriptions import LinkSubscription
from millstream.link.verbs import read_fields
from millstream.transfer.answers import Json, checked_name, checked_stream, checked_target
from millstream.transfer.api import JetStreamApi
from millstream.transfer.errors import ServerLost

_CHUNK: Final = 128 * 1024
_UNDER_WAY: Final = 8
_NO_RESPONDERS: Final = 503
_LEAST_S: Final = 60.0  # for the server to take a chunk
_LAST_S: Final = 3600.0  # for the server to finish


async def send_archive(
    api: JetStreamApi,
    config: dict[str, Any],
    state: dict[str, Any],
    archive: AsyncIterable[bytes],
    sent: Callable[[int], None] = lambda _: None,
) -> Json:
    """Restore the stream `config` from `archive`; return the response.  `sent` is called with bytes."""
    name = checked_name(config["name"])
    answer = await api.ask(f"STREAM.RESTORE.{name}", {"config": config, "state": state})
    subject = checked_target(answer)
    under_way = total = 0

    async def settle(answers: LinkSubscription) -> None:
        nonlocal under_way
        reply = await answers.next(max(api.timeout_s, _LEAST_S))
        under_way -= 1
        if reply.payload:
            read_fields(reply.payload, f"restore of stream {name}")
            raise ServerLost(f"restore of stream {name}: the answer to a chunk makes no sense")
        if reply.status == _NO_RESPONDERS:
            raise ServerLost(f"restore of stream {name}: the server does not listen any more")

    try:
        with api.inbox() as (inbox, answers):
            async for piece in archive:
                for at in range(0, len(piece), _CHUNK):
                    chunk = piece[at : at + _CHUNK]
                    while under_way >= _UNDER_WAY:
                        await settle(answers)
                    api.link.publish(subject, chunk, reply=inbox)
                    under_way += 1
                    total += len(chunk)
                    sent(total)
            while under_way:
                await settle(answers)
        last = await api.link.request(subject, timeout_s=_LAST_S)
    except (NotConnected, TimeoutError) as error:
        raise ServerLost(f"restore of stream {name}: {error or 'the server does not answer'}") from error
    made = read_fields(last.payload, f"restore of stream {name}")
    checked_stream(made, name)
    return made


async def from_chunks(chunks: Any) -> AsyncIterable[bytes]:
    """Yield the chunks of a blocking iterator, which runs in a thread."""
    while True:
        chunk = await asyncio.to_thread(next, chunks, None)
        if chunk is None:
            return
        yield chunk
