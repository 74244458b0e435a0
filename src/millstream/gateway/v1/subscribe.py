"""Subscriptions: the checks, the session, and the last line.

The body is httpmq's: one JSON object for each line, although its content type is another.  A caller that
accepts `application/x-ndjson` gets the same body with that type; one that accepts only `text/event-stream`
gets Server-Sent Events.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import parse_qs

from millstream.gateway.core import Core
from millstream.gateway.error_map import envelope
from millstream.gateway.errors import FAILURES, Conflict, Disconnected, NotFound, Overloaded
from millstream.gateway.exchange import Exchange
from millstream.gateway.link import CallerLink
from millstream.gateway.v1.answers import refuse, refuse_for
from millstream.gateway.v1.board import Board
from millstream.gateway.v1.delivery import HttpDelivery, LineWriter
from millstream.gateway.v1.rules import Invalid, Rules, failed
from millstream.gateway.v1.session import Session
from millstream.subjects.match import collide

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_BOUND_FOR_S: Final = 3.0  # seconds; a session that has just ended looks alive for a moment
_BOUND_AGAIN_S: Final = 0.05
_PING_S: Final = 15.0
_HEADERS: Final = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
_KEEP_ALIVE: Final = (b"connection", b"keep-alive")
_UNDEFINED: Final = "Unable to define dispatcher"
_BOARD: Final = "board of v1"


class Bound(Conflict):
    """Raised if another subscription reads this consumer."""


class _Query:
    """The query of a subscription; `problem` is its error, if any."""

    def __init__(self, query: bytes) -> None:
        try:
            values = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=64)
        except ValueError:
            values = {}
        subjects = values.get("subject_name", [])
        windows = values.get("max_msg_inflight", [])
        groups = values.get("delivery_group", [])
        self.problem = ""
        self.subject = subjects[0] if subjects else ""
        self.group = groups[0] if groups else ""
        self.window = 0  # 0: the consumer's own max_ack_pending is the limit
        if len(subjects) != 1:
            self.problem = "Missing subscribe subject / Multiple subjects"
        elif len(windows) > 1:
            self.problem = "Multiple max_msg_inflight"
        elif windows and (not _INTEGER.fullmatch(windows[0]) or int(windows[0]) < 0):
            self.problem = "Unable to parse max_msg_inflight"
        elif len(groups) > 1:
            self.problem = "Multiple delivery groups"
        elif windows:
            self.window = int(windows[0])


class SubscribeRoute:
    """The handler of `GET /v1/data/stream/{streamName}/consumer/{consumerName}`."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._open = 0

    async def subscribe(self, exchange: Exchange, core: Core) -> None:
        stream, consumer = exchange.parameters
        for name, what in ((stream, "stream"), (consumer, "consumer")):
            if not self._rules.is_name(name):
                await refuse(exchange, 400, f"Invalid {what} name", failed("", "", "alphanum|uuid"))
                return
        query = _Query(exchange.scope["query_string"])
        if query.problem:
            await refuse(exchange, 400, query.problem, query.problem)
            return
        if core.settings.limits.streams and self._open >= core.settings.limits.streams:
            core.streams_full.ring()
            raise Overloaded("there are too many subscriptions")
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        framing = _Framing(exchange, query.subject, consumer)
        board = board_of(link)
        self._open += 1
        try:
            with link.held():
                try:
                    if exchange.is_head:
                        await self._check(link, board, stream, consumer, query, patience_s=0)
                        await self._begin(exchange, framing)
                        await exchange.finish()
                        return
                    session = await self._define(link, board, stream, consumer, query, core, framing)
                except FAILURES as error:
                    await refuse_for(exchange, core, _UNDEFINED, error)
                    return
                try:
                    await self._serve(exchange, core, session, framing)
                finally:
                    await session.close()
                    board.remove(session)  # now another session may subscribe
        finally:
            self._open -= 1

    async def _define(
        self,
        link: CallerLink,
        board: Board,
        stream: str,
        consumer: str,
        query: _Query,
        core: Core,
        framing: _Framing,
    ) -> Session:
        """Return a subscribed session; raises if the consumer cannot be subscribed to."""
        info = await self._check(link, board, stream, consumer, query, patience_s=_BOUND_FOR_S)
        session = Session(
            link,
            (stream, consumer),
            info,
            window=query.window,
            buffer=core.settings.limits.stream_buffer,
            frame=framing.frame,
            writes_whole=framing.writes_whole,
        )
        board.add(session)  # before the subscription, because an ack may come at once
        try:
            await session.open()
        except BaseException:
            await session.close()
            board.remove(session)
            raise
        return session

    async def _check(
        self, link: CallerLink, board: Board, stream: str, consumer: str, query: _Query, *, patience_s: float
    ) -> dict[str, Any]:
        """Return the info of the consumer; raises if it cannot be subscribed to."""
        self._rules.check_subject(query.subject)
        if query.group:
            self._rules.check_name("", "DeliveryGroup", query.group)
        info = await _info_when_free(link, board, stream, consumer, query, patience_s)
        if not info["config"].get("filter_subject"):
            stored = (await link.api(f"STREAM.INFO.{stream}"))["config"].get("subjects") or []
            if not any(collide(query.subject.encode(), subject.encode()) for subject in stored):
                raise NotFound("nats: no stream matches subject")
        return info

    async def _begin(self, exchange: Exchange, framing: _Framing) -> None:
        headers = list(_HEADERS)
        if exchange.scope["http_version"].startswith("1"):
            headers.append(_KEEP_ALIVE)
        await exchange.start(200, framing.content_type, headers)

    async def _serve(self, exchange: Exchange, core: Core, session: Session, framing: _Framing) -> None:
        await self._begin(exchange, framing)
        loop = asyncio.get_running_loop()
        core.metrics.streams.labels("v1").inc()
        tasks: set[asyncio.Task[Any]] = set()
        try:
            async with exchange.while_there() as presence:

                async def write(data: bytes) -> bool:
                    await exchange.write(data)
                    return not presence.is_gone  # the wait for room ended because the caller disconnected

                running = loop.create_task(session.run(write, framing.ping, _PING_S))
                tasks = {running, loop.create_task(core.stopping.wait())}
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            message, detail = "Server stopping", "terminating PUSH subscription on server stop"
            if running.done():
                message, detail = "Error occurred interacting with JetStream", running.result()
        except Disconnected:
            return
        finally:
            core.metrics.streams.labels("v1").dec()
            core.delivered.inc(framing.written)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        # A caller that does not read its messages will not read this either.
        last = loop.create_task(exchange.finish(framing.fatal(message, detail)))
        await asyncio.wait([last], timeout=1.0)
        if not last.done():
            last.cancel()


def board_of(link: CallerLink) -> Board:
    """Return the board of a link; it is closed with the link."""
    board = link.companions.get(_BOARD)
    if not isinstance(board, Board):
        board = link.companions[_BOARD] = Board(link)
    return board


class _Framing:
    """The framing of messages in one answer."""

    def __init__(self, exchange: Exchange, subject: str, consumer: str) -> None:
        self._request_id = exchange.request_id
        self._lines = LineWriter(exchange.request_id, subject, consumer)
        self.written = 0
        self.writes_whole = exchange.writes_whole
        accepted = exchange.header(b"accept").partition(";")[0].strip().lower()
        self._is_sse = accepted == "text/event-stream"
        self.content_type = (
            b"application/x-ndjson" if accepted == "application/x-ndjson" else b"text/event-stream"
        )
        self.ping = b": ping\n\n" if self._is_sse else b""

    def frame(self, delivery: HttpDelivery) -> bytes:
        self.written += 1
        line = self._lines.line(delivery)
        if self._is_sse:
            return b"id: %d\nevent: message\ndata: %s\n\n" % (delivery.stream_seq, line)
        return line + b"\n"

    def fatal(self, message: str, detail: str) -> bytes:
        line = envelope(self._request_id, 500, message, detail)
        return b"event: error\ndata: %s\n\n" % line if self._is_sse else line + b"\n"


async def _info_when_free(
    link: CallerLink, board: Board, stream: str, consumer: str, query: _Query, patience_s: float
) -> dict[str, Any]:
    """Return the info of the consumer once no other session reads it; raises if the query does not fit."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + patience_s
    while True:
        info = await link.api(f"CONSUMER.INFO.{stream}.{consumer}")
        config = info["config"]
        if not config.get("deliver_subject"):
            raise Invalid("nats: must use pull subscribe to bind to pull based consumer")
        wanted = config.get("filter_subject") or ""
        if wanted and wanted != query.subject:
            raise Invalid("nats: subject does not match consumer")
        group = config.get("deliver_group") or ""
        if group != query.group:
            if not group:
                raise Invalid(
                    "nats: cannot create a queue subscription for a consumer without a deliver group"
                )
            if not query.group:
                raise Invalid("nats: cannot create a subscription for a consumer with a deliver group")
            raise Invalid(f"nats: consumer is in delivery group {group!r}")
        if group or not (info.get("push_bound") or board.at((stream, consumer))):
            return info
        if loop.time() > give_up:
            raise Bound("nats: consumer is already bound to a subscription")
        await asyncio.sleep(_BOUND_AGAIN_S)
