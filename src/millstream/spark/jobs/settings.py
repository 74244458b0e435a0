"""Every key of every job, declared once with its type, default and meaning.

The TOML file, its errors and the user's page are generated from or checked against these classes.  The
syntax of durations (``10s``), sizes (``64m``) and starts (``-10 minutes``) is the data source's.  Not here:
reading the file (`pipeline.load`), and Spark, which checking a file does not import.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from millstream.link.sections import section_struct

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Names = Annotated[list[Text], Meta(min_length=1)]
Guarantee = Literal["at-least-once", "dedupe", "fenced"]
TableFormat = Literal["parquet", "delta", "iceberg"]
OutputMode = Literal["append", "update", "complete"]


# The keys of an input, declared here because two classes have them and msgspec supports one base class
# only.
Streams = Annotated[Names, Meta(description="names of the streams")]
Filter = Annotated[list[Text], Meta(description="subjects to read; wildcards work; all if empty")]
Start = Annotated[Text, Meta(description="`earliest`, `latest`, a sequence, or `-100` for the last hundred")]
StartTime = Annotated[str, Meta(description="instead of `start`: ISO 8601 or `-10 minutes`")]
MaxRows = Annotated[Count, Meta(description="most sequences in one batch; 0: no limit")]
MaxBytes = Annotated[str, Meta(description="most bytes in one batch, such as `64m`")]
Partitions = Annotated[int, Meta(ge=1, description="at least so many tasks for each stream")]
FailOnDataLoss = Annotated[
    bool, Meta(description="`false`: warn and go on when messages are gone before they were read")
]
Transport = Annotated[
    Literal["auto", "arrow", "pull", "direct"], Meta(description="how messages are fetched")
]


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The messages that a job reads."""

    streams: Streams
    filter: Filter = []
    start: Start = "earliest"
    start_time: StartTime = ""
    max_rows: MaxRows = 0
    max_bytes: MaxBytes = ""
    partitions: Partitions = 1
    fail_on_data_loss: FailOnDataLoss = True
    transport: Transport = "auto"


class Job(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The keys of all jobs."""

    name: Annotated[Name, Meta(description="name of the job; its checkpoint is kept under it")]
    after: Annotated[
        list[Name], Meta(description='start when these jobs have ended (they must end: `trigger = "once"`)')
    ] = []


class StreamingJob(Job, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of jobs that run until stopped."""

    trigger: Annotated[
        Text,
        Meta(description="time between two batches, such as `10s`, or `once`: what is there now, then end"),
    ] = "10s"
    checkpoint: Annotated[
        str, Meta(description="folder of the job's checkpoint, instead of one below the pipeline's")
    ] = ""


class Archive(StreamingJob, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="archive"):
    """Copies streams into a table, by stream and day, each message exactly once."""

    streams: Streams
    filter: Filter = []
    start: Start = "earliest"
    start_time: StartTime = ""
    max_rows: MaxRows = 0
    max_bytes: MaxBytes = ""
    partitions: Partitions = 1
    fail_on_data_loss: FailOnDataLoss = True
    transport: Transport = "auto"
    table: Annotated[Text, Meta(description="folder (for iceberg: `namespace.name`) of the table")]
    format: Annotated[
        TableFormat, Meta(description="`iceberg` needs a `[catalog]`, `delta` its jars in Spark")
    ] = "parquet"
    compact_folders: Annotated[
        Count,
        Meta(description="merge the small folders or files of a day when there are so many; 0: never"),
    ] = 0
    compact_size: Annotated[
        Text, Meta(description="folders or files of this size are left alone by the merging")
    ] = "128m"
    snapshots: Annotated[
        Count, Meta(description="for iceberg: so many snapshots are kept, older ones expire; 0: all are kept")
    ] = 100
    schema: Annotated[
        str,
        Meta(
            description="for iceberg: columns of payloads: of JSON `id string, price double` or a JSON "
            "Schema, of Avro a record (either may be a file), of Protobuf a file of descriptors"
        ),
    ] = ""
    schema_message: Annotated[
        str, Meta(description="name of the message in `schema`, a file of Protobuf's descriptors")
    ] = ""
    dead_letters: Annotated[
        str, Meta(description="subject for messages that do not fit `schema`; without it they end the job")
    ] = ""
    purge: Annotated[bool, Meta(description="remove from the stream what is safely in the table")] = False
    purge_force: Annotated[bool, Meta(description="purge although the stream has consumers")] = False
    retention: Annotated[
        str, Meta(description="with `purge`: the stream keeps messages that are younger, such as `7 days`")
    ] = ""


class Compact(Job, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="compact"):
    """Merges the small folders or files of a table; of Iceberg, removes what is no longer needed, too."""

    table: Annotated[
        Text,
        Meta(description="folder (for iceberg: `namespace.name`) of a table of `archive` or `transform`"),
    ]
    format: Annotated[Literal["parquet", "iceberg"], Meta(description="format of the table")] = "parquet"
    folders: Annotated[
        int, Meta(ge=2, description="merge a partition with at least so many small folders or files")
    ] = 2
    size: Annotated[Text, Meta(description="folders or files of this size are left alone")] = "128m"
    snapshots: Annotated[int, Meta(ge=1, description="for iceberg: so many snapshots are kept at least")] = (
        100
    )
    snapshot_age: Annotated[Text, Meta(description="for iceberg: younger snapshots are kept, too")] = "5 days"
    orphan_age: Annotated[
        Text, Meta(description="for iceberg: files that no snapshot names are removed when they are so old")
    ] = "3 days"


class Replay(Job, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="replay"):
    """Publishes a table into a stream, in sequence order; a second run adds nothing."""

    table: Annotated[Text, Meta(description="folder (for iceberg: `namespace.name`) of the table")]
    format: Annotated[TableFormat, Meta(description="format of the table")] = "parquet"
    with_stream: Annotated[
        bool, Meta(description="after the rows of the table, what its stream has and the table has not yet")
    ] = False
    streams: Annotated[list[Text], Meta(description="only rows of these streams; all if empty")] = []
    filter: Annotated[list[Text], Meta(description="only rows of these subjects; wildcards work")] = []
    from_sequence: Annotated[Count, Meta(description="first original sequence; 0: from the start")] = 0
    to_sequence: Annotated[Count, Meta(description="last original sequence; 0: to the end")] = 0
    from_time: Annotated[str, Meta(description="rows of this time on (ISO 8601)")] = ""
    to_time: Annotated[str, Meta(description="rows before this time (ISO 8601)")] = ""
    subject: Annotated[
        Text, Meta(description="where to: `{subject}` is the original, `{stream}` its stream")
    ] = "{subject}"
    target: Annotated[
        Text, Meta(description="stream that the messages arrive in: what it has already is not sent again")
    ]
    rate: Annotated[float, Meta(ge=0, description="messages per second; 0: as fast as possible")] = 0
    speed: Annotated[
        float, Meta(ge=0, description="original timing, so many times as fast (1 = as it was); 0: no timing")
    ] = 0
    chunk: Annotated[int, Meta(ge=1, description="messages sent between two points of resume")] = 100_000


class Parsed(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input of `transform`: a view for SQL or Python."""

    json: Annotated[
        str,
        Meta(
            description="payload as JSON, in column `value`: `variant`, or fields: `id string, price double`"
        ),
    ] = ""
    watermark: Annotated[
        str,
        Meta(description="column and delay, such as `time 30 seconds`: how late rows of a window may come"),
    ] = ""


class Output(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The output of `transform`: a stream (`subject`) or a table (`table`)."""

    subject: Annotated[str, Meta(description="publish there; `*`: the column `subject` says where")] = ""
    guarantee: Annotated[Guarantee, Meta(description="how often a row may arrive")] = "dedupe"
    fence_subject: Annotated[str, Meta(description="for `fenced`: prefix of the markers' subjects")] = ""
    table: Annotated[
        str, Meta(description="folder (for iceberg: `namespace.name`) of a table to append to")
    ] = ""
    format: Annotated[TableFormat, Meta(description="format of `table`")] = "parquet"
    partition_by: Annotated[list[Text], Meta(description="columns that the table is divided by")] = []
    mode: Annotated[
        OutputMode, Meta(description="as in Spark; `update` and `complete` only with aggregation")
    ] = "append"


class Transform(StreamingJob, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="transform"):
    """Passes streams through SQL or a Python function into a stream or a table."""

    input: Annotated[
        dict[Name, Parsed], Meta(min_length=1, description="what is read, by the name of its view")
    ]
    output: Annotated[Output, Meta(description="where rows go")]
    sql: Annotated[str, Meta(description="query over the views")] = ""
    python: Annotated[
        str, Meta(description="`module:function` instead: takes a dict of DataFrames by view, returns one")
    ] = ""
    dead_letters: Annotated[
        str,
        Meta(description="subject for messages whose payload is not what `json` says; without it they fail"),
    ] = ""


class Analytics(StreamingJob, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="analytics"):
    """Turns ack samples and advisories into tables about deliveries."""

    stream: Annotated[
        Text,
        Meta(description="captures `$JS.EVENT.METRIC.CONSUMER.ACK.>` and `$JS.EVENT.ADVISORY.CONSUMER.>`"),
    ]
    table: Annotated[Text, Meta(description="folder that gets `latency`, `failures` and `poison`")]
    window: Annotated[Text, Meta(description="length of the windows of `latency` and `failures`")] = (
        "1 minute"
    )
    delay: Annotated[Text, Meta(description="how late an event may come for its window")] = "30 seconds"
    mode: Annotated[
        Literal["append", "update"],
        Meta(
            description="`append`: a window once, when it is over; `update`: at each change, with `batch_id`"
        ),
    ] = "append"
    start: Start = "earliest"
    max_rows: Annotated[Count, Meta(description="most events in one batch; 0: no limit")] = 0
    fail_on_data_loss: Annotated[bool, Meta(description="`false`: go on when events expired unread")] = False


class DeadLetters(StreamingJob, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="dead-letters"):
    """Copies messages that a consumer gave up (max deliver, terminated) into a stream, with the reason."""

    stream: Annotated[Text, Meta(description="captures `$JS.EVENT.ADVISORY.CONSUMER.>`")]
    subject: Annotated[
        Text, Meta(description="where dead letters go; `{stream}` and `{consumer}` are filled in")
    ] = "dlq.{stream}.{consumer}"
    guarantee: Annotated[Literal["at-least-once", "dedupe"], Meta(description="how often one may arrive")] = (
        "dedupe"
    )
    only_streams: Annotated[list[Text], Meta(description="only messages of these streams; all if empty")] = []
    start: Start = "earliest"
    max_rows: Annotated[Count, Meta(description="most advisories in one batch; 0: no limit")] = 10_000
    fail_on_data_loss: Annotated[bool, Meta(description="`false`: go on when advisories expired unread")] = (
        False
    )


class Redrive(Job, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="redrive"):
    """Publishes dead letters to their original subjects again."""

    stream: Annotated[Text, Meta(description="stream with dead letters of the job `dead-letters`")]
    filter: Annotated[
        list[Text], Meta(description="only dead letters of these subjects; wildcards work")
    ] = []
    subject: Annotated[Text, Meta(description="where to: `{subject}` is the original one")] = "{subject}"
    delete: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="remove what was sent from the stream of dead letters; `auto`: if it is a work queue"
        ),
    ] = "auto"
    delete_original: Annotated[
        Literal["auto", "always", "never"],
        Meta(description="remove the original from its stream; `auto`: if that is a work queue"),
    ] = "auto"


class Verify(Job, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="verify"):
    """Compares a stream with its table; the run fails if they differ."""

    table: Annotated[Text, Meta(description="folder (for iceberg: `namespace.name`) of the table")]
    format: Annotated[TableFormat, Meta(description="format of the table")] = "parquet"
    streams: Annotated[list[Text], Meta(description="streams to compare; those of the table if empty")] = []
    strict: Annotated[bool, Meta(description="also fail for rows that the stream does not have any more")] = (
        False
    )
    bucket: Annotated[int, Meta(ge=1, description="sequences for each checksum")] = 10_000
    report: Annotated[str, Meta(description="file for the result as JSON")] = ""


AnyJob = Archive | Compact | Replay | Transform | Analytics | DeadLetters | Redrive | Verify
JOB_KINDS: Final[dict[str, type[Job]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Archive, Compact, Replay, Transform, Analytics, DeadLetters, Redrive, Verify)
}


if TYPE_CHECKING:
    Nats: TypeAlias = Any
else:
    Nats = section_struct("Nats", secrets=False, old_keys=False)


class SparkSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Spark session that all jobs of the file share."""

    master: Annotated[str, Meta(description="as for spark-submit; the flag `--master` wins")] = "local[*]"
    conf: Annotated[dict[str, str | int | bool | float], Meta(description="settings of Spark's own")] = {}


class CatalogSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The catalog of the Iceberg tables."""

    warehouse: Annotated[
        str, Meta(description="folder of the tables; alone, the catalog is the file `catalog.db` in it")
    ] = ""
    name: Annotated[Name, Meta(description="name of the catalog, also in PyIceberg's own configuration")] = (
        "lake"
    )
    type: Annotated[
        str, Meta(description="`sql`, `rest`, `glue`, `hive`, `dynamodb`, …, as in PyIceberg")
    ] = ""
    uri: Annotated[str, Meta(description="address of the catalog")] = ""
    properties: Annotated[
        dict[str, str], Meta(description="other properties of PyIceberg's, no secrets")
    ] = {}


class Progress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Places besides the terminal where progress is reported."""

    subject: Annotated[
        str, Meta(description="publish rows, lag and rate there after each batch, as JSON")
    ] = ""
    interval: Annotated[Text, Meta(description="time between two lines of a job's progress")] = "10s"


class Pipeline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    job: Annotated[list[AnyJob], Meta(min_length=1, description="the jobs")]
    name: Annotated[Name, Meta(description="name of the pipeline: the application in Spark")] = "millstream"
    checkpoint: Annotated[str, Meta(description="folder for the checkpoints of the jobs")] = ""
    stop_timeout: Annotated[Text, Meta(description="how long a stop waits for running batches")] = "30s"
    nats: Annotated[Nats, Meta(description="the connection")] = Nats()
    spark: Annotated[SparkSettings, Meta(description="the Spark session")] = SparkSettings()
    catalog: Annotated[CatalogSection, Meta(description="the catalog of Iceberg tables")] = CatalogSection()
    progress: Annotated[Progress, Meta(description="progress beside the terminal")] = Progress()


def key_descriptions(settings: type[Struct]) -> dict[str, str]:
    """Return the description of every key of a class."""
    from msgspec.inspect import Metadata, type_info

    result: dict[str, str] = {}
    fields: Any = type_info(settings)
    for field in fields.fields:
        extra = field.type.extra_json_schema if isinstance(field.type, Metadata) else None
        result[field.encode_name] = (extra or {}).get("description", "")
    return result
