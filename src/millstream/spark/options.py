"""The options of a query as values: where to connect, what to read, how to write.

`SourceOptions.parse` and `SinkOptions.parse` take what Spark hands over and refuse what means nothing, alone
or together, before anything is connected.  What they return is immutable and can be pickled.  Its `repr`
never shows a secret, since plans, logs and errors do show options.

Not here: the names and what they mean (`option_table`), where a query starts (`start_position`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from millstream.link.errors import BadLinkOptions
from millstream.link.options import LinkOptions
from millstream.link.sources import link_options, spark_layer
from millstream.spark import option_values as values
from millstream.spark.option_table import ENGINE_OPTIONS, Use, chosen, known
from millstream.spark.start_position import EndPoint, StartPoint
from millstream.tables.errors import OptionError
from millstream.tables.stream_range import Fetching

if TYPE_CHECKING:
    from millstream.spark.value_formats import ValueFormat  # imports pyspark

TRANSPORTS: Final = ("auto", "arrow", "pull", "direct")
COMMIT_MODES: Final = ("none", "consumer", "purge")
OWN: Final = "own"
KAFKA: Final = "kafka"
BUCKET: Final = "bucket"
GUARANTEES: Final = ("at-least-once", "dedupe", "fenced")
BAD_ROWS: Final = ("fail", "drop", "deadLetter")


def connection_of(given: Mapping[str, str]) -> LinkOptions:
    """Return how to connect, from options by their proper names; others than ours are passed over.

    A NATS context is read here, in the driver, so that executors need no file of it.
    """
    if "nats.servers" not in given and "nats.context" not in given:
        raise OptionError("option nats.servers is required: the addresses, separated by commas")
    try:
        return link_options(spark_layer(given))
    except BadLinkOptions as error:
        raise OptionError(str(error)) from None


def fetching_of(given: Mapping[str, str]) -> Fetching:
    """Return the settings for the reading of a task, from options by their proper names."""
    return Fetching(
        transport=values.choice("transport", given.get("transport", "auto"), TRANSPORTS),
        arrow_hosts=tuple(filter(None, map(str.strip, given.get("arrow.hosts", "").split(",")))),
        include_headers=values.boolean("includeHeaders", given.get("includeHeaders", "true")),
        batch=values.integer("fetch.batch", given.get("fetch.batch", "10000")),
        max_bytes=values.size("fetch.maxBytes", given.get("fetch.maxBytes", "8m")),
        timeout=values.duration("fetchTimeout", given.get("fetchTimeout", "120s")),
        retries=values.integer("fetch.numRetries", given.get("fetch.numRetries", "3"), least=0),
        fail_on_data_loss=values.boolean("failOnDataLoss", given.get("failOnDataLoss", "true")),
    )


@dataclass(frozen=True)
class BatchLimits:
    """Limits of one micro-batch; None: no limit."""

    max_rows: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    max_delay: float = 900.0

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        rows = given.get("maxOffsetsPerTrigger")
        least = given.get("minOffsetsPerTrigger")
        most_bytes = given.get("maxBytesPerTrigger")
        if "maxTriggerDelay" in given and least is None:
            raise OptionError("option maxTriggerDelay does nothing without minOffsetsPerTrigger")
        limits = cls(
            max_rows=None if rows is None else values.integer("maxOffsetsPerTrigger", rows),
            max_bytes=None if most_bytes is None else values.size("maxBytesPerTrigger", most_bytes),
            min_rows=None if least is None else values.integer("minOffsetsPerTrigger", least),
            max_delay=values.duration("maxTriggerDelay", given.get("maxTriggerDelay", "15m")),
        )
        if limits.max_rows is not None and limits.min_rows is not None and limits.min_rows > limits.max_rows:
            raise OptionError("option minOffsetsPerTrigger is above maxOffsetsPerTrigger")
        return limits


@dataclass(frozen=True)
class SourceOptions:
    """A read: which streams, from where to where, and how."""

    connection: LinkOptions
    streams: tuple[str, ...]  # empty: by pattern
    pattern: str | None
    filters: tuple[str, ...]  # empty: all subjects
    start: StartPoint
    end: EndPoint
    limits: BatchLimits
    fetching: Fetching
    min_partitions: int = 1
    max_records_per_partition: int = 1_000_000
    commit_mode: str = "none"
    durable: str | None = None
    purge_force: bool = False
    push_down_filters: bool = False
    shape: str = OWN  # the columns that are offered
    value: ValueFormat | None = None  # None: payloads as they are

    @classmethod
    def parse(cls, raw: Mapping[str, str], use: Use) -> Self:
        """Parse the options that Spark hands over, in any case; `use` is the kind of read."""
        given = chosen(raw, use)
        names = [name for name in ("subscribe", "stream", "subscribePattern", "bucket") if name in given]
        if len(names) != 1:
            found = f", not {' and '.join(names)}" if names else ""
            raise OptionError(f"give one of the options subscribe, subscribePattern and bucket{found}")
        [name] = names
        shape = _shape(given, use)
        pattern = given.get("subscribePattern")
        if pattern is not None:
            values.pattern("subscribePattern", pattern)
        commit_mode = values.choice("commitMode", given.get("commitMode", "none"), COMMIT_MODES)
        if commit_mode == "consumer" and "durable" not in given:
            raise OptionError("commitMode=consumer needs the option durable: a name that no other query uses")
        if commit_mode != "consumer" and "durable" in given:
            raise OptionError("option durable does nothing without commitMode=consumer")
        if commit_mode != "purge" and "purge.force" in given:
            raise OptionError("option purge.force does nothing without commitMode=purge")
        filters = given.get("filterSubjects")
        least = given.get("minPartitions", "1")
        most = given.get("maxRecordsPerPartition", "1000000")
        return cls(
            connection=connection_of(given),
            streams=() if pattern is not None else _streams(name, given[name]),
            shape=shape,
            value=_value(given, shape),
            pattern=pattern,
            filters=() if filters is None else values.words("filterSubjects", filters),
            start=StartPoint.parse(given, streaming=use is Use.STREAM),
            end=EndPoint.parse(given),
            limits=BatchLimits.parse(given),
            fetching=fetching_of(given),
            min_partitions=values.integer("minPartitions", least),
            max_records_per_partition=values.integer("maxRecordsPerPartition", most),
            commit_mode=commit_mode,
            durable=given.get("durable"),
            purge_force=values.boolean("purge.force", given.get("purge.force", "false")),
            push_down_filters=values.boolean("pushDownFilters", given.get("pushDownFilters", "false")),
        )


def shape_of(given: Mapping[str, str]) -> str:
    """Return the columns that options choose, whatever else is wrong with them."""
    lower = {name.lower(): value for name, value in given.items()}
    if "bucket" in lower:
        return BUCKET
    return KAFKA if lower.get("kafkaschema", "").strip().lower() == "true" else OWN


def value_of(given: Mapping[str, str]) -> ValueFormat | None:
    """Return the format of values that options choose; raise OptionError."""
    from millstream.spark.value_formats import ValueFormat

    proper = {name: value for name, value in given.items() if name.lower() not in ENGINE_OPTIONS}
    return ValueFormat.parse({known(name).name: value for name, value in proper.items()})


def _value(given: Mapping[str, str], shape: str) -> ValueFormat | None:
    from millstream.spark.value_formats import ValueFormat

    form = ValueFormat.parse(given)
    if form is not None and shape == KAFKA:
        raise OptionError("option valueFormat has no meaning together with kafkaSchema")
    if form is not None and "pushDownFilters" in given:
        raise OptionError("option pushDownFilters has no meaning together with valueFormat")
    return form


def _shape(given: Mapping[str, str], use: Use) -> str:
    kafka = values.boolean("kafkaSchema", given.get("kafkaSchema", "false"))
    pushed = values.boolean("pushDownFilters", given.get("pushDownFilters", "false"))
    if kafka and pushed:
        raise OptionError("pushDownFilters knows the columns of this source, not those of kafkaSchema")
    if "bucket" not in given:
        return KAFKA if kafka else OWN
    useless = ["kafkaSchema", "filterSubjects", "pushDownFilters", "includeHeaders"]
    if use is Use.BATCH:
        useless += ["startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"]
        useless += ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "minPartitions"]
    for name in useless:
        if name in given:
            raise OptionError(f"option {name} has no meaning together with bucket")
    return BUCKET


def _streams(name: str, text: str) -> tuple[str, ...]:
    found = values.words(name, text)
    if name != "bucket":
        return found
    if len(found) != 1 or not re.fullmatch(r"[A-Za-z0-9_-]+", text.strip()):
        raise OptionError(f"option bucket is the name of one bucket, not {text!r}")
    return (f"KV_{found[0]}",)


@dataclass(frozen=True)
class SinkOptions:
    """A write: where to, and with which guarantee."""

    connection: LinkOptions
    subject: str | None = None
    stream: str | None = None  # that has to take all
    delivery_guarantee: str = "dedupe"
    fence_subject: str | None = None
    publish_window: int = 4000
    publish_timeout: float = 30.0
    allow_purge: bool = False
    on_bad_row: str = "fail"
    dead_letter_stream: str | None = None
    allow_nats_headers: bool = False

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> Self:
        given = chosen(raw, Use.WRITE)
        guarantee = values.choice("deliveryGuarantee", given.get("deliveryGuarantee", "dedupe"), GUARANTEES)
        if (guarantee == "fenced") != ("fenceSubject" in given):
            raise OptionError("deliveryGuarantee=fenced and the option fenceSubject need each other")
        on_bad_row = values.choice("onBadRow", given.get("onBadRow", "fail"), BAD_ROWS)
        if (on_bad_row == "deadLetter") != ("deadLetter.stream" in given):
            raise OptionError("onBadRow=deadLetter and the option deadLetter.stream need each other")
        return cls(
            connection=connection_of(given),
            subject=given.get("subject"),
            stream=given.get("stream"),
            delivery_guarantee=guarantee,
            fence_subject=given.get("fenceSubject"),
            publish_window=values.integer("publish.window", given.get("publish.window", "4000")),
            publish_timeout=values.duration("publish.timeout", given.get("publish.timeout", "30s")),
            allow_purge=values.boolean("allowPurge", given.get("allowPurge", "false")),
            on_bad_row=on_bad_row,
            dead_letter_stream=given.get("deadLetter.stream"),
            allow_nats_headers=values.boolean("allowNatsHeaders", given.get("allowNatsHeaders", "false")),
        )
