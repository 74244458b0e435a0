"""The API requests about consumers: create, info, list, names, delete, pause, reset, unpin.

Each handler gets the rest of the subject after the verb, mostly ``<stream>.<consumer>``, and the request.  It
returns the response, returns None for no response, or raises ``ApiError``; ``jetstream.api`` does the rest.
Changes to a consumer are answered when they are durable.

The order of checks is nats-server's and differs between verbs: some check the body before the requested API
level.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.ids import nuid, short_hash
from millstream.base.slices import Pieces
from millstream.base.sorted_page import AT_ONCE, SortedPage
from millstream.golang.json import FEW_VALUES
from millstream.golang.time import ZERO_TIME, Time, format_time
from millstream.jetstream.api_requests import Bodies, beyond_ours, is_empty
from millstream.jetstream.consumers import config as consumer_config
from millstream.jetstream.consumers.config import ConsumerLimits, CreateSubject, Form
from millstream.jetstream.consumers.config_sharing import SharedSubjects
from millstream.jetstream.consumers.dead_letters import check_dead_letter
from millstream.jetstream.consumers.key_order import check_key_order
from millstream.jetstream.consumers.start import Sifted, Start
from millstream.jetstream.long_answers import Steps, listed
from millstream.jetstream.read.lookup import Durable
from millstream.jsapi import headers as header_names
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import INFOS_PER_PAGE, NAMES_PER_PAGE
from millstream.jsapi.requests import (
    ConsumerPauseRequest,
    ConsumerResetRequest,
    ConsumersRequest,
    ConsumerUnpinRequest,
    CreateConsumerRequest,
)
from millstream.jsapi.responses import (
    ConsumerCreateResponse,
    ConsumerDeleteResponse,
    ConsumerInfoResponse,
    ConsumerListResponse,
    ConsumerNamesResponse,
    ConsumerPauseResponse,
    ConsumerResetResponse,
    ConsumerUnpinResponse,
    Response,
)
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.manager import ConsumerManager
    from millstream.jetstream.ports import ClientRequest
    from millstream.jetstream.stream.stream import Stream

_IDENTITY: Final = header_names.STREAM_IDENTITY.encode()


Answer = Response | Durable | Steps | None
Handler = Callable[[str, "ClientRequest"], Answer]


class Configs(SharedSubjects):
    """A lazy mapping of the configurations of a stream's consumers, of which mostly one is used."""

    def __init__(self, consumers: ConsumerManager) -> None:
        self._consumers = consumers

    def __getitem__(self, name: str) -> ConsumerConfig:
        return self._consumers[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)

    def sharing(self, pattern: bytes) -> Iterable[str]:
        return [consumer.name for consumer in self._consumers.interest.touched_by(pattern)]


class ConsumerApi:
    """The request handlers of one account."""

    def __init__(self, account: AccountJetStream, server_version: str, *, strict: bool) -> None:
        self._account = account
        self._server_version = server_version
        self._bodies = Bodies(strict=strict)
        self.handlers: dict[str, Handler] = {
            "CONSUMER.CREATE.*": self.create_ephemeral,
            "CONSUMER.CREATE.*.>": self.create_named,
            "CONSUMER.DURABLE.CREATE.*.*": self.create_durable,
            "CONSUMER.NAMES.*": self.names,
            "CONSUMER.LIST.*": self.page,
            "CONSUMER.INFO.*.*": self.info,
            "CONSUMER.DELETE.*.*": self.delete,
            "CONSUMER.PAUSE.*.*": self.pause,
            "CONSUMER.RESET.*.*": self.reset,
            "CONSUMER.UNPIN.*.*": self.unpin,
        }

    # -- creating and updating --------------------------------------------------------------------

    def create_ephemeral(self, place: str, request: ClientRequest) -> Answer:
        return self._create(CreateSubject.of(Form.EPHEMERAL, place), request)

    def create_durable(self, place: str, request: ClientRequest) -> Answer:
        return self._create(CreateSubject.of(Form.DURABLE, place), request)

    def create_named(self, place: str, request: ClientRequest) -> Answer:
        return self._create(CreateSubject.of(Form.NAMED, place), request)

    def _create(
        self, subject: CreateSubject, request: ClientRequest, found: Start | Sifted | None = None
    ) -> Answer:
        """Create or update a consumer; in two passes if finding its start or counting messages takes long.

        The first pass checks its configuration, finds its start and counts, in pieces; the second, with that
        start, checks everything again, because others may have changed something meanwhile.  An update of the
        filters may have to look through many messages first, and then has two passes, too.
        """
        asked = self._bodies.read(request.payload, CreateConsumerRequest)
        _check_level(request)
        wanted = consumer_config.settle_name(subject, asked)
        stream = self._account.stream(subject.stream)
        if wanted.direct and wanted.sourcing:
            wanted = consumer_config.settle_sourcing(wanted, stream.config, short_hash(nuid()))
        identity = _identity(stream) if wanted.direct or wanted.sourcing else ""
        expected = headers.find(request.headers, _IDENTITY) if identity and request.headers else None
        if expected and expected != identity.encode():
            raise ApiError(Err.CONSUMER_STREAM_IDENTITY_MISMATCH, msg=identity)
        existing = stream.consumers.get(consumer_config.name_of(wanted))
        config = consumer_config.check(
            wanted,
            stream.config,
            Configs(stream.consumers),
            self._limits(),
            action=asked.action,
            pedantic=asked.pedantic,
            bound=existing is not None and self._is_heard(existing.config.deliver_subject),
            counted=stream.consumers.counted,
        )
        name = consumer_config.name_of(config) or _new_name(stream)
        check_dead_letter(stream, config, name)
        check_key_order(config, existing.config if existing is not None else None, stream.config)
        if existing is None:
            if not isinstance(found, Start):
                start = stream.consumers.find_start(config)
                if isinstance(start, Generator):
                    return self._create_in_pieces(stream, start, subject, request)
                found = start
            consumer = stream.consumers.add(config, name, found)
        else:
            consumer = existing
            if not consumer_config.same(config, consumer.config):
                sifted = found if isinstance(found, Sifted) else None
                sifting = consumer.sift(config, sifted)
                if sifting is not None:
                    return self._create_in_pieces(stream, sifting, subject, request)
                stream.consumers.update(consumer, config, sifted)
            if config.sourcing and config.durable_name:
                consumer.reset(None)  # who asks anew expects what it has not answered for, counted from one
        return Durable(
            stream.consumers,
            ConsumerCreateResponse(info=self._info(consumer)),
            _identity_headers(identity),
            then=lambda: _announce(consumer, new=existing is None),
            undo=(lambda: _forget(consumer)) if existing is None else None,
        )

    def _create_in_pieces(
        self,
        stream: Stream,
        finding: Pieces[Any],
        subject: CreateSubject,
        request: ClientRequest,
    ) -> Steps:
        found = yield from stream.while_there(finding)
        answer = self._create(subject, request, found)
        if isinstance(answer, Generator):  # the consumer was deleted, created or reset meanwhile
            return (yield from answer)
        assert isinstance(answer, Durable)
        return answer

    def _limits(self) -> ConsumerLimits:
        return ConsumerLimits(account=self._account.options, server=self._account.resources.limits)

    def _is_heard(self, subject: str) -> bool:
        return bool(subject) and self._account.world.has_interest(subject.encode())

    # -- looking ----------------------------------------------------------------------------------

    def info(self, place: str, request: ClientRequest) -> Answer:
        if not is_empty(request.payload):
            raise ApiError(Err.REQUEST_NOT_EMPTY)
        _check_level(request)
        return ConsumerInfoResponse(info=self._info(self._find(place)))

    def names(self, place: str, request: ClientRequest) -> Answer:
        _check_level(request)
        asked = self._bodies.read_optional(request.payload, ConsumersRequest)
        return _names(self._account.stream(place), max(asked.offset, 0))

    def page(self, place: str, request: ClientRequest) -> Answer:
        _check_level(request)
        asked = self._bodies.read_optional(request.payload, ConsumersRequest)
        return _page(self._account.stream(place), max(asked.offset, 0))

    def _info(self, consumer: Consumer) -> ConsumerInfo:
        info = consumer.info()
        shown = consumer_config.decorated(info.config or ConsumerConfig(), self._server_version)
        return msgspec.structs.replace(info, config=shown)

    # -- changing ---------------------------------------------------------------------------------

    def delete(self, place: str, request: ClientRequest) -> Answer:
        _check_level(request)
        if not is_empty(request.payload):
            raise ApiError(Err.REQUEST_NOT_EMPTY)
        consumer = self._find(place)
        manager = consumer.stream.consumers
        consumer.delete()
        return Durable(manager, ConsumerDeleteResponse(success=True))

    def pause(self, place: str, request: ClientRequest) -> Answer:
        asked = self._bodies.read_optional(request.payload, ConsumerPauseRequest)
        _check_level(request)
        consumer = self._find(place)
        until = None if asked.pause_until == ZERO_TIME else Time(asked.pause_until)
        consumer.pause(until)
        response = ConsumerPauseResponse(pause_until=ZERO_TIME if until is None else until)
        remaining = 0 if until is None else until - self._account.world.now_ns()
        if remaining > 0:
            response.paused = True
            response.pause_remaining = remaining
        return Durable(consumer.stream.consumers, response)

    def reset(self, place: str, request: ClientRequest) -> Answer:
        """Reset a consumer; a missing one gets no response, because nobody subscribes for it."""
        name, _, consumer_name = place.partition(".")
        stream = self._account.streams.get(name)
        consumer = stream.consumers.get(consumer_name) if stream is not None else None
        if consumer is None or not request.reply:
            return None
        _check_level(request)
        body = request.payload
        asked = decode_lenient(body, ConsumerResetRequest, FEW_VALUES) if body else ConsumerResetRequest()
        told_identity = bool(request.headers) and headers.find(request.headers, _IDENTITY) is not None
        seq = consumer.reset(asked.seq or None)
        return Durable(
            consumer.stream.consumers,
            ConsumerResetResponse(info=self._info(consumer), reset_seq=seq),
            _identity_headers(_identity(consumer.stream)) if told_identity else None,
        )

    def unpin(self, place: str, request: ClientRequest) -> Answer:
        _check_level(request)
        asked = decode_lenient(request.payload, ConsumerUnpinRequest, FEW_VALUES)
        if not asked.group:
            raise JsonError("consumer group not specified")
        if not consumer_config.valid_group_name(asked.group):
            raise ApiError(Err.CONSUMER_INVALID_GROUP_NAME)
        consumer = self._find(place)
        if asked.group not in consumer.config.priority_groups:
            raise ApiError(Err.CONSUMER_INVALID_PRIORITY_GROUP)
        consumer.unpin(asked.group)
        return ConsumerUnpinResponse()

    # -- inside -----------------------------------------------------------------------------------

    def _find(self, place: str) -> Consumer:
        stream, _, name = place.partition(".")
        consumer = self._account.stream(stream).consumers.get(name)
        if consumer is None:
            raise ApiError(Err.CONSUMER_NOT_FOUND)
        return consumer


def _check_level(request: ClientRequest) -> None:
    if beyond_ours(request.headers):
        raise ApiError(Err.REQUIRED_API_LEVEL)


def _announce(consumer: Consumer, *, new: bool) -> None:
    """Send the advisories for a new consumer, and for the pause of a requested one."""
    if new:
        consumer.advisories.created()
    if consumer.paused:
        consumer.advisories.paused(consumer.config.pause_until, paused=True)


def _forget(consumer: Consumer) -> None:
    """Delete a consumer whose creation was never confirmed to the client."""
    if consumer.stream.consumers.get(consumer.name) is consumer:
        consumer.delete()


def _names(stream: Stream, offset: int) -> Steps:
    page, total = yield from _public(stream, offset, NAMES_PER_PAGE)
    return ConsumerNamesResponse(total=total, offset=min(offset, total), limit=NAMES_PER_PAGE, consumers=page)


def _page(stream: Stream, offset: int) -> Steps:
    page, total = yield from _public(stream, offset, INFOS_PER_PAGE)
    answer = ConsumerListResponse(total=total, offset=min(offset, total), limit=INFOS_PER_PAGE)
    found = (stream.consumers.get(name) for name in page)
    infos = (None if consumer is None else consumer.info() for consumer in found)
    return (yield from listed(answer, "consumers", infos))


def _public(stream: Stream, offset: int, count: int) -> Pieces[tuple[list[str], int]]:
    """Return a page of names and their total, without consumers of mirrors and sources."""
    found: SortedPage[str] = SortedPage(offset, count)
    names = iter(list(stream.consumers))
    while batch := list(itertools.islice(names, AT_ONCE)):
        consumers = (stream.consumers.get(name) for name in batch)
        found.add([each.name for each in consumers if each is not None and not each.config.direct])
        yield len(batch)
    return [name for chunk in found.chunks() for name in chunk], found.total


def _new_name(stream: Stream) -> str:
    name = short_hash(nuid())
    while name in stream.consumers:
        name = short_hash(nuid())
    return name


def _identity(stream: Stream) -> str:
    """Return what distinguishes a stream from an earlier one of the same name."""
    return short_hash(format_time(stream.created_ns))


def _identity_headers(identity: str) -> bytes | None:
    return headers.make((_IDENTITY, identity.encode())) if identity else None
