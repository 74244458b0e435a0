"""Redrive: publish dead letters to their original subjects again.

Works through the dead-letter stream in chunks: publish the letters; when the server has acknowledged all of
them, delete letters and originals as `delete` and `delete_original` say (by default from work queues, where
nobody would receive them again); then save the position.  The id ``redrive:<stream>:<seq>`` prevents
duplicates when a chunk is sent again.  Letters whose original no longer existed are skipped: they have no
payload.
"""

import json
from typing import Final, Literal

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from millstream.spark.jobs import origins
from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.inputs import SOURCE, read_range
from millstream.spark.jobs.settings import Redrive
from millstream.tables.errors import StreamMissing

CHUNK: Final = 10_000  # sequences
_STATE: Final = "redrive.json"


def redriven(letters: DataFrame, subject: str) -> DataFrame:
    """Return dead letters as rows to publish, each with its origin."""
    original = origins.first_header(origins.ORIG_SUBJECT)
    pieces = [F.lit(text) for text in subject.split("{subject}")]
    target = pieces[0]
    for piece in pieces[1:]:
        target = F.concat(target, original, piece)
    return letters.where(original.isNotNull()).select(
        F.col("data"),
        target.alias("subject"),
        origins.own_headers(F.col("headers")).alias("headers"),
        F.concat_ws(":", F.lit("redrive"), F.col("stream"), F.col("seq")).alias("msg_id"),
        F.col("seq").alias("letter"),
        origins.first_header(origins.ORIG_STREAM).alias("origin_stream"),
        origins.first_header(origins.ORIG_SEQ).cast("long").alias("origin_seq"),
    )


def run(context: JobContext, settings: Redrive) -> str:
    """Send all dead letters present now, or those since the last run if letters are kept."""
    sent = 0
    with StreamAdmin(context.nats, context.name) as admin:
        facts = admin.facts(settings.stream)
        delete = _is_wanted(settings.delete, facts.retention)
        state = open_files(context.checkpoint, context.spark) if context.checkpoint else None
        following = facts.first
        if state is not None and state.exists(_STATE):
            kept = json.loads(state.read(_STATE))
            if kept["id"] == facts.id:
                following = max(following, kept["next"])
        work_queues: dict[str, bool] = {}
        while following < facts.after_last and not context.stopping.is_set():
            end = min(following + CHUNK, facts.after_last)
            rows = _send(context, settings, following, end)
            for row in rows:
                if _delete_original(admin, settings, row.origin_stream, work_queues):
                    admin.delete(row.origin_stream, row.origin_seq)
                if delete:
                    admin.delete(settings.stream, row.letter)
            following, sent = end, sent + len(rows)
            if state is not None:
                state.write(_STATE, json.dumps({"id": facts.id, "next": following}))
            context.say(sent)
    return f"{sent} messages sent back from {settings.stream}"


def _send(context: JobContext, settings: Redrive, first: int, following: int) -> list[Row]:
    letters = read_range(
        context.spark,
        context.nats,
        settings.stream,
        first=first,
        following=following,
        filter=tuple(settings.filter),
    )
    rows = redriven(letters, settings.subject).persist()
    try:
        ordered = rows.coalesce(1).sortWithinPartitions("letter")
        ordered.select("data", "subject", "headers", "msg_id").write.format(SOURCE).options(
            **context.nats
        ).mode("append").save()
        return rows.select("letter", "origin_stream", "origin_seq").collect()
    finally:
        rows.unpersist()


def _delete_original(admin: StreamAdmin, settings: Redrive, stream: str, known: dict[str, bool]) -> bool:
    if stream not in known:
        try:
            known[stream] = _is_wanted(settings.delete_original, admin.facts(stream).retention)
        except StreamMissing:
            known[stream] = False
    return known[stream]


def _is_wanted(when: Literal["auto", "always", "never"], retention: str) -> bool:
    return when == "always" or (when == "auto" and retention == "workqueue")
