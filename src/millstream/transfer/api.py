"""The requests of the JetStream API that moving streams takes, over a link.

Configurations stay JSON, so that a field unknown to this release still reaches the other server.  Sequences
and times are read from it, never written.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from millstream.jsapi.errors import Err
from millstream.link.errors import JetStreamOff, LinkApiError, NotConnected, RequestTimeout
from millstream.link.link import Link
from millstream.link.subscriptions import LinkSubscription
from millstream.transfer.answers import (
    Json,
    NotBelieved,
    checked_consumer,
    checked_message,
    checked_name,
    checked_stream,
    shown,
)

_LOOKS: Final = 3
_LOOK_AGAIN_S: Final = 0.5
_MOST_LISTED: Final = 1_000_000  # streams or consumers


class JetStreamApi:
    """Requests to the JetStream of a link.

    Each raises ApiError if the server says no, and another LinkError if nobody answers in time.
    """

    def __init__(self, link: Link) -> None:
        self.link: Final = link
        self.timeout_s: Final = link.options.request_timeout_s

    @property
    def where(self) -> str:
        """Return the address of the server, for messages."""
        return self.link.where or "a server that is gone"

    @contextmanager
    def inbox(self) -> Iterator[tuple[str, LinkSubscription]]:
        """Yield a subject of our own and what comes there.

        The subscription fails when the connection is lost: what was on its way to it does not come again.
        """
        subject = self.link.new_inbox()
        subscription = self.link.subscribe(subject)
        self.link.at_loss.add(subscription.fail)
        try:
            yield subject, subscription
        finally:
            self.link.at_loss.discard(subscription.fail)
            subscription.unsubscribe()

    async def ask(
        self, verb: str, body: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Send the request `verb`, say ``STREAM.INFO.ORDERS``, and return the answer.

        A link that is being mended is waited for before anything is sent.
        """
        if not self.link.is_up:
            await self.link.until_up(asyncio.get_running_loop().time() + self.timeout_s)
        try:
            return await self.link.api(verb, b"" if body is None else body, timeout_s)
        except LinkApiError as error:
            raise LinkApiError(error.code, error.err_code, shown(error.description), verb) from None

    async def look(self, verb: str, body: Mapping[str, Any] | None = None) -> Json:
        """Send a request that changes nothing; retry it while a cluster has no leader."""
        for left in range(_LOOKS - 1, -1, -1):
            try:
                return await self.ask(verb, body)
            except (LinkApiError, JetStreamOff, NotConnected, RequestTimeout) as error:
                passing = not isinstance(error, LinkApiError) or error.may_pass
                if not left or not passing or self.link.is_closed:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)
        raise AssertionError("unreachable")

    # -- streams ----------------------------------------------------------------------------------

    async def account(self) -> Json:
        return await self.look("INFO")

    async def stream_names(self) -> list[str]:
        return [checked_name(name) async for name in self._pages("STREAM.NAMES", "streams")]

    async def stream(self, name: str, *, deleted: bool = False) -> Json:
        """Return configuration and state; with `deleted`, also the missing sequences."""
        info = await self.look(f"STREAM.INFO.{name}", {"deleted_details": True} if deleted else None)
        checked_stream(info, name)
        return info

    async def find_stream(self, name: str) -> Json | None:
        """Return configuration and state, or None if there is no such stream."""
        try:
            return await self.stream(name)
        except LinkApiError as error:
            if error.err is Err.STREAM_NOT_FOUND:
                return None
            raise

    async def update_stream(self, config: Json) -> Json:
        return await self.ask(f"STREAM.UPDATE.{config['name']}", config)

    async def delete_stream(self, name: str) -> None:
        await self.ask(f"STREAM.DELETE.{name}")

    async def purge_below(self, name: str, seq: int) -> None:
        """Remove every message before `seq`."""
        await self.ask(f"STREAM.PURGE.{name}", {"seq": seq})

    async def delete_message(self, name: str, seq: int) -> None:
        await self.ask(f"STREAM.MSG.DELETE.{name}", {"seq": seq, "no_erase": True})

    async def get_message(self, name: str, seq: int) -> Json | None:
        """Return the stored message, or None if there is none with this sequence."""
        try:
            answer = await self.look(f"STREAM.MSG.GET.{name}", {"seq": seq})
        except LinkApiError as error:
            if error.err is Err.NO_MESSAGE_FOUND:
                return None
            raise
        return checked_message(answer.get("message"), seq)

    # -- consumers --------------------------------------------------------------------------------

    async def consumers(self, stream: str) -> list[Json]:
        return [checked_consumer(info) async for info in self._pages(f"CONSUMER.LIST.{stream}", "consumers")]

    async def consumer(self, stream: str, name: str) -> Json:
        return checked_consumer(await self.look(f"CONSUMER.INFO.{stream}.{name}"), name)

    async def create_consumer(self, stream: str, config: Json) -> Json:
        """Create the consumer, or update its configuration."""
        name = config.get("name") or config["durable_name"]
        request = {"stream_name": stream, "config": config}
        return await self.ask(f"CONSUMER.CREATE.{stream}.{name}", request)

    async def delete_consumer(self, stream: str, name: str) -> None:
        await self.ask(f"CONSUMER.DELETE.{stream}.{name}")

    async def pause_consumer(self, stream: str, name: str, until: str) -> None:
        """Pause deliveries until that time; an empty time resumes them."""
        await self.ask(f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": until} if until else {})

    async def reset_consumer(self, stream: str, name: str, seq: int) -> None:
        """Restart the consumer at the message `seq`."""
        await self.ask(f"CONSUMER.RESET.{stream}.{name}", {"seq": seq})

    def next_subject(self, stream: str, name: str) -> str:
        """Return the subject for requests to a pull consumer."""
        return f"{self.link.options.api}.CONSUMER.MSG.NEXT.{stream}.{name}"

    async def _pages(self, verb: str, field: str) -> AsyncIterator[Any]:
        """Yield all items of a paged list; raise NotBelieved if it does not end."""
        seen: set[str] = set()
        offset = 0
        while True:
            answer = await self.look(verb, {"offset": offset})
            found, total = answer.get(field) or [], answer.get("total", 0)
            if not isinstance(found, list) or type(total) is not int:
                raise NotBelieved(f"{verb}: the answer has no list of {field}")
            before = len(seen)
            for each in found:
                key = json.dumps(each["name"] if isinstance(each, dict) and "name" in each else each)
                if key not in seen:
                    seen.add(key)
                    yield each
            offset += len(found)
            if not found or offset >= total:
                return
            if len(seen) == before or len(seen) > _MOST_LISTED:
                raise NotBelieved(f"{verb}: the list of {field} has no end")
