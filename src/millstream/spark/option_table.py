"""Every option of `format("jetstream")`: its name, when it applies, its default and what it does.

The one list that parsing, the error for an unknown name and the page for users are checked against.  The
options of the connection are those of `LinkOptions`.  Not here: what the values become (`options`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Final

from millstream.base.suggestions import nearest
from millstream.link.options import FIELDS
from millstream.spark.kafka_options import instead_of
from millstream.tables.errors import OptionError


class Use(Flag):
    """Kinds of reads and writes in which an option has a meaning."""

    BATCH = auto()
    STREAM = auto()
    WRITE = auto()
    READ = BATCH | STREAM
    ALL = BATCH | STREAM | WRITE


_WORDS: Final = {Use.BATCH: "a batch read", Use.STREAM: "a streaming read", Use.WRITE: "a write"}


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    use: Use
    default: str | None  # as text; None: there is none
    meaning: str
    secret: bool = False


OPTIONS: Final = (
    *(
        Option(each.names.spark, Use.ALL, each.default_text or None, each.names.help, each.names.secret)
        for each in FIELDS
        if each.names.spark
    ),
    # -- what to read
    Option("subscribe", Use.READ, None, "stream names, separated by commas"),
    Option(
        "stream",
        Use.ALL,
        None,
        "read: as `subscribe`; write: the stream that has to take all, for overwrite without `subject`",
    ),
    Option("subscribePattern", Use.READ, None, "regular expression that stream names match as a whole"),
    Option(
        "bucket",
        Use.READ,
        None,
        "a key-value bucket instead of a stream: the last value of each key, or in a stream its changes",
    ),
    Option("filterSubjects", Use.READ, None, "subjects to read, separated by commas; wildcards work"),
    Option(
        "startingOffsets",
        Use.READ,
        "latest (stream), earliest (batch)",
        "`earliest`, `latest`, a sequence, `-100` for the last hundred, or JSON by stream",
    ),
    Option(
        "endingOffsets", Use.BATCH, "latest", "`latest`, a sequence (not read any more), or JSON by stream"
    ),
    Option("startingTimestamp", Use.READ, None, "milliseconds, ISO 8601, or `-10 minutes`"),
    Option(
        "endingTimestamp", Use.BATCH, None, "as `startingTimestamp`; messages of that time on are not read"
    ),
    Option("startingOffsetsByTimestamp", Use.READ, None, "JSON: `startingTimestamp` by stream, as in Kafka"),
    Option("endingOffsetsByTimestamp", Use.BATCH, None, "JSON: `endingTimestamp` by stream, as in Kafka"),
    Option(
        "startingOffsetsByTimestampStrategy",
        Use.READ,
        "error",
        "when nothing is as late as the starting time: `error`, or `latest`: start behind the last message",
    ),
    # -- how much at a time
    Option("maxOffsetsPerTrigger", Use.STREAM, None, "most sequences in one micro-batch"),
    Option("maxBytesPerTrigger", Use.STREAM, None, "most bytes in one micro-batch, by the streams' average"),
    Option(
        "minOffsetsPerTrigger", Use.STREAM, None, "no micro-batch for less, until `maxTriggerDelay` is over"
    ),
    Option("maxTriggerDelay", Use.STREAM, "15m", "how long `minOffsetsPerTrigger` may hold messages back"),
    Option("minPartitions", Use.READ, "1", "at least so many tasks for each stream"),
    Option("maxRecordsPerPartition", Use.READ, "1000000", "most sequences for one task"),
    # -- how to read
    Option("failOnDataLoss", Use.READ, "true", "`false`: warn and go on when messages are gone"),
    Option(
        "includeHeaders", Use.READ, "true", "`false`: an empty map instead of the headers, which is faster"
    ),
    Option(
        "kafkaSchema", Use.READ, "false", "`true`: the columns of Spark's Kafka source instead of our own"
    ),
    Option(
        "valueFormat",
        Use.READ,
        None,
        "`json`, `variant`, `avro` or `protobuf`: the payload decoded as the column `value`, not `data`",
    ),
    Option(
        "valueSchema",
        Use.READ,
        None,
        "json: columns as in SQL, or a JSON Schema; avro: a schema or its file; protobuf: its descriptors",
    ),
    Option("valueMessage", Use.READ, None, "name of the message in the descriptors of protobuf"),
    Option(
        "onBadValue",
        Use.READ,
        "fail",
        "a payload of another form: `fail`, `null` with the reason in `value_error`, or `drop`",
    ),
    Option("transport", Use.READ, "auto", "`auto`, `arrow`, `pull` or `direct`"),
    Option(
        "arrow.hosts", Use.READ, None, "hosts that may serve Arrow beside the NATS server's own, with commas"
    ),
    Option("fetch.batch", Use.READ, "10000", "messages asked for in one request"),
    Option("fetch.maxBytes", Use.READ, "8m", "bytes asked for in one request"),
    Option("fetchTimeout", Use.READ, "120s", "how long a task waits for the next message before it fails"),
    Option(
        "fetch.numRetries",
        Use.READ,
        "3",
        "how often a task tries again when the connection or the leader is lost",
    ),
    Option("commitMode", Use.STREAM, "none", "`none`, `consumer` or `purge`"),
    Option(
        "durable", Use.STREAM, None, "name of the consumer that `commitMode=consumer` moves; required for it"
    ),
    Option("purge.force", Use.STREAM, "false", "purge a work queue although it has consumers of its own"),
    Option("pushDownFilters", Use.BATCH, "false", "let Spark hand filters over; needs a setting of Spark's"),
    # -- write
    Option("subject", Use.WRITE, None, "where to publish, instead of the column `subject`"),
    Option("deliveryGuarantee", Use.WRITE, "dedupe", "`at-least-once`, `dedupe` or `fenced`"),
    Option("fenceSubject", Use.WRITE, None, "prefix of the subjects of markers; required for `fenced`"),
    Option("publish.window", Use.WRITE, "4000", "messages on their way without an answer"),
    Option("publish.timeout", Use.WRITE, "30s", "how long to wait for an answer"),
    Option("allowPurge", Use.WRITE, "false", "let mode `overwrite` purge the stream first"),
    Option("onBadRow", Use.WRITE, "fail", "`fail`, `drop` or `deadLetter`"),
    Option("deadLetter.stream", Use.WRITE, None, "stream for bad rows; required for `deadLetter`"),
    Option(
        "allowNatsHeaders", Use.WRITE, "false", "let the column `headers` set headers of the server's own"
    ),
)

# What Spark itself adds to the options of a query; no business of ours.
ENGINE_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})

_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}


def known(name: str) -> Option:
    """The option of that name, in whatever case; an `OptionError` that suggests one if there is none."""
    option = _BY_KEY.get(name.lower())
    if option is None:
        instead = instead_of(name)
        if instead is not None:
            raise OptionError(f"option {name} is Kafka's; use {instead}")
        raise OptionError(f"unknown option {name!r}{_suggestion(name)}")
    return option


def check_names(names: Iterable[str]) -> None:
    """Raise `OptionError` for a name that is no option at all."""
    for name in sorted(names):
        if name.lower() not in ENGINE_OPTIONS:
            known(name)


def chosen(given: Mapping[str, str], use: Use) -> dict[str, str]:
    """The options by their proper names; one that means nothing in this use is an error."""
    result: dict[str, str] = {}
    for name in sorted(given):
        if name.lower() in ENGINE_OPTIONS:
            continue
        option = known(name)
        if not option.use & use:
            meant = " and ".join(text for flag, text in _WORDS.items() if option.use & flag)
            raise OptionError(f"option {option.name} is for {meant}, not for {_WORDS[use]}")
        result[option.name] = given[name]
    return result


def _suggestion(name: str) -> str:
    short = {key.rpartition(".")[2]: key for key in _BY_KEY}
    near = nearest(name.lower(), [*_BY_KEY, *short])
    if not near:
        return ""
    found = near if near in _BY_KEY else short[near]
    return f": did you mean {_BY_KEY[found].name!r}?"
