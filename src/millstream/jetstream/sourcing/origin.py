"""The configured origin of a mirror or source, and the requests to it.

All requests go to subjects of the stream's own account.  They are answered locally, through imports in
another account or domain (`external`), or at the other end of a link; the requester cannot tell.

Pure functions from configurations to names, subjects and bodies.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from millstream.base.ids import nuid, secret_token, short_hash
from millstream.golang.time import Time
from millstream.jetstream.config.subjects import usable_transform
from millstream.jetstream.consumer_subjects import ConsumerSubjects, SubjectForms
from millstream.jsapi import headers as names
from millstream.jsapi.codec import encode
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy
from millstream.jsapi.names import API_PREFIX
from millstream.jsapi.requests import CreateConsumerRequest
from millstream.jsapi.stream_types import StreamConfig, StreamSource
from millstream.protocol import headers

_ALL: Final = ">"
_LIST: Final = "\f"  # joins filters and destinations in an index name
_NS: Final = 1_000_000_000
_ACK_WAIT_NS: Final = 22 * 3600 * _NS
_HEARTBEAT_NS: Final = _NS
_INACTIVE_NS: Final = 10 * _NS
_LEVEL: Final = names.REQUIRED_API_LEVEL.encode()
_IDENTITY: Final = names.STREAM_IDENTITY.encode()


class OriginKind(Enum):
    MIRROR = ("JS_MIRROR_", "_nats.mirror.", "M")
    SOURCE = ("JS_SRC_", "_nats.src.", "S")

    @property
    def name_prefix(self) -> str:
        return self.value[0]

    @property
    def metadata_prefix(self) -> str:
        return self.value[1]

    @property
    def letter(self) -> str:
        """Return the letter in the subjects that messages are delivered on."""
        return self.value[2]


class OriginStart(NamedTuple):
    """The position to begin at: a sequence, a time, or the first message."""

    seq: int = 0
    time: Time | None = None


class Dialect(Enum):
    """The abilities that the other server is assumed to have; each is tried when the previous was refused."""

    IDENTITY = "tells a stream from one that had its name before"
    SOURCING = "names the consumer, or keeps it, as its stream needs it"
    PLAIN = "an older server"


class Asker(msgspec.Struct, frozen=True):
    """The stream that requests messages."""

    stream: str
    account: str
    domain: str = ""
    forms: SubjectForms = SubjectForms()

    @property
    def subjects(self) -> ConsumerSubjects:
        return ConsumerSubjects(self.account, self.domain, self.forms)

    @property
    def stable_hash(self) -> str:
        words = [self.stream, self.account, self.domain] if self.domain else [self.stream, self.account]
        return short_hash(" ".join(words))


class Origin:
    """The origin of a mirror, or one origin of a stream with sources."""

    def __init__(
        self, kind: OriginKind, config: StreamSource, asker: Asker, siblings: list[StreamSource]
    ) -> None:
        self.kind = kind
        self.config = config
        self.asker = asker
        self.index_name = index_name(config)
        self.consumer_name = kind.name_prefix + self._hash(siblings)
        transforms = [
            usable_transform(asker.stream, "subject_transforms", each) for each in config.subject_transforms
        ]
        self.transforms = [each for each in transforms if each is not None]

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def is_local(self) -> bool:
        """Return True if the origin is a stream of the same account."""
        return self.config.external is None

    def _hash(self, siblings: list[StreamSource]) -> str:
        stable = self.asker.stable_hash
        if self.kind is OriginKind.MIRROR:
            return stable
        named_alike = (other for other in siblings if other.name == self.config.name)
        if len(list(islice(named_alike, 2))) > 1:
            return short_hash(f"{stable} {self.index_name}")
        return short_hash(stable)

    # -- subjects ---------------------------------------------------------------------------------

    def new_deliver_subject(self) -> str:
        external = self.config.external
        start = external.deliver if external is not None and external.deliver else "$JS"
        return f"{start}.{self.kind.letter}.{secret_token()}".replace("..", ".")

    def new_reply_subject(self) -> str:
        external, consumer = self.config.external, self.config.consumer
        return self.asker.subjects.api_reply(
            external.api if external is not None else "",
            self.name,
            self.consumer_name if consumer is None else consumer.name,
            secret_token(),
        )

    def _api(self, request: str) -> bytes:
        prefix = API_PREFIX
        external = self.config.external
        own = f"$JS.{self.asker.domain}.API"
        if external is not None and external.api.rstrip(".") != own:
            prefix = external.api
        return f"{prefix}.{request}".replace("..", ".").encode()

    def delete_subject(self) -> bytes:
        """Return the subject that deletes a consumer that would outlive us."""
        return self._api(f"CONSUMER.DELETE.{self.name}.{self.consumer_name}")

    # -- requests ---------------------------------------------------------------------------------

    def request(
        self, start: OriginStart, deliver: str, dialect: Dialect, identity: str
    ) -> tuple[bytes, bytes | None, bytes]:
        """Return subject, headers and body of the request for a consumer."""
        if self.config.consumer is not None:
            subject = self._api(f"CONSUMER.RESET.{self.name}.{self.config.consumer.name}")
            return subject, self._headers(dialect, identity), b""
        config = self._consumer_config(start, deliver, dialect)
        body = encode(CreateConsumerRequest(stream_name=self.name, config=config))
        verb = f"CONSUMER.CREATE.{self.name}"
        if config.filter_subject:
            verb = f"{verb}.{config.name}.{config.filter_subject}"
        return self._api(verb), self._headers(dialect, identity), body

    def _headers(self, dialect: Dialect, identity: str) -> bytes | None:
        if dialect is Dialect.PLAIN or (self.kind is OriginKind.MIRROR and self.config.consumer is not None):
            return None
        if self.kind is OriginKind.SOURCE and dialect is Dialect.IDENTITY:
            return headers.make((_LEVEL, b"5"), (_IDENTITY, identity.encode()))
        return headers.make((_LEVEL, b"4"))

    def _consumer_config(self, start: OriginStart, deliver: str, dialect: Dialect) -> ConsumerConfig:
        prefix = self.kind.metadata_prefix
        metadata = {f"{prefix}stream": self.asker.stream, f"{prefix}acc": self.asker.account}
        if self.asker.domain:
            metadata[f"{prefix}domain"] = self.asker.domain
        is_plain = dialect is Dialect.PLAIN
        config = ConsumerConfig(
            name=f"{self.consumer_name}_{short_hash(nuid())}" if is_plain else self.consumer_name,
            ack_policy=AckPolicy.NONE,
            ack_wait=_ACK_WAIT_NS,
            max_deliver=1,
            flow_control=True,
            deliver_subject=deliver,
            idle_heartbeat=_HEARTBEAT_NS,
            inactive_threshold=_INACTIVE_NS,
            direct=True,
            sourcing=not is_plain,
            metadata=metadata,
        )
        if start.time is not None:
            config.deliver_policy = DeliverPolicy.BY_START_TIME
            config.opt_start_time = start.time
        elif start.seq:
            config.deliver_policy = DeliverPolicy.BY_START_SEQUENCE
            config.opt_start_seq = start.seq
        filters = [each.src for each in self.config.subject_transforms]
        if self.config.filter_subject:
            config.filter_subject = self.config.filter_subject
        elif len(filters) == 1:
            config.filter_subject = filters[0]
        else:
            config.filter_subjects = filters
        return config


def origins_of(config: StreamConfig, asker: Asker) -> Iterator[Origin]:
    """Yield the origins of a stream, in configuration order."""
    if config.mirror is not None:
        yield Origin(OriginKind.MIRROR, config.mirror, asker, [])
        return
    alike: dict[str, list[StreamSource]] = {}
    for source in config.sources:
        alike.setdefault(source.name, []).append(source)
    for source in config.sources:
        yield Origin(OriginKind.SOURCE, source, asker, alike[source.name])


def index_name(source: StreamSource) -> str:
    """Return the name that identifies a source of a stream: origin, filters and their destinations."""
    name = source.name
    if source.external is not None:
        name += f":{short_hash(source.external.api)}"
    if source.consumer is not None:
        name += f":C={short_hash(source.consumer.name)}"
    if source.subject_transforms:
        filters = _LIST.join(each.src or _ALL for each in source.subject_transforms)
        destinations = _LIST.join(each.dest or _ALL for each in source.subject_transforms)
    else:
        filters, destinations = source.filter_subject or _ALL, _ALL
    return f"{name} {filters} {destinations}"
