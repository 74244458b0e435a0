"""Check a pipeline against the server: reachable, credentials accepted, streams present.

Runs before Spark is started: a missing stream would otherwise end a job only after half a minute.
"""

from collections.abc import Iterator, Mapping

from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.settings import (
    Analytics,
    AnyJob,
    Archive,
    DeadLetters,
    Pipeline,
    Redrive,
    Replay,
    Transform,
    Verify,
)
from millstream.tables.errors import StreamAccessError, StreamMissing

ANY_SUBJECT = "*"


def check_server(pipeline: Pipeline, nats: Mapping[str, str]) -> list[str]:
    """Return every reason why the server cannot serve this pipeline; only one if it is unreachable."""
    problems: list[str] = []
    with StreamAdmin(nats, f"{pipeline.name}/check", patience_s=0) as admin:
        try:
            admin.check()
        except StreamAccessError as error:
            return [str(error)]
        for job in pipeline.job:
            problems += [f'job "{job.name}": {problem}' for problem in _job_problems(job, admin)]
    return problems


def _job_problems(job: AnyJob, admin: StreamAdmin) -> Iterator[str]:
    for stream in dict.fromkeys(_streams(job)):
        try:
            admin.facts(stream)
        except StreamMissing as error:
            yield str(error)
    for key, subject in _subjects(job):
        if not admin.stream_of(subject):
            yield f'key "{key}": no stream takes the subject {subject}; create one, or add the subject to one'


def _streams(job: AnyJob) -> Iterator[str]:
    """Yield the streams that must exist when the job starts."""
    match job:
        case Archive() | Verify():
            yield from job.streams
        case Transform():
            for one in job.input.values():
                yield from one.streams
        case Analytics() | DeadLetters() | Redrive():
            yield job.stream
        case Replay():
            yield job.target


def _subjects(job: AnyJob) -> Iterator[tuple[str, str]]:
    """Yield keys and fixed subjects that the job publishes to."""
    if isinstance(job, Transform):
        if job.output.subject and job.output.subject != ANY_SUBJECT:
            yield "subject", job.output.subject
        if job.dead_letters:
            yield "dead_letters", job.dead_letters
    elif isinstance(job, Archive):
        if job.dead_letters:
            yield "dead_letters", job.dead_letters
    elif isinstance(job, DeadLetters | Replay | Redrive) and "{" not in job.subject:
        yield "subject", job.subject
