"""The few requests of the JetStream API that reading a stream takes, on a connection of nats-py."""

from typing import Final, TypeVar

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, ConnectionDrainingError, NoRespondersError
from nats.errors import Error as NatsError

from millstream.client.errors import ClientClosed, NoStream, RequestRefused, ServerUnavailable
from millstream.golang.json import MOST_VALUES
from millstream.jsapi.codec import JsonError, decode_lenient, encode
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.enums import ConsumerAction
from millstream.jsapi.errors import not_enabled
from millstream.jsapi.names import (
    API_PREFIX,
    CONSUMER_CREATE_FILTERED,
    CONSUMER_DELETE,
    STREAM_INFO,
    domain_api_prefix,
    fill,
)
from millstream.jsapi.publish_types import PubAckResponse
from millstream.jsapi.requests import CreateConsumerRequest
from millstream.jsapi.responses import (
    ConsumerCreateResponse,
    ConsumerDeleteResponse,
    Response,
    StreamInfoResponse,
)
from millstream.jsapi.stream_types import StreamInfo
from millstream.subjects.tokens import valid_publish_subject

DEFAULT_TIMEOUT_S: Final = 5.0

_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>/\\")

Answer = TypeVar("Answer", bound=Response | PubAckResponse)


class Api:
    """Requests to the JetStream of `domain`, or to the one of the connection's server and account.

    Each raises RequestRefused if the server says no, ServerUnavailable if nobody answers in time, and
    ClientClosed if the connection is closed for good.
    """

    def __init__(
        self, connection: Connection, *, domain: str = "", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.connection = connection
        self._domain = domain
        self._prefix = domain_api_prefix(domain) if domain else API_PREFIX
        self._timeout_s = timeout_s

    async def stream_info(self, stream: str) -> StreamInfo:
        answer = await self._ask(stream, fill(STREAM_INFO, stream), b"", StreamInfoResponse)
        if answer.info is None:
            raise _told_nothing(STREAM_INFO)
        return answer.info

    async def create_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Make the consumer `config.name`, which must not exist."""
        tokens = [stream, config.name]
        if config.filter_subject:
            tokens.append(config.filter_subject)
        request = CreateConsumerRequest(stream_name=stream, config=config, action=ConsumerAction.CREATE)
        subject = fill(CONSUMER_CREATE_FILTERED, *tokens)
        answer = await self._ask(stream, subject, encode(request), ConsumerCreateResponse)
        if answer.info is None:
            raise _told_nothing(CONSUMER_CREATE_FILTERED)
        return answer.info

    async def delete_consumer(self, stream: str, name: str) -> None:
        await self._ask(stream, fill(CONSUMER_DELETE, stream, name), b"", ConsumerDeleteResponse)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None) -> int:
        """Store a message in the stream that takes `subject`; returns its sequence."""
        if not valid_publish_subject(subject.encode(errors="surrogatepass")):
            raise ValueError(f"{subject!r} is no subject to publish to")
        try:
            message = await self._request(subject, data, headers)
        except NoRespondersError:
            raise NoStream(
                f"no stream on {self.where} takes the subject {subject}; create one, and start the server "
                "with -js if JetStream is off"
            ) from None
        answer = _read(message, PubAckResponse)
        if answer.error is not None:
            raise RequestRefused.told_by(answer.error, answer.stream, self.where)
        return answer.seq

    @property
    def where(self) -> str:
        """The server that answers now, for people."""
        url = self.connection.connected_url
        return url.netloc.rpartition("@")[2] if url is not None else "a server that is gone"

    async def _ask(self, stream: str, subject: str, body: bytes, kind: type[Answer]) -> Answer:
        try:
            message = await self._request(self._prefix + subject.removeprefix(API_PREFIX), body)
        except NoRespondersError:
            raise ServerUnavailable(not_enabled(self.where, self._domain)) from None
        answer = _read(message, kind)
        if answer.error is not None:
            raise RequestRefused.told_by(answer.error, stream, self.where)
        return answer

    async def _request(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> Msg:
        """Ask, and wait for the answer; NoRespondersError is left to the caller, who knows what it means."""
        try:
            return await self.connection.request(subject, body, timeout=self._timeout_s, headers=headers)
        except (ConnectionClosedError, ConnectionDrainingError) as error:
            raise ClientClosed("the connection is closed") from error
        except NoRespondersError:
            raise
        except TimeoutError as error:
            raise ServerUnavailable(
                f"{self.where} did not answer {subject} within {self._timeout_s:g} s; it is away or busy, "
                "or this user may not ask"
            ) from error
        except (NatsError, OSError) as error:
            raise ServerUnavailable(f"{subject}: {error}") from error


def _read(message: Msg, kind: type[Answer]) -> Answer:
    try:
        return decode_lenient(message.data, kind, MOST_VALUES)
    except JsonError as error:
        raise ServerUnavailable(f"{message.subject}: the answer can not be read: {error}") from error


def check_name(name: str, what: str) -> None:
    """ValueError if `name` can not be one token of a subject."""
    if not name or not _NOT_IN_NAMES.isdisjoint(name):
        raise ValueError(f"{name!r} is no name for a {what}")


def _told_nothing(subject: str) -> ServerUnavailable:
    return ServerUnavailable(f"{subject}: the answer tells nothing")
