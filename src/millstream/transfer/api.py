"""The JetStream API requests for moving streams, on a connection of nats-py.

Configurations stay JSON, so that a field unknown to this release still reaches the other server.  Sequences
and times are read from it, never written.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from millstream.jsapi.errors import not_enabled
from millstream.jsapi.names import API_PREFIX, domain_api_prefix
from millstream.transfer.answers import (
    Json,
    NotBelieved,
    checked_consumer,
    checked_message,
    checked_name,
    checked_stream,
    read_answer,
)
from millstream.transfer.errors import NoJetStream, RequestRefused, ServerLost

DEFAULT_TIMEOUT_S: Final = 10.0
_NO_MESSAGE: Final = 10037
_LOOKS: Final = 3
_LOOK_AGAIN_S: Final = 0.5
_SERVER_FAULT: Final = 500
_MOST_LISTED: Final = 1_000_000  # streams or consumers


class JetStreamApi:
    """Requests to the JetStream of `domain`, or to that of the connection's server and account.

    Each raises RequestRefused if the server refuses and ServerLost if there is no response in time.
    """

    def __init__(
        self, connection: Connection, *, domain: str = "", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.connection = connection
        self.timeout_s = timeout_s
        self._domain = domain
        self.prefix = f"{domain_api_prefix(domain) if domain else API_PREFIX}."

    @property
    def where(self) -> str:
        """Return the address of the server, for messages."""
        url = self.connection.connected_url
        return url.netloc.rpartition("@")[2] if url is not None else "a server that is gone"

    async def message(self, subject: str, body: bytes = b"", *, timeout_s: float | None = None) -> Msg:
        """Send a request to any subject and return the response."""
        try:
            return await self.connection.request(subject, body, timeout=timeout_s or self.timeout_s)
        except NoRespondersError as error:
            if subject.startswith(self.prefix):
                raise NoJetStream(not_enabled(self.where, self._domain)) from error
            raise ServerLost(f"nobody on {self.where} answers {subject}") from error
        except TimeoutError as error:
            waited = timeout_s or self.timeout_s
            raise ServerLost(f"{self.where} did not answer {subject} within {waited:g} s") from error
        except (NatsError, OSError) as error:
            raise ServerLost(f"{subject}: {error or type(error).__name__}") from error

    async def ask(
        self, verb: str, body: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Send the request `verb`, such as ``STREAM.INFO.ORDERS``, and return the response."""
        text = b"" if body is None else json.dumps(body).encode()
        return read_answer((await self.message(self.prefix + verb, text, timeout_s=timeout_s)).data)

    async def look(self, verb: str, body: Mapping[str, Any] | None = None) -> Json:
        """Send a request that changes nothing; retry it while a cluster has no leader."""
        for left in range(_LOOKS - 1, -1, -1):
            try:
                return await self.ask(verb, body)
            except (ServerLost, RequestRefused) as error:
                passing = isinstance(error, ServerLost) or error.status >= _SERVER_FAULT
                if not left or not passing or self.connection.is_closed:
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
        except RequestRefused as error:
            if error.code == _NO_MESSAGE:
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
        return f"{self.prefix}CONSUMER.MSG.NEXT.{stream}.{name}"

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
