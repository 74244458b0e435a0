"""Streams and consumers as lists have them: the fields that a line shows, decoded without detours.

    page = await stream_page(link, offset=0, subject="$KV.>")
    for stream in page.streams or (): …
    stream = await listed_stream(link, "ORDERS")

The whole infos are in `jsapi`, read by `link.ask`; reading thousands of them that way takes seconds.  Times
are the server's texts here, and what a server leaves out has its default.
"""

from typing import Any, Final, TypeVar

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.jsapi.errors import not_enabled
from millstream.link.calls import Calls
from millstream.link.errors import JetStreamOff, NoResponders, ProtocolViolation
from millstream.link.verbs import read_fields, request_body

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"

Answer = TypeVar("Answer", "ListedStreams", "ListedConsumers", "ListedStream")


class External(msgspec.Struct):
    """The address of the API of another account or domain."""

    api: str = ""


class ListedOrigin(msgspec.Struct):
    """A stream that another one copies."""

    name: str = ""
    external: External | None = None


class Cluster(msgspec.Struct):
    """The leader of a stream or consumer; a single server has no cluster name."""

    name: str = ""
    leader: str = ""


class Lost(msgspec.Struct):
    """Messages that a damaged store has lost."""

    msgs: list[int] | None = None


class ListedConfig(msgspec.Struct):
    """The configuration of a stream, as far as lists show it."""

    name: str = ""
    description: str = ""
    subjects: list[str] | None = None
    retention: str = ""
    storage: str = ""
    num_replicas: int = 1
    max_age: int = 0  # ns
    max_bytes: int = -1
    max_msg_size: int = -1
    max_msgs_per_subject: int = -1
    sealed: bool = False
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: int = 0  # ns
    mirror: ListedOrigin | None = None
    sources: list[ListedOrigin] | None = None
    metadata: dict[str, str] | None = None


class ListedState(msgspec.Struct):
    """The state of a stream."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    last_ts: str = ""
    consumer_count: int = 0
    lost: Lost | None = None


class ListedStream(msgspec.Struct):
    """A stream."""

    config: ListedConfig = msgspec.field(default_factory=ListedConfig)
    state: ListedState = msgspec.field(default_factory=ListedState)
    created: str = ""
    cluster: Cluster | None = None
    error: Any = None


class ListedPosition(msgspec.Struct):
    """The progress of a consumer."""

    stream_seq: int = 0
    last_active: str | None = None


class ListedConsumerConfig(msgspec.Struct):
    """The configuration of a consumer, as far as lists show it."""

    deliver_subject: str = ""
    ack_policy: str = ""
    filter_subject: str = ""
    filter_subjects: list[str] | None = None
    max_ack_pending: int = 0
    pause_until: str | None = None


class ListedConsumer(msgspec.Struct):
    """A consumer."""

    name: str
    stream_name: str
    config: ListedConsumerConfig
    delivered: ListedPosition
    ack_floor: ListedPosition
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    push_bound: bool = False
    paused: bool = False
    cluster: Cluster | None = None


class ListedStreams(msgspec.Struct):
    """A page of STREAM.LIST."""

    streams: list[ListedStream] | None = None
    total: int = 0
    error: Any = None


class ListedConsumers(msgspec.Struct):
    """A page of CONSUMER.LIST."""

    consumers: list[ListedConsumer] | None = None
    total: int = 0
    error: Any = None


_STREAMS: Final = msgspec.json.Decoder(ListedStreams)
_CONSUMERS: Final = msgspec.json.Decoder(ListedConsumers)
_STREAM: Final = msgspec.json.Decoder(ListedStream)


async def stream_page(link: Calls, *, offset: int = 0, subject: str = "") -> ListedStreams:
    """Return streams by name from an offset on; with `subject` those that take subjects that it matches."""
    request: dict[str, Any] = {"offset": offset}
    if subject:
        request["subject"] = subject
    return await _ask(link, "STREAM.LIST", request, _STREAMS)


async def consumer_page(link: Calls, stream: str, *, offset: int = 0) -> ListedConsumers:
    """Return consumers of a stream by name from an offset on."""
    return await _ask(link, f"CONSUMER.LIST.{stream}", {"offset": offset}, _CONSUMERS)


async def listed_stream(link: Calls, stream: str) -> ListedStream:
    """Return one stream; LinkApiError if it is not there."""
    return await _ask(link, f"STREAM.INFO.{stream}", b"", _STREAM)


async def _ask(link: Calls, name: str, request: object, decoder: "msgspec.json.Decoder[Answer]") -> Answer:
    try:
        answer = await link.request(f"{link.options.api}.{name}", request_body(request))
    except NoResponders:
        raise JetStreamOff(not_enabled(link.where, link.options.domain)) from None
    try:
        found = decoder.decode(answer.payload)
    except UNREADABLE_JSON as error:
        raise ProtocolViolation(f"the answer to {name} can not be read: {error}") from None
    if found.error is not None:
        read_fields(answer.payload, name)  # raises what it says
    return found


def time_or_none(text: str | None) -> str | None:
    """Return a time; None for one that is not set."""
    return text if text and text != _ZERO_TIME else None
