"""Requests over one connection of nats-py, whose answers come to one wildcard inbox.

A future for each request, found by the last token of its reply subject; no subscription, task or timer of its
own.  Requests that are not answered in time are swept out together, so a timeout may come a tick late.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from typing import Final, NamedTuple

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from millstream.gateway.errors import (
    BadRequest,
    GatewayError,
    LinkDown,
    LinkTimeout,
    NoResponders,
    PayloadTooLarge,
    PermissionDenied,
)
from millstream.gateway.frames import check_frame

_SWEEP_S: Final = 0.1
_DENIED: Final = re.compile(
    r"permissions violation for (publish|subscription) to \"([^\"]*)\"", re.IGNORECASE
)


class _Waiter(NamedTuple):
    future: asyncio.Future[Msg]
    subject: str
    deadline: float


class Replies:
    """The answers to what was asked over `connection`; of no use after its end."""

    def __init__(self, connection: Connection, inbox_prefix: str) -> None:
        self._connection = connection
        self._prefix = f"{inbox_prefix}.{secrets.token_hex(11)}."
        self._waiting: dict[str, _Waiter] = {}
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._over: GatewayError | None = None

    async def open(self) -> None:
        await self._connection.subscribe(
            self._prefix + "*", cb=self._take, pending_msgs_limit=0, pending_bytes_limit=0
        )

    async def ask(
        self, subject: str, payload: bytes, headers: dict[str, str] | None, timeout_s: float
    ) -> Msg:
        """Publish and wait for the first answer; for ever if `timeout_s` is zero."""
        if self._over is not None:
            raise self._over
        check_frame(subject, len(payload), headers, self._connection.max_payload)
        token = secrets.token_hex(8)  # whoever has seen one must not find the next
        loop = self._loop
        future: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = _Waiter(future, subject, loop.time() + (timeout_s or math.inf))
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP_S, self._sweep)
        try:
            await self._connection.publish(subject, payload, reply=self._prefix + token, headers=headers)
            return await future
        except MaxPayloadError as error:
            raise PayloadTooLarge from error
        except NatsError as error:
            if self._connection.is_connected:
                raise BadRequest(f"{error}") from error
            raise LinkDown(f"{error}") from error
        finally:
            self._waiting.pop(token, None)

    def end(self, reason: GatewayError) -> None:
        """Nothing comes any more: whoever waits hears `reason`."""
        self._over = reason
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for waiter in list(self._waiting.values()):
            if not waiter.future.done():
                waiter.future.set_exception(reason)
        self._waiting.clear()

    def told(self, error: Exception) -> None:
        """An error that the server told out of turn: a request that was not permitted is never answered."""
        match = _DENIED.search(str(error))
        if match is None:
            return
        refusal = PermissionDenied(str(error))
        subject = match[2].lower()  # as nats-py hands it on
        everything = match[1].lower() == "subscription" and subject == (self._prefix + "*").lower()
        for waiter in list(self._waiting.values()):
            if (everything or waiter.subject.lower() == subject) and not waiter.future.done():
                waiter.future.set_exception(refusal)
        if everything:
            self._over = refusal

    async def _take(self, message: Msg) -> None:
        waiter = self._waiting.get(message.subject[len(self._prefix) :])
        if waiter is None or waiter.future.done():
            return
        if not message.data and message.headers is not None and message.headers.get("Status") == "503":
            waiter.future.set_exception(NoResponders())
        else:
            waiter.future.set_result(message)

    def _sweep(self) -> None:
        now = self._loop.time()
        for waiter in list(self._waiting.values()):
            if waiter.deadline <= now and not waiter.future.done():
                waiter.future.set_exception(LinkTimeout(f"no answer to {waiter.subject} in time"))
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep) if self._waiting else None
