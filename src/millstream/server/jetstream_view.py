"""JetStream's parts of `/varz`, `/jsz`, `/healthz` and the metrics.

Documents have the fields of nats-server 2.15.1 in its order.  State and configuration of streams, which
belong to the API, are written by the API's encoder.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.base.sorted_page import AT_ONCE, SortedPage
from millstream.golang.quote import quoted
from millstream.golang.time import format_time
from millstream.jetstream.stream.committer import DEFAULT_SYNC_INTERVAL_S
from millstream.jsapi.codec import encode
from millstream.jsapi.enums import StorageType
from millstream.jsapi.limits import API_LEVEL
from millstream.jsapi.stream_types import StreamState
from millstream.server.monitor.formats import nanoseconds
from millstream.server.monitor.healthz import HealthError, HealthErrorType, HealthzOptions
from millstream.server.monitor.json_page import Listing
from millstream.server.monitor.jsz import ApiCounts, JszOptions

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.engine import Engine
    from millstream.jetstream.stream.stream import Stream
    from millstream.server.monitor.exposition import MetricTable

_ACCOUNTS_PER_PAGE: Final = 1024
_AT_ONCE: Final = 128  # streams of a piece of work
_UNSIGNED: Final = 2**64  # the reference shows a limit of -1 as an unsigned number


class Config(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    max_memory: int
    max_storage: int
    store_dir: str = ""
    sync_interval: int = 0  # ns
    sync_always: bool = False
    domain: str = ""
    compress_ok: bool = False
    unique_tag: str = ""
    strict: bool = False


class LimitsDocument(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_ha_assets: int = 0
    max_duplicate_window: int = 0  # ns
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: int = 0  # ns
    default_max_consumers: int = 0


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    accounts: int = 0
    ha_assets: int = 0
    api: ApiCounts = ApiCounts()


class JetStreamVarz(msgspec.Struct, frozen=True, kw_only=True):
    config: Config
    stats: Stats
    limits: LimitsDocument


class StreamDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    name: str
    created: str
    cluster: dict[str, str]
    config: msgspec.Raw | None = None
    state: StreamState
    consumer_detail: Listing | list[None] = []
    direct_consumer_detail: Listing | list[None] = []
    mirror: msgspec.Raw | None = None
    sources: list[msgspec.Raw] = []


class Jsz(Stats, frozen=True, kw_only=True):
    server_id: str
    now: str
    config: Config
    limits: LimitsDocument
    streams: int
    streams_leader: int | msgspec.UnsetType = msgspec.UNSET
    consumers: int
    consumers_leader: int | msgspec.UnsetType = msgspec.UNSET
    messages: int
    bytes: int
    account_details: Listing | msgspec.UnsetType = msgspec.UNSET
    total: int


class EngineView:
    """Implements ``monitor.jsz.JetStreamView``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # -- /varz and /jsz ---------------------------------------------------------------------------

    def varz(self) -> JetStreamVarz:
        return JetStreamVarz(config=self._config(), stats=self._stats(), limits=self._limits())

    def jsz(self, options: JszOptions) -> Pieces[Jsz]:
        engine = self._engine
        streams = consumers = messages = size = 0
        for stream in self._streams():
            streams += 1
            consumers += stream.consumer_count
            messages += stream.log.messages
            size += stream.bytes()
            if streams % _AT_ONCE == 0:
                yield _AT_ONCE
        leaders = options.raft  # of everything this server has, it is the leader
        accounts = self._chosen(options)
        stats = msgspec.structs.asdict(self._stats())
        return Jsz(
            **stats,
            server_id=engine.server_id,
            now=format_time(time.time_ns()),
            config=self._config(),
            limits=self._limits(),
            streams=streams,
            streams_leader=streams if leaders and streams else msgspec.UNSET,
            consumers=consumers,
            consumers_leader=consumers if leaders and consumers else msgspec.UNSET,
            messages=messages,
            bytes=size,
            account_details=Listing(self._details(accounts, options)) if accounts else msgspec.UNSET,
            total=len(engine.accounts),
        )

    def account(self, account: str, options: JszOptions) -> dict[str, Any]:
        return self._detail(self._engine.accounts[account], options)

    def _config(self) -> Config:
        options, resources = self._engine.options, self._engine.resources
        always = options.sync_interval_s is None
        interval_s = DEFAULT_SYNC_INTERVAL_S if options.sync_interval_s is None else options.sync_interval_s
        return Config(
            max_memory=resources.max_memory,
            max_storage=resources.max_store,
            store_dir=self._engine.folder,
            sync_interval=nanoseconds(interval_s),
            sync_always=always,
            domain=options.domain,
            compress_ok=True,
            unique_tag=options.unique_tag,
            strict=options.strict,
        )

    def _limits(self) -> LimitsDocument:
        limits = self._engine.options.limits
        return LimitsDocument(
            max_request_batch=limits.max_request_batch,
            max_ack_pending=limits.max_ack_pending,
            max_ha_assets=limits.max_ha_assets,
            max_duplicate_window=nanoseconds(limits.duplicate_window_s),
            max_batch_inflight_per_stream=limits.batch_max_inflight_per_stream,
            max_batch_inflight_total=limits.batch_max_inflight_total,
            max_batch_size=limits.batch_max_messages,
            max_batch_timeout=nanoseconds(limits.batch_timeout_s),
            default_max_consumers=limits.default_max_consumers,
        )

    def _stats(self) -> Stats:
        accounts = self._engine.accounts.values()
        resources = self._engine.resources
        return Stats(
            memory=sum(account.usage.used(StorageType.MEMORY) for account in accounts),
            storage=sum(account.usage.used(StorageType.FILE) for account in accounts),
            reserved_memory=resources.reserved(StorageType.MEMORY),
            reserved_storage=resources.reserved(StorageType.FILE),
            accounts=len(accounts),
            api=ApiCounts(
                level=API_LEVEL,
                total=sum(account.api_total for account in accounts),
                errors=sum(account.api_errors for account in accounts),
            ),
        )

    def _chosen(self, options: JszOptions) -> list[AccountJetStream]:
        """Return the accounts that are shown in detail."""
        accounts = self._engine.accounts
        if options.account in accounts:
            return [accounts[options.account]]
        if not options.accounts and (options.account or not _shows_streams(options)):
            return []
        limit = options.limit or _ACCOUNTS_PER_PAGE
        start = max(options.offset, 0)
        chosen = [accounts[name] for name in sorted(accounts)]
        return chosen[start : start + limit] if limit > 0 else chosen

    def _details(self, accounts: list[AccountJetStream], options: JszOptions) -> Iterator[dict[str, Any]]:
        for account in accounts:
            yield self._detail(account, options)

    def _detail(self, account: AccountJetStream, options: JszOptions) -> dict[str, Any]:
        stats = Stats(
            memory=account.usage.used(StorageType.MEMORY),
            storage=account.usage.used(StorageType.FILE),
            reserved_memory=account.options.max_memory % _UNSIGNED,
            reserved_storage=account.options.max_store % _UNSIGNED,
            api=ApiCounts(total=account.api_total, errors=account.api_errors),
        )
        detail = {"name": account.name, "id": account.name, **msgspec.structs.asdict(stats)}
        if _shows_streams(options) and account.streams:
            detail["stream_detail"] = Listing(self._stream_details(account, options))
        return detail

    def _stream_details(
        self, account: AccountJetStream, options: JszOptions
    ) -> Iterator[StreamDetail | None]:
        cluster = {"leader": self._engine.server_name}
        for stream in _by_name(account):
            yield None if stream is None else self._stream(stream, options, cluster)

    def _stream(self, stream: Stream, options: JszOptions, cluster: dict[str, str]) -> StreamDetail:
        mirror = stream.inflows.mirror()
        return StreamDetail(
            name=stream.name,
            created=format_time(stream.created_ns),
            cluster=cluster,
            config=msgspec.Raw(encode(stream.config)) if options.config else None,
            state=stream.state(),
            consumer_detail=self._consumers(stream, options, direct=False),
            direct_consumer_detail=self._consumers(stream, options, direct=True),
            mirror=msgspec.Raw(encode(mirror)) if mirror is not None else None,
            sources=[msgspec.Raw(encode(source)) for source in stream.inflows.sources()],
        )

    def _consumers(self, stream: Stream, options: JszOptions, *, direct: bool) -> Listing | list[None]:
        """Return the consumers of the stream; with `direct`, those that its mirrors and sources created."""
        if not options.consumer or (direct and not options.direct_consumer):
            return []
        chosen = [each for each in stream.consumers.values() if each.config.direct is direct]
        return Listing(_consumer(each, options) for each in chosen) if chosen else []

    def _streams(self) -> Iterator[Stream]:
        """Yield all streams."""
        for account in list(self._engine.accounts.values()):
            yield from list(account.streams.values())

    # -- /healthz ---------------------------------------------------------------------------------

    def health(self, options: HealthzOptions) -> Pieces[tuple[HTTPStatus, list[HealthError]]]:
        if options.js_enabled or options.js_enabled_only:
            return HTTPStatus.OK, []
        missing = self._missing(options)
        if missing is not None:
            return HTTPStatus.NOT_FOUND, [missing]
        ill: list[HealthError] = []
        for account in list(self._engine.accounts.values()):
            if options.account in ("", account.name):
                problems = yield from _problems(account)
                ill += [problem for problem in problems if options.stream in ("", problem.stream)]
        return (HTTPStatus.SERVICE_UNAVAILABLE if ill else HTTPStatus.OK), ill

    def _missing(self, options: HealthzOptions) -> HealthError | None:
        """Return an error for the first of account, stream and consumer that is requested and missing."""
        name, stream = options.account, options.stream
        if not name:
            return None
        account = self._engine.accounts.get(name)
        if account is None:
            text = f"JetStream account {quoted(name)} not found"
            return HealthError(type=HealthErrorType.ACCOUNT, account=name, error=text)
        if stream and stream not in account.streams and stream not in account.unrecovered:
            text = f"JetStream stream {quoted(stream)} not found on account {quoted(name)}"
            return HealthError(type=HealthErrorType.STREAM, account=name, stream=stream, error=text)
        if options.consumer and (
            stream not in account.streams or options.consumer not in account.streams[stream].consumers
        ):
            text = (
                f"JetStream consumer {quoted(options.consumer)} not found for stream {quoted(stream)}"
                f" on account {quoted(name)}"
            )
            return HealthError(
                type=HealthErrorType.CONSUMER,
                account=name,
                stream=stream,
                consumer=options.consumer,
                error=text,
            )
        return None

    # -- the rest ---------------------------------------------------------------------------------

    def account_enabled(self, account: str) -> bool:
        return account in self._engine.accounts

    def metrics(self) -> Iterable[Metric]:
        # Not at the top: a server that nobody scrapes starts without this library.
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        stats = self._stats()
        values = {
            "memory_bytes": ("Bytes of messages in memory.", stats.memory),
            "storage_bytes": ("Bytes of messages in files.", stats.storage),
            "reserved_memory_bytes": ("Memory that streams may grow to.", stats.reserved_memory),
            "reserved_storage_bytes": ("Storage that streams may grow to.", stats.reserved_storage),
        }
        for name, (text, value) in values.items():
            yield GaugeMetricFamily(f"millstream_jetstream_{name}", text, value=value)
        yield CounterMetricFamily(
            "millstream_jetstream_api_requests", "Requests to the API.", value=stats.api.total
        )
        yield CounterMetricFamily(
            "millstream_jetstream_api_errors",
            "Requests to the API that were refused.",
            value=stats.api.errors,
        )

    def stream_metrics(self) -> MetricTable:
        from prometheus_client.metrics_core import GaugeMetricFamily

        from millstream.server.monitor.exposition import MetricTable

        labels = ["account", "stream"]
        gauges = [
            GaugeMetricFamily(f"millstream_stream_{name}", text, labels=labels)
            for name, text in (
                ("messages", "Messages in the stream."),
                ("bytes", "Bytes of the messages in the stream."),
                ("first_sequence", "Sequence of the first message."),
                ("last_sequence", "Sequence of the last message."),
                ("consumers", "Consumers of the stream."),
                ("read_only", "1 if the disk does not take writes."),
            )
        ]
        return MetricTable(gauges, labels, self._stream_rows())

    def _stream_rows(self) -> Iterator[tuple[list[str], list[float]] | None]:
        for account in list(self._engine.accounts.values()):
            for stream in _by_name(account):
                yield None if stream is None else ([account.name, stream.name], _numbers(stream))


def _by_name(account: AccountJetStream) -> Iterator[Stream | None]:
    """Yield the streams of an account by name, and None while sorting and for streams deleted meanwhile."""
    names: SortedPage[str] = SortedPage()
    unsorted = iter(list(account.streams))
    while batch := list(itertools.islice(unsorted, AT_ONCE)):
        names.add(batch)
        yield None
    for chunk in names.chunks():
        for name in chunk:
            yield account.streams.get(name)


def _shows_streams(options: JszOptions) -> bool:
    return options.streams or options.consumer


def _numbers(stream: Stream) -> list[float]:
    log = stream.log
    return [
        float(number)
        for number in (
            log.messages,
            stream.bytes(),
            log.first_seq,
            log.last_seq,
            stream.consumer_count,
            stream.failure is not None,
        )
    ]


def _consumer(consumer: Consumer, options: JszOptions) -> msgspec.Raw:
    info = consumer.info()
    return msgspec.Raw(encode(info if options.config else msgspec.structs.replace(info, config=None)))


def _problems(account: AccountJetStream) -> Pieces[list[HealthError]]:
    """Return streams that did not start, and those that cannot be written."""
    texts = [
        (name, f"JetStream stream '{account.name} > {name}' could not be recovered")
        for name in sorted(account.unrecovered)
    ]
    failed: list[tuple[str, str]] = []
    for count, stream in enumerate(list(account.streams.values()), start=1):
        if stream.failure is not None:
            text = f"JetStream stream '{account.name} > {stream.name}' write error: {stream.failure}"
            failed.append((stream.name, text))
        if count % _AT_ONCE == 0:
            yield _AT_ONCE
    return [
        HealthError(type=HealthErrorType.STREAM, account=account.name, stream=name, error=text)
        for name, text in (*texts, *sorted(failed))
    ]
