"""The few requests of the JetStream API that reading a stream takes, on a connection of nats-py."""

from typing import Final, TypeVar

from nats.aio.client import Client as Connection
from nats.errors import ConnectionClosedError, ConnectionDrainingError
from nats.errors import Error as NatsError

from millstream.client.errors import ClientClosed, RequestRefused, ServerUnavailable
from millstream.jsapi.codec import JsonError, decode_lenient, encode
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.enums import ConsumerAction
from millstream.jsapi.json_text import MOST_VALUES
from millstream.jsapi.names import (
    API_PREFIX,
    CONSUMER_CREATE_FILTERED,
    CONSUMER_DELETE,
    STREAM_INFO,
    domain_api_prefix,
    fill,
)
from millstream.jsapi.requests import CreateConsumerRequest
from millstream.jsapi.responses import (
    ConsumerCreateResponse,
    ConsumerDeleteResponse,
    Response,
    StreamInfoResponse,
)
from millstream.jsapi.stream_types import StreamInfo

DEFAULT_TIMEOUT_S: Final = 5.0

_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>/\\")

Answer = TypeVar("Answer", bound=Response)


class Api:
    """Requests to the JetStream of `domain`, or to the one of the connection's server and account.

    Each raises RequestRefused if the server says no, ServerUnavailable if nobody answers in time, and
    ClientClosed if the connection is closed for good.
    """

    def __init__(
        self, connection: Connection, *, domain: str = "", timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.connection = connection
        self._prefix = domain_api_prefix(domain) if domain else API_PREFIX
        self._timeout_s = timeout_s

    async def stream_info(self, stream: str) -> StreamInfo:
        answer = await self._ask(fill(STREAM_INFO, stream), b"", StreamInfoResponse)
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
        answer = await self._ask(subject, encode(request), ConsumerCreateResponse)
        if answer.info is None:
            raise _told_nothing(CONSUMER_CREATE_FILTERED)
        return answer.info

    async def delete_consumer(self, stream: str, name: str) -> None:
        await self._ask(fill(CONSUMER_DELETE, stream, name), b"", ConsumerDeleteResponse)

    async def _ask(self, subject: str, body: bytes, kind: type[Answer]) -> Answer:
        subject = self._prefix + subject.removeprefix(API_PREFIX)
        try:
            message = await self.connection.request(subject, body, timeout=self._timeout_s)
        except (ConnectionClosedError, ConnectionDrainingError) as error:
            raise ClientClosed("the connection is closed") from error
        except (NatsError, OSError) as error:  # among them: nobody there, no answer in time, no connection
            raise ServerUnavailable(f"{subject}: {error}") from error
        try:
            answer = decode_lenient(message.data, kind, MOST_VALUES)
        except JsonError as error:
            raise ServerUnavailable(f"{subject}: the answer can not be read: {error}") from error
        if answer.error is not None:
            raise RequestRefused.told_by(answer.error)
        return answer


def check_name(name: str, what: str) -> None:
    """ValueError if `name` can not be one token of a subject."""
    if not name or not _NOT_IN_NAMES.isdisjoint(name):
        raise ValueError(f"{name!r} is no name for a {what}")


def _told_nothing(subject: str) -> ServerUnavailable:
    return ServerUnavailable(f"{subject}: the answer tells nothing")
