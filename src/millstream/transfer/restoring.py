"""Send an archive to a server, which creates a stream from it.

Several chunks are under way at a time; the server acknowledges each when it has taken it, or reports an error
in such a response.  The last, empty chunk is answered with the stream, after as long as the server needs to
make everything durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any, Final

from nats.errors import Error as NatsError

from millstream.transfer.answers import Json, checked_name, checked_stream, checked_target, read_answer
from millstream.transfer.api import JetStreamApi
from millstream.transfer.errors import ServerLost

_CHUNK: Final = 128 * 1024
_UNDER_WAY: Final = 8
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
    connection = api.connection
    inbox = connection.new_inbox()
    answers = await connection.subscribe(inbox)
    under_way = total = 0

    async def settle() -> None:
        nonlocal under_way
        reply = await answers.next_msg(timeout=max(api.timeout_s, 60.0))
        under_way -= 1
        if reply.data:
            read_answer(reply.data)
            raise ServerLost(f"restore of stream {name}: the answer to a chunk makes no sense")
        if (reply.headers or {}).get("Status") == "503":
            raise ServerLost(f"restore of stream {name}: the server does not listen any more")

    try:
        async for piece in archive:
            for at in range(0, len(piece), _CHUNK):
                chunk = piece[at : at + _CHUNK]
                while under_way >= _UNDER_WAY:
                    await settle()
                await connection.publish(subject, chunk, reply=inbox)
                under_way += 1
                total += len(chunk)
                sent(total)
        while under_way:
            await settle()
    except (NatsError, OSError) as error:
        raise ServerLost(f"restore of stream {name}: {error or type(error).__name__}") from error
    finally:
        if not connection.is_closed:
            await answers.unsubscribe()
    last = await api.message(subject, b"", timeout_s=_LAST_S)
    made = read_answer(last.data)
    checked_stream(made, name)
    return made


async def from_chunks(chunks: Any) -> AsyncIterable[bytes]:
    """Yield the chunks of a blocking iterator, which runs in a thread."""
    while True:
        chunk = await asyncio.to_thread(next, chunks, None)
        if chunk is None:
            return
        yield chunk
