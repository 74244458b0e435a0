"""One consumer on the server and the subscription it delivers to, from making it to giving it back.

A reading goes through one line after the other.  Each has an inbox and a name that nobody had before, so
what comes late from an old one can not be taken for something of the new one, and a consumer whose creation
was not answered can still be deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from millstream.client.api import Api
from millstream.client.errors import ClientClosed, ClientError, RequestRefused, ServerUnavailable
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.errors import Err

Receiver = Callable[["Line", Msg], Awaitable[None]]


class Line:
    """`receive` is called with whatever comes, until `hang_up`."""

    def __init__(self, api: Api, stream: str, name: str, receive: Receiver) -> None:
        self.name = name
        self.inbox: str = api.connection.new_inbox()
        self._api = api
        self._stream = stream
        self._receive = receive
        self._subscription: Subscription | None = None

    async def open(self, config: ConsumerConfig) -> ConsumerInfo:
        """Subscribe and make the consumer; `config` gets its name and inbox."""
        config.name = self.name
        config.deliver_subject = self.inbox
        try:
            self._subscription = await self._api.connection.subscribe(self.inbox, cb=self._take)
        except NatsError as error:
            if self._api.connection.is_closed:
                raise ClientClosed("the connection is closed") from error
            raise ServerUnavailable(f"subscribing failed: {error}") from error
        return await self._api.create_consumer(self._stream, config)

    async def _take(self, message: Msg) -> None:
        await self._receive(self, message)

    async def hang_up(self) -> None:
        """Close the subscription; not to be called from within `receive`, which it ends."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            # A connection that is closed has no subscriptions any more.
            with contextlib.suppress(NatsError, OSError):
                await subscription.unsubscribe()

    async def release(self) -> bool:
        """Delete the consumer; whether it is certainly gone."""
        if not self._api.connection.is_connected:
            return False  # nats-py would keep the request for later, when nobody waits for the answer
        try:
            await self._api.delete_consumer(self._stream, self.name)
        except RequestRefused as refusal:
            return refusal.code in (Err.CONSUMER_NOT_FOUND.value[1], Err.STREAM_NOT_FOUND.value[1])
        except ClientError:
            return False
        return True
