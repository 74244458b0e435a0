"""One open pull request after another, for a member of a group.

The consumers of members pin themselves to one client: the server marks its messages with an id, and the next
requests repeat it.  Requests of other clients wait meanwhile.  A client that asks for nothing for too long
loses the pin (status 423), and asks again without an id.

    message                                   to `deliver`
    100                                       heartbeat
    404, 408, 409 batch completed, 423        the request has ended: ask again
    409 consumer deleted, 503                 `lost(True)`; missing heartbeats are `lost(False)`
    any other status                          ask again after a pause
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from millstream.client.api import Api
from millstream.client.core import Arrival
from millstream.jsapi.codec import encode
from millstream.jsapi.headers import PIN_ID
from millstream.jsapi.requests import NextRequest
from millstream.link.errors import LinkError
from millstream.protocol.ack_subject import AckSubject, read_ack_subject

PRIORITY_GROUP: Final = "PCG"
_BATCH: Final = 500
_PAUSE_S: Final = 0.5
_SECOND: Final = 1_000_000_000


class Pulls:
    """The pull requests to one consumer."""

    def __init__(
        self,
        api: Api,
        stream: str,
        consumer: str,
        expires_s: float,
        *,
        deliver: Callable[[Arrival, AckSubject], None],
        lost: Callable[[bool], None],
    ) -> None:
        self.pin_id = ""
        self._api = api
        self._subject: Final = f"{api.prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._expires_s: Final = expires_s
        self._heartbeat_s: Final = expires_s / 2
        self._deliver = deliver
        self._lost = lost
        self._inbox: Final = api.carrier.new_inbox()
        self._asked = 0  # requests so far; the last token of the inbox of each
        self._expected = 0
        self._heard_s = 0.0
        self._epoch = -1
        self._timer: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._unsubscribe: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        carrier = self._api.carrier
        self._unsubscribe = await carrier.subscribe(f"{self._inbox}.*", self._take)
        carrier.listen(self._connection_changed)
        self._ask()
        self._watch()

    async def stop(self) -> None:
        """End the requests; the server finds that nobody listens any more."""
        for timer in (self._timer, self._pause):
            if timer is not None:
                timer.cancel()
        self._api.carrier.unlisten(self._connection_changed)
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            with contextlib.suppress(LinkError):
                await unsubscribe()

    def _ask(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._asked += 1
        self._expected = _BATCH
        self._epoch = self._api.carrier.epoch
        self._heard_s = asyncio.get_running_loop().time()
        request = NextRequest(
            expires=round(self._expires_s * _SECOND),
            batch=_BATCH,
            idle_heartbeat=round(self._heartbeat_s * _SECOND),
            group=PRIORITY_GROUP,
            id=self.pin_id,
        )
        self._api.carrier.publish(self._subject, encode(request), f"{self._inbox}.{self._asked}")

    def _take(self, arrival: Arrival) -> None:
        if self._unsubscribe is None:
            return
        self._heard_s = asyncio.get_running_loop().time()
        position = read_ack_subject(arrival.reply) if arrival.reply else None
        if position is not None:
            self.pin_id = arrival.headers.get(PIN_ID, self.pin_id)
            self._expected -= 1
            self._deliver(arrival, position)
            if self._expected == 0:
                self._ask()
        elif arrival.status and arrival.subject == f"{self._inbox}.{self._asked}":
            self._status(arrival.status, arrival.description.lower())

    def _status(self, status: int, description: str) -> None:
        if status == 100:
            return
        if status == 423:
            self.pin_id = ""
            self._ask()
        elif status in (404, 408) or (status == 409 and description.startswith("batch completed")):
            self._ask()
        elif status == 503 or (status == 409 and description.startswith("consumer deleted")):
            self._lost(True)
        elif self._pause is None:
            self._pause = asyncio.get_running_loop().call_later(_PAUSE_S, self._ask)

    def _connection_changed(self) -> None:
        carrier = self._api.carrier
        if carrier.is_up and carrier.epoch != self._epoch:
            self._ask()  # the server forgot the request with the connection

    def _watch(self) -> None:
        """Report the consumer as lost if heartbeats are missing on a connection that is up."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._heartbeat_s, self._watch)
        silence_s = loop.time() - self._heard_s
        if self._api.carrier.is_up and silence_s > 3 * self._heartbeat_s:
            self._heard_s = loop.time()
            self._lost(False)
