"""JetStream API requests over a link with an event loop.

await link.ask(STREAM_INFO, "ORDERS")                          # a StreamInfoResponse
await link.api(STREAM_PURGE, "ORDERS", request={"keep": 10})   # the answer as it came, a dict
"""

import asyncio
from typing import Any, Final

from millstream.jsapi.errors import not_enabled
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import JetStreamOff, NoResponders, NotConnected
from millstream.link.frames import Headers
from millstream.link.options import LinkOptions
from millstream.link.verbs import Answer, Verb, read_answer, read_fields, request_body, verb_of


class Calls:
    """The part of a link that calls the JetStream API."""

    def __init__(self, options: LinkOptions) -> None:
        self.options: Final = options

    @property
    def where(self) -> str:
        raise NotImplementedError

    @property
    def is_closed(self) -> bool:
        raise NotImplementedError

    async def until_up(self, deadline: float) -> None:
        """Wait for a connection until `deadline`, a time of the loop."""
        raise NotImplementedError

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers = b"", timeout_s: float | None = None
    ) -> LinkMessage:
        """Send a request and return the first answer."""
        raise NotImplementedError

    async def api(
        self, name: str, request: object = b"", timeout_s: float | None = None, *, repeat_s: float = 0.0
    ) -> dict[str, Any]:
        """Send the API request of this name, such as ``STREAM.INFO.ORDERS``; return the answer as a dict.

        Raises LinkApiError for an error of JetStream, and JetStreamOff if the server has no JetStream.  With
        `repeat_s`, a request that is safe to repeat is repeated for that long when the connection is missing
        or lost.
        """
        message = await self._ask(verb_of(name), f"{self.options.api}.{name}", request, timeout_s, repeat_s)
        return read_fields(message.payload, name)

    async def ask(
        self,
        verb: Verb[Answer],
        *tokens: str,
        request: object = b"",
        timeout_s: float | None = None,
        repeat_s: float = 0.0,
    ) -> Answer:
        """Send an API request and return the answer in its type; raises as `api` does."""
        subject = verb.subject_for(self.options.api, tokens)
        return read_answer((await self._ask(verb, subject, request, timeout_s, repeat_s)).payload, verb)

    async def _ask(
        self,
        verb: Verb[Any],
        subject: str,
        request: object,
        timeout_s: float | None,
        repeat_s: float,
    ) -> LinkMessage:
        body = request_body(request)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + (repeat_s if verb.repeatable else 0.0)
        while True:
            try:
                return await self.request(subject, body, timeout_s=timeout_s)
            except NoResponders:
                raise JetStreamOff(not_enabled(self.where, self.options.domain)) from None
            except NotConnected:
                if self.is_closed or loop.time() >= give_up:
                    raise
            await self.until_up(give_up)
