"""Dead letters: copy messages that a consumer gave up into a stream, with the reason.

A `max_deliver` or `terminated` advisory names stream, consumer and sequence.  A task fetches the original
message and publishes it with its own headers, its origin (``Millstream-Orig-*``) and the reason
(``Millstream-Dlq-*``).  If the original no longer exists, a letter with an empty payload and
``Millstream-Dlq-Gone`` is published.  The id ``dlq:<stream>:<consumer>:<seq>`` prevents duplicates.

A consumer with dead letters of its own has stored its letter already: its advisories say where
(`dead_letter`), and are left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from millstream.spark.jobs import origins
from millstream.spark.jobs.admin import AdminMessage, StreamAdmin
from millstream.spark.jobs.analytics import ADVISORIES, MAX_DELIVER, NAK, advisories, read_events
from millstream.spark.jobs.checkpoint import sound_checkpoint
from millstream.spark.jobs.context import JobContext, trigger
from millstream.spark.jobs.inputs import SOURCE, read_stream
from millstream.spark.jobs.settings import DeadLetters, Input

if TYPE_CHECKING:
    from pyarrow import RecordBatch

SCHEMA: Final = f"data binary, subject string, headers {origins.HEADERS_TYPE}, msg_id string"
_WANTED: Final = ("stream", "consumer", "stream_seq", "deliveries", "kind", "reason")


def given_up(messages: DataFrame, only_streams: Sequence[str] = ()) -> DataFrame:
    """Return the advisories about messages that are given up and have no letter yet."""
    no_letter = F.coalesce("dead_letter", F.lit("")) == ""
    found = advisories(read_events(messages)).where(F.col("kind") != NAK).where(no_letter).select(*_WANTED)
    return found.where(F.col("stream").isin(list(only_streams))) if only_streams else found


def letters(found: DataFrame, nats: Mapping[str, str], subject: str, name: str) -> DataFrame:
    """Return the dead letters of advisories as rows for the sink; the tasks fetch the originals."""
    options = dict(nats)

    def fetch(batches: "Iterable[RecordBatch]") -> "Iterator[RecordBatch]":
        with StreamAdmin(options, name) as admin:
            for batch in batches:
                rows = batch.to_pylist()
                yield _record_batch(
                    [letter(row, admin.get(row["stream"], row["stream_seq"]), subject) for row in rows]
                )

    return found.mapInArrow(fetch, SCHEMA)


def letter(advisory: Mapping[str, object], original: AdminMessage | None, subject: str) -> dict[str, object]:
    """Return one dead letter as a row for the sink."""
    stream, consumer = str(advisory["stream"]), str(advisory["consumer"])
    sequence, reason = str(advisory["stream_seq"]), str(advisory["reason"] or "")
    kind = str(advisory["kind"])
    headers: dict[str, list[str]] = {}
    for name, value in original.headers if original else ():
        if origins.is_own_header(name):
            headers.setdefault(name, []).append(value)
    headers[origins.ORIG_STREAM] = [stream]
    headers[origins.ORIG_SEQ] = [sequence]
    headers[origins.DLQ_CONSUMER] = [consumer]
    headers[origins.DLQ_DELIVERIES] = [str(advisory["deliveries"] or 0)]
    headers[origins.DLQ_REASON] = [kind if kind == MAX_DELIVER or not reason else f"{kind}: {reason}"]
    if original is None:
        headers[origins.DLQ_GONE] = ["true"]
    else:
        headers[origins.ORIG_TIME] = [original.time]
        headers[origins.ORIG_SUBJECT] = [original.subject]
    return {
        "data": original.data if original else b"",
        "subject": subject.replace("{stream}", stream).replace("{consumer}", consumer),
        "headers": list(headers.items()),
        "msg_id": f"dlq:{stream}:{consumer}:{sequence}",
    }


def run(context: JobContext, settings: DeadLetters) -> str:
    """Run until stopped or, with `trigger = "once"`, until everything present at the start is processed."""
    wanted = Input(
        streams=[settings.stream],
        filter=[ADVISORIES],
        start=settings.start,
        max_rows=settings.max_rows,
        fail_on_data_loss=settings.fail_on_data_loss,
    )
    found = given_up(read_stream(context.spark, context.nats, wanted), settings.only_streams)
    rows = letters(found, context.nats, settings.subject, context.name)
    writer = rows.writeStream.format(SOURCE).options(**context.nats, deliveryGuarantee=settings.guarantee)
    writer = trigger(writer, settings.trigger).queryName(context.name)
    place = sound_checkpoint(context.checkpoint, context.spark)
    context.follow(writer.option("checkpointLocation", place).start())
    return "done"


def _record_batch(rows: list[dict[str, object]]) -> "RecordBatch":
    import pyarrow as pa

    headers = pa.map_(pa.string(), pa.list_(pa.string()))
    schema = pa.schema(
        [("data", pa.binary()), ("subject", pa.string()), ("headers", headers), ("msg_id", pa.string())]
    )
    return pa.RecordBatch.from_pylist(rows, schema=schema)
