"""JetStream API requests over any carrier.

Each raises RequestRefused if the server returns an error, ServerUnavailable if no answer comes in time, and
ClientClosed if the connection is closed for good.
"""

from __future__ import annotations

from typing import Final

from millstream.client.carriers import Carrier
from millstream.client.errors import ClientClosed, NoStream, RequestRefused, ServerUnavailable
from millstream.jsapi.codec import encode
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.enums import ConsumerAction
from millstream.jsapi.errors import not_enabled
from millstream.jsapi.names import API_PREFIX, domain_api_prefix
from millstream.jsapi.requests import CreateConsumerRequest
from millstream.jsapi.stream_types import StreamInfo
from millstream.link.errors import JetStreamOff, LinkApiError, LinkError, NoResponders, RequestTimeout
from millstream.link.frames import Headers
from millstream.link.publish_window import read_ack
from millstream.link.verbs import (
    CONSUMER_CREATE,
    CONSUMER_DELETE,
    STREAM_INFO,
    Answer,
    Verb,
    read_answer,
)
from millstream.subjects.tokens import valid_publish_subject

DEFAULT_TIMEOUT_S: Final = 5.0

_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>/\\")


class Api:
    """Sends requests to the JetStream of `domain`, or to the API under `prefix`."""

    __slots__ = ("_domain", "_prefix", "carrier", "timeout_s")

    def __init__(
        self,
        carrier: Carrier,
        *,
        domain: str = "",
        prefix: str = API_PREFIX,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.carrier = carrier
        self._domain = domain
        self._prefix = domain_api_prefix(domain) if domain else prefix
        self.timeout_s = timeout_s

    async def stream_info(self, stream: str) -> StreamInfo:
        answer = await self.ask(STREAM_INFO, stream)
        if answer.info is None:
            raise _told_nothing(STREAM_INFO)
        return answer.info

    async def create_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Create the consumer `config.name`, which must not exist."""
        filters = [config.filter_subject] if config.filter_subject else []
        request = CreateConsumerRequest(stream_name=stream, config=config, action=ConsumerAction.CREATE)
        answer = await self.ask(CONSUMER_CREATE, stream, config.name, *filters, body=encode(request))
        if answer.info is None:
            raise _told_nothing(CONSUMER_CREATE)
        return answer.info

    async def delete_consumer(self, stream: str, name: str) -> None:
        await self.ask(CONSUMER_DELETE, stream, name)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None) -> int:
        """Store a message in the stream that captures `subject`; return its sequence."""
        if not valid_publish_subject(subject.encode(errors="surrogatepass")):
            raise ValueError(f"{subject!r} is no subject to publish to")
        try:
            return read_ack(await self._request(subject, data, headers or b"")).seq
        except NoResponders:
            raise NoStream(
                f"no stream on {self.carrier.where} takes the subject {subject}; create one, and start the "
                "server with -js if JetStream is off"
            ) from None
        except LinkApiError as error:
            raise RequestRefused.told_by(error, "", self.carrier.where) from None
        except LinkError as error:
            raise ServerUnavailable(str(error)) from error

    @property
    def prefix(self) -> str:
        """The first tokens of the subjects of requests."""
        return self._prefix

    async def ask(self, verb: Verb[Answer], stream: str, *tokens: str, body: bytes = b"") -> Answer:
        """Send the request of `verb` about a stream, and return the answer in its type."""
        subject = verb.subject_for(self._prefix, (stream, *tokens))
        try:
            return read_answer(await self._request(subject, body, b""), verb)
        except NoResponders:
            text = not_enabled(self.carrier.where, self._domain)
            raise ServerUnavailable(text) from JetStreamOff(text)
        except LinkApiError as error:
            raise RequestRefused.told_by(error, stream, self.carrier.where) from error
        except LinkError as error:
            raise ServerUnavailable(str(error)) from error

    async def _request(self, subject: str, body: bytes, headers: Headers) -> bytes:
        """Send a request; the caller handles NoResponders, whose meaning depends on the request."""
        try:
            return await self.carrier.request(subject, body, headers, self.timeout_s)
        except RequestTimeout as error:
            raise ServerUnavailable(
                f"{self.carrier.where} did not answer {subject} within {self.timeout_s:g} s; it is away or "
                "busy, or this user may not ask"
            ) from error
        except NoResponders:
            raise
        except LinkError as error:
            if self.carrier.is_closed:
                raise ClientClosed("the connection is closed") from error
            raise ServerUnavailable(f"{subject}: {error}") from error


def check_name(name: str, what: str) -> None:
    """Raise ValueError if `name` cannot be one token of a subject."""
    if not name or not _NOT_IN_NAMES.isdisjoint(name):
        raise ValueError(f"{name!r} is no name for a {what}")


def _told_nothing(verb: Verb[Answer]) -> ServerUnavailable:
    return ServerUnavailable(f"{verb.name}: the answer tells nothing")
