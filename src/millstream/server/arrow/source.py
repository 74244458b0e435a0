"""The stream of a request: looked up and watched on the event loop, read by the thread of the answer.

A range ends at the last message that is durable at the time of the request.  If the request names a sequence
that is stored but not durable yet, it waits: a client that learned of a sequence from stream info finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from millstream.golang.time import format_time
from millstream.jetstream.read.lookup import when_durable
from millstream.server.arrow.problem import ArrowProblem, Gone
from millstream.store.extent import Extent, lend_extent
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream
    from millstream.server.arrow.gate import Gate
    from millstream.server.arrow.query import RangeQuery
    from millstream.server.jetstream_service import JetStreamService

_log = logging.getLogger("millstream.arrow")


class FoundRange(msgspec.Struct, frozen=True):
    """A range that is ready to be read."""

    lender: StreamLender
    first: int
    last: int  # everything up to here is durable
    first_seq: int  # of the stream
    last_seq: int
    created: str


class StreamLender:
    """Lends extents of a stream, as ``arrow.reader.Lender`` describes."""

    def __init__(self, gate: Gate, jetstream: JetStreamService, stream: Stream) -> None:
        self._gate = gate
        self._jetstream = jetstream
        self._stream = stream

    def lend(self, seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Extent | None:
        return self._gate.run(lambda: self._lend(seq, last, patterns, most))

    def give_back(self, extent: Extent, damaged: Sequence[int]) -> None:
        self._gate.tell(lambda: self._give_back(extent, damaged))

    def _lend(self, seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Extent | None:
        stream = self._stream
        engine = self._jetstream.engine
        account = engine.accounts.get(stream.account.name) if engine is not None else None
        if account is None or account.streams.get(stream.name) is not stream:
            raise Gone(f"stream {stream.name} was deleted")
        return lend_extent(stream.log, seq, last, patterns, most)

    def _give_back(self, extent: Extent, damaged: Sequence[int]) -> None:
        extent.give_back()
        for seq in damaged:
            self._stream.log.peek(
                seq, Record()
            )  # the log examines the record, reports the damage and drops it


async def find(gate: Gate, jetstream: JetStreamService, account: str, query: RangeQuery) -> FoundRange:
    """Return the requested range; raises Problem."""
    stream = stream_of(jetstream, account, query.stream)
    last_seq = stream.log.last_seq
    wanted = last_seq if query.last is None else min(query.last, last_seq)
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    when_durable(stream, wanted, lambda: None if durable.done() else durable.set_result(None))
    await durable
    log = stream.log
    return FoundRange(
        StreamLender(gate, jetstream, stream),
        query.first,
        min(wanted, log.committed),
        log.first_seq,
        log.committed,
        format_time(stream.created_ns),
    )


def stream_of(jetstream: JetStreamService, account: str, name: str) -> Stream:
    """Return a stream; raises Problem if there is none."""
    engine = jetstream.engine
    if engine is None:
        raise ArrowProblem(HTTPStatus.SERVICE_UNAVAILABLE, "JetStream is not enabled")
    found = engine.accounts.get(account)
    if found is None:
        raise ArrowProblem(HTTPStatus.NOT_FOUND, f"JetStream is not enabled for account {account}")
    stream = found.streams.get(name)
    if stream is None:
        raise ArrowProblem(HTTPStatus.NOT_FOUND, f"stream not found: {name}")
    return stream
