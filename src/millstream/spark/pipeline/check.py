"""Find errors in a pipeline whose keys are all known, before Spark is started.

Each check returns lines; the file is refused with all of them at once.  Not here: checks that need a server
(`server_check`) or a Spark session (`sql_check`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from millstream.lake.catalog import SECRET_KEYS
from millstream.spark import option_values
from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.settings import (
    Analytics,
    AnyJob,
    Archive,
    Compact,
    DeadLetters,
    Input,
    Parsed,
    Pipeline,
    Replay,
    StreamingJob,
    Transform,
    Verify,
)
from millstream.spark.jobs.watermarks import split_watermark
from millstream.tables.errors import OptionError

ONCE: Final = "once"
PARQUET: Final = "parquet"
ICEBERG: Final = "iceberg"
DELTA: Final = "delta"
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_START: Final = re.compile(r"earliest|latest|-?\d+")
_ICEBERG_NAME: Final = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+")
_PLACEHOLDER: Final = re.compile(r"\{([^}]*)\}")


def check_pipeline(pipeline: Pipeline) -> list[str]:
    """Return every reason why this pipeline cannot run, as lines that name the job and the key."""
    problems = list(_check_value('key "stop_timeout"', option_values.duration, pipeline.stop_timeout))
    problems += _check_value('[progress] key "interval"', option_values.duration, pipeline.progress.interval)
    problems += _check_names(pipeline)
    problems += _check_order(pipeline)
    problems += _check_checkpoints(pipeline)
    problems += _check_catalog(pipeline)
    for job in pipeline.job:
        problems += [f'job "{job.name}": {problem}' for problem in _check_job(job)]
    return problems


def needs_spark(pipeline: Pipeline) -> bool:
    """Return True if Spark is needed to check something: SQL, schemas, functions, formats with jars."""
    return any(isinstance(job, Transform) or format_of(job) == DELTA for job in pipeline.job)


def format_of(job: AnyJob) -> str:
    """Return the format of the table that a job reads or writes."""
    if isinstance(job, Transform):
        return job.output.format
    return job.format if isinstance(job, Archive | Compact | Replay | Verify) else PARQUET


def table_of(job: AnyJob) -> str:
    """Return the table that a job reads or writes, or an empty string."""
    if isinstance(job, Transform):
        return job.output.table
    return job.table if isinstance(job, Archive | Compact | Replay | Verify) else ""


def is_once(job: AnyJob) -> bool:
    """Return True if the job ends by itself."""
    return not isinstance(job, StreamingJob) or job.trigger == ONCE


def checkpoint_of(pipeline: Pipeline, job: StreamingJob) -> str:
    """Return the folder of a job's checkpoint: its own, below the pipeline's, or in the table it writes."""
    if job.checkpoint:
        return job.checkpoint
    if pipeline.checkpoint:
        return f"{pipeline.checkpoint.rstrip('/')}/{job.name}"
    if isinstance(job, Archive) and job.format == PARQUET:
        return f"{job.table.rstrip('/')}/_millstream/checkpoint"
    return ""


def _check_names(pipeline: Pipeline) -> Iterator[str]:
    for name, times in Counter(job.name for job in pipeline.job).items():
        if times > 1:
            yield f'job "{name}": {times} jobs have this name'
    tables = Counter(job.table for job in pipeline.job if isinstance(job, Archive) and job.format != ICEBERG)
    tables.update(job.output.table for job in pipeline.job if isinstance(job, Transform) and job.output.table)
    for table, times in tables.items():
        if times > 1:
            yield f'table "{table}": {times} jobs write it'
    streams = Counter(
        (job.table, stream)
        for job in pipeline.job
        if isinstance(job, Archive) and job.format == ICEBERG
        for stream in job.streams
    )
    for (table, stream), times in streams.items():
        if times > 1:
            yield f'table "{table}": {times} jobs archive stream {stream} to it'


def _check_catalog(pipeline: Pipeline) -> Iterator[str]:
    catalog = pipeline.catalog
    for key in catalog.properties:
        if any(word in key for word in SECRET_KEYS):
            variable = (
                f"PYICEBERG_CATALOG__{catalog.name}__{key}".upper().replace("-", "_").replace(".", "__")
            )
            yield f'[catalog] "{key}" may not be written into the file; use the variable {variable}'
    jobs = [job for job in pipeline.job if table_of(job) and format_of(job) == ICEBERG]
    for job in jobs:
        if not _ICEBERG_NAME.fullmatch(table_of(job)):
            yield f'job "{job.name}": key "table": an Iceberg table is named such as lake.orders'
    if jobs and not (catalog.warehouse or catalog.type or catalog.uri):
        yield f'job "{jobs[0].name}": format iceberg needs a [catalog], such as warehouse = "data/lake"'


def _check_order(pipeline: Pipeline) -> Iterator[str]:
    jobs = {job.name: job for job in pipeline.job}
    for job in pipeline.job:
        for name in job.after:
            other = jobs.get(name)
            if other is None:
                yield f'job "{job.name}": key "after": there is no job "{name}"'
            elif not is_once(other):
                yield f'job "{job.name}": key "after": job "{name}" never ends; give it trigger = "once"'
    done: set[str] = set()
    waiting = {job.name: {name for name in job.after if name in jobs} for job in pipeline.job}
    while ready := [name for name, others in waiting.items() if others <= done]:
        done.update(ready)
        for name in ready:
            del waiting[name]
    if waiting:
        yield f'key "after": these jobs wait for each other: {", ".join(waiting)}'


def _check_checkpoints(pipeline: Pipeline) -> Iterator[str]:
    folders: Counter[str] = Counter()
    for job in pipeline.job:
        if isinstance(job, StreamingJob):
            folder = checkpoint_of(pipeline, job)
            folders[folder] += 1
            if not folder:
                yield f'job "{job.name}": no place for its checkpoint; set "checkpoint" at the top'
    for folder, times in folders.items():
        if folder and times > 1:
            yield f'checkpoint "{folder}": {times} jobs use it'


def _check_job(job: AnyJob) -> Iterator[str]:
    if isinstance(job, StreamingJob) and job.trigger != ONCE:
        yield from _check_value('key "trigger"', option_values.duration, job.trigger)
    match job:
        case Archive():
            yield from _check_input(job)
            yield from _check_archive(job)
        case Compact():
            yield from _check_value('key "size"', option_values.size, job.size)
            yield from _check_value('key "snapshot_age"', option_values.duration, job.snapshot_age)
            yield from _check_value('key "orphan_age"', option_values.duration, job.orphan_age)
        case Replay():
            yield from _check_replay(job)
        case Transform():
            yield from _check_transform(job)
        case Analytics():
            yield from _check_value('key "window"', option_values.duration, job.window)
            yield from _check_value('key "delay"', option_values.duration, job.delay)
            yield from _check_start(job.start)
        case DeadLetters():
            yield from _check_start(job.start)
            yield from _check_placeholders("subject", job.subject, ("stream", "consumer"))


def _check_archive(job: Archive) -> Iterator[str]:
    yield from _check_value('key "compact_size"', option_values.size, job.compact_size)
    if job.format == DELTA and job.compact_folders:
        yield 'key "compact_folders": a table of format delta has its own ways to merge files'
    if job.compact_folders == 1:
        yield 'key "compact_folders": at least 2, or 0 for never'
    if job.purge and job.format == DELTA:
        yield 'key "purge": only for parquet and iceberg tables, not for delta'
    if job.schema and job.format != ICEBERG:
        yield 'key "schema": only for iceberg tables'
    if job.dead_letters and not job.schema:
        yield 'key "dead_letters" without "schema"'
    if job.schema_message and not job.schema:
        yield 'key "schema_message" without "schema"'
    elif job.schema:
        yield from _check_payload(job)
    if job.retention and not job.purge:
        yield 'key "retention" without "purge"'
    elif job.retention:
        yield from _check_value('key "retention"', option_values.duration, job.retention)
    if job.purge_force and not job.purge:
        yield 'key "purge_force" without "purge"'


def _check_payload(job: Archive) -> Iterator[str]:
    from millstream.spark.jobs.typed_payload import typed_payload

    try:
        typed_payload(job.schema, job.schema_message)
    except JobError as error:
        yield str(error)


def _check_replay(job: Replay) -> Iterator[str]:
    if job.rate and job.speed:
        yield 'either "rate" or "speed", not both'
    if job.to_sequence and job.to_sequence < job.from_sequence:
        yield 'key "to_sequence": lower than "from_sequence"'
    for key in ("from_time", "to_time"):
        text = getattr(job, key)
        if text:
            yield from _check_value(
                f'key "{key}"', lambda name, value: option_values.moment(name, value, 0), text
            )
    yield from _check_placeholders("subject", job.subject, ("subject", "stream"))


def _check_transform(job: Transform) -> Iterator[str]:
    if bool(job.sql) == bool(job.python):
        yield 'either "sql" or "python", and only one of them'
    if job.python and not _FUNCTION.fullmatch(job.python):
        yield f'key "python": module:function is wanted, not "{job.python}"'
    if job.dead_letters and not any(one.json for one in job.input.values()):
        yield 'key "dead_letters": no input has "json", so no message can fail'
    for view, one in job.input.items():
        if not view.isidentifier():
            yield f'input "{view}": SQL needs a name of letters, digits and _'
        for problem in _check_input(one):
            yield f'input "{view}": {problem}'
    output = job.output
    if bool(output.subject) == bool(output.table):
        yield 'output: either "subject" or "table", and only one of them'
    if (output.guarantee == "fenced") != bool(output.fence_subject):
        yield 'output: guarantee = "fenced" and "fence_subject" belong together'
    if output.guarantee == "fenced" and output.mode != "append":
        yield 'output: guarantee = "fenced" needs mode = "append"'
    if output.subject and (output.partition_by or output.format != "parquet"):
        yield 'output: "format" and "partition_by" are for a table'
    if output.table and output.mode == "complete":
        yield 'output: mode = "complete" is for a stream; a table would get every row again with each batch'
    if output.table and output.guarantee != "dedupe":
        yield 'output: "guarantee" is for a stream; a table gets every row once'


def _check_input(job: Archive | Input) -> Iterator[str]:
    yield from _check_start(job.start)
    if job.start_time:
        if job.start != "earliest":
            yield 'either "start" or "start_time", not both'
        yield from _check_value(
            'key "start_time"', lambda name, value: option_values.moment(name, value, 0), job.start_time
        )
    if job.max_bytes:
        yield from _check_value('key "max_bytes"', option_values.size, job.max_bytes)
    if len(set(job.streams)) != len(job.streams):
        yield 'key "streams": a stream is named twice'
    if isinstance(job, Parsed) and job.watermark:
        try:
            split_watermark(job.watermark)
        except OptionError as error:
            yield f'key "watermark": {error}'


def _check_start(text: str) -> Iterator[str]:
    if not _START.fullmatch(text):
        yield f'key "start": earliest, latest, a sequence or -100 is wanted, not "{text}"'


def _check_placeholders(key: str, text: str, known: tuple[str, ...]) -> Iterator[str]:
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            words = " and ".join(f"{{{word}}}" for word in known)
            yield f'key "{key}": {{{name}}} is not known, only {words}'


def _check_value(what: str, parse: Callable[[str, str], object], text: str) -> Iterator[str]:
    try:
        parse(what, text)
    except OptionError as error:
        yield str(error).replace(f"option {what} is", f"{what}:").replace(f"option {what}", what)
