"""A consumer over a WebSocket: messages down; acknowledgements and permits up.

    down  {"type":"message", …the message…, "ack_id":"…"}
          {"type":"result","id":1,"ok":true,"status":"confirmed"}       to what had an `id`, or failed
          {"type":"problem","status":404,…}                              then the socket is closed
    up    {"op":"ack","ack_id":"…"}      also nak (delay), term (reason), progress; `confirm`, `id`
          {"op":"permit","count":100}

At most `window` messages are sent and not acknowledged.  With `flow=permit` only permitted messages are sent:
a reader that gives no permits, or does not read its socket, delays no other reader.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.gateway.errors import FAILURES, Disconnected, Stopping
from millstream.gateway.exchange import Exchange
from millstream.gateway.v2.calls import Call, Reply, cancelled
from millstream.gateway.v2.consume_routes import (
    AckItem,
    AckKind,
    AckResult,
    AckStatus,
    acknowledge_all,
    message_of,
)
from millstream.gateway.v2.consumer_session import ConsumerSession, OnDisconnect
from millstream.gateway.v2.consumers import consumer_of
from millstream.gateway.v2.live import Leaving
from millstream.gateway.v2.messages import Payload
from millstream.gateway.v2.operations import Answer, Section, Tag
from millstream.gateway.v2.payload import PayloadForm, to_json
from millstream.gateway.v2.problems import problem_of
from millstream.gateway.v2.streams import stream_of
from millstream.http.asgi import Receive, Send

section: Final = Section(Tag.CONSUMING)

_GOING_AWAY: Final = 1001
_CLOSE_CODES: Final = 4000  # added to the HTTP status
_CONFIRM_S: Final = 5.0
_ACKS_AT_ONCE: Final = 1000  # of one socket
_LONG_S: Final = 3600.0
_KINDS: Final = frozenset(AckKind)


class FlowMode(StrEnum):
    """The condition for sending the next message."""

    WINDOW = "window"
    PERMIT = "permit"


class SocketQuery(msgspec.Struct, frozen=True):
    window: Annotated[
        int, msgspec.Meta(ge=1, le=10_000, description="how many messages may be out unacknowledged")
    ] = 256
    flow: Annotated[FlowMode, msgspec.Meta(description="`permit`: only as many as the reader permits")] = (
        FlowMode.WINDOW
    )
    on_disconnect: Leaving = OnDisconnect.WAIT
    payload: Payload = PayloadForm.AUTO


class Command(msgspec.Struct, forbid_unknown_fields=True):
    """A command of a reader."""

    op: str
    ack_id: Annotated[str, msgspec.Meta(max_length=300)] = ""
    delay: Annotated[float, msgspec.Meta(ge=0, le=10**8)] = 0.0
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    confirm: bool = False
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 0
    id: str | int | None = None


class SocketResult(msgspec.Struct, omit_defaults=True, tag_field="type", tag="result"):
    id: str | int | None
    ok: bool = msgspec.field(default_factory=bool)
    ack_id: str = ""
    status: AckStatus | None = None
    detail: str = ""


_commands: Final = msgspec.json.Decoder(Command)


@section.get(
    "/streams/{stream}/consumers/{consumer}/socket",
    "Read and acknowledge over a WebSocket",
    query=SocketQuery,
    stream=True,
    socket=True,
    answers=(Answer(101, "the WebSocket is open"),),
    problems=(404, 409),
)
async def open_socket(call: Call) -> Reply:
    """Messages of a pull consumer come as JSON texts with `"type":"message"`; the reader sends
    `{"op":"ack","ack_id":…}` (or `nak` with `delay`, `term` with `reason`, `progress`), and
    `{"op":"permit","count":…}` with `flow=permit`. Messages that were sent and not acknowledged are
    redelivered after `ack_wait`, or with `on_disconnect=nak` as soon as the socket is closed. When the
    gateway closes the socket, it sends a `problem` first; the close code is 4000 plus the status, or 1001
    when the gateway stops."""
    query: SocketQuery = call.query
    session = ConsumerSession(call, window=query.window, on_disconnect=query.on_disconnect, hold_unacked=True)
    await session.open()
    return SocketReply(call, session)


class SocketReply:
    """The service of one socket, from accept to close."""

    def __init__(self, call: Call, session: ConsumerSession) -> None:
        query: SocketQuery = call.query
        self._call = call
        self._session = session
        self._form = query.payload
        self._stream = stream_of(call)
        self._consumer = consumer_of(call)
        self._sending = asyncio.Lock()
        self._acks: set[asyncio.Task[None]] = set()
        if query.flow is FlowMode.PERMIT:
            session.permits = 0

    async def respond(self, exchange: Exchange) -> None:
        receive, send = exchange.receive, exchange.send
        down = up = None
        try:
            if (await receive())["type"] != "websocket.connect":
                return
            await send({"type": "websocket.accept", "headers": []})
            down = asyncio.ensure_future(self._down(send))
            up = asyncio.ensure_future(self._up(receive, send))
            done, _ = await asyncio.wait((down, up), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except OSError:
            pass  # raised by servers when the reader has disconnected
        except FAILURES as error:
            if not isinstance(error, Disconnected):
                await self._farewell(send, error)
        finally:
            await cancelled(down, up, *self._acks)
            await self._session.close()

    # -- down -----------------------------------------------------------------------------------------

    async def _down(self, send: Send) -> None:
        delivered = self._call.core.metrics.delivered.labels("v2")
        whole = self._call.exchange.writes_whole
        while True:
            for taken in await self._session.take(_LONG_S):
                message = to_json(message_of(taken, self._form))
                if not whole:
                    self._session.sent(1)
                await self._say(send, b'{"type":"message",' + message[1:])
                if whole:
                    self._session.sent(1)
                delivered.inc()

    async def _say(self, send: Send, text: bytes) -> None:
        async with self._sending:
            await send({"type": "websocket.send", "text": text.decode()})

    async def _farewell(self, send: Send, error: Exception) -> None:
        problem = problem_of(error)
        code = _GOING_AWAY if isinstance(error, Stopping) else _CLOSE_CODES + problem.status
        with contextlib.suppress(Exception):  # the reader may have disconnected
            await self._say(send, b'{"type":"problem",' + to_json(problem)[1:])
            await send({"type": "websocket.close", "code": code, "reason": problem.title})

    # -- up -------------------------------------------------------------------------------------------

    async def _up(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                raise Disconnected("the socket was closed")
            text = event.get("text") or event.get("bytes") or b""
            try:
                command = _commands.decode(text)
            except UNREADABLE_JSON as error:
                await self._tell(send, SocketResult(None, False, detail=f"it can not be read: {error}"))
                continue
            if command.op in _KINDS:
                while len(self._acks) >= _ACKS_AT_ONCE:
                    await asyncio.wait(self._acks, return_when=asyncio.FIRST_COMPLETED)
                if command.confirm:
                    task = asyncio.ensure_future(self._acknowledge(command, send))
                    self._acks.add(task)
                    task.add_done_callback(self._acks.discard)
                else:
                    await self._acknowledge(command, send)
            else:
                await self._other(command, send)

    async def _acknowledge(self, command: Command, send: Send) -> None:
        item = AckItem(command.ack_id, AckKind(command.op), command.delay, command.reason)
        timeout_s = _CONFIRM_S if command.confirm else 0.0
        (result,) = await acknowledge_all(self._call.link, self._stream, self._consumer, [item], timeout_s)
        if command.id is not None or not result.ok:
            await self._tell(send, _told(command, result))

    async def _other(self, command: Command, send: Send) -> None:
        session = self._session
        if command.op != "permit":
            result = SocketResult(command.id, False, detail=f"{command.op!r} is not known")
        elif session.permits is None:
            result = SocketResult(command.id, False, detail="permits go with flow=permit")
        elif not command.count:
            result = SocketResult(command.id, False, detail="a permit has a `count`")
        else:
            session.permits += command.count
            session.wake()
            result = SocketResult(command.id, True)
            if command.id is None:
                return
        await self._tell(send, result)

    async def _tell(self, send: Send, result: SocketResult) -> None:
        await self._say(send, to_json(result))


def _told(command: Command, result: AckResult) -> SocketResult:
    return SocketResult(command.id, result.ok, result.ack_id, result.status, result.detail)
