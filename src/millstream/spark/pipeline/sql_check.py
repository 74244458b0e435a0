"""Check with Spark that SQL, schemas, functions and table formats of a pipeline are valid.

Each `transform` is planned as for a run, over streams that have the columns of messages but no rows: names,
types and functions are resolved, nothing is read or written.
"""

import re
from collections.abc import Iterator
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from millstream.base.errors import MillstreamError
from millstream.spark.jobs.context import explain, plain
from millstream.spark.jobs.errors import JobError, MissingFormat
from millstream.spark.jobs.inputs import require_format
from millstream.spark.jobs.payloads import VARIANT
from millstream.spark.jobs.settings import AnyJob, Parsed, Pipeline, Transform
from millstream.spark.jobs.transform import ANY_SUBJECT, planned, sink_rows
from millstream.spark.pipeline.check import format_of
from millstream.spark.schema import default_schema

_PLACE: Final = re.compile(r";?\s*\(?line (\d+),? pos (\d+)\)?;?")


def check_sql(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    """Return every reason why Spark would not run the jobs, as lines that name the job and the key."""
    return [
        f'job "{job.name}": {problem}'
        for job in pipeline.job
        for problem in _job_problems(job, spark.newSession())  # each job has its own views
    ]


def _job_problems(job: AnyJob, spark: SparkSession) -> Iterator[str]:
    try:
        require_format(spark, format_of(job))
    except MissingFormat as error:
        yield str(error)
    if isinstance(job, Transform):
        yield from _transform_problems(job, spark)


def _transform_problems(job: Transform, spark: SparkSession) -> Iterator[str]:
    wrong = [problem for view, one in job.input.items() for problem in _schema_problems(view, one)]
    if wrong:  # errors that follow from these say nothing new
        yield from wrong
        return
    try:
        result, _ = planned(spark, job.name, job, lambda wanted: _no_messages(spark))
        if job.output.subject:
            sink_rows(result, job.name, any_subject=job.output.subject == ANY_SUBJECT)
    except Exception as error:  # includes errors of the user's function
        key = "" if isinstance(error, JobError) else f'key "{"sql" if job.sql else "python"}": '
        yield f"{key}{reason(error)}"  # the text of a JobError names the key itself


def _schema_problems(view: str, one: Parsed) -> Iterator[str]:
    if not one.json or one.json.strip().lower() == VARIANT:
        return
    try:
        StructType.fromDDL(one.json)
    except Exception as error:
        yield f'input "{view}": key "json": {reason(error)}'


def _no_messages(spark: SparkSession) -> DataFrame:
    """Return an empty stream with the columns of messages."""
    columns = [
        f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in default_schema().fields
    ]
    return spark.readStream.format("rate").load().selectExpr(*columns)


def reason(error: Exception) -> str:
    """Return the error in one line: Spark's text without its numbers, and the position in the SQL."""
    if isinstance(error, MillstreamError) or not isinstance(error, PySparkException):
        return str(error).strip() if isinstance(error, MillstreamError) else explain(error)
    text = " ".join(str(error).strip().split("\n\n")[0].split("== SQL ==")[0].split())
    place = _PLACE.search(text)
    text = plain(text[: place.start()] if place else text).rstrip(".;")
    return f"{text} (line {place[1]}, column {int(place[2]) + 1})" if place else text
