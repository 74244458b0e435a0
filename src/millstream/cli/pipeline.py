"""`millstream pipeline`: run a file of Spark jobs, or check it.

Both make cheap checks first: of the file, then of the server, then with Spark.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from millstream.cli.endings import FAILED, UsageError, need, tell

PACKAGES: Final = ("pandas", "pyarrow", "pyspark")  # of the extra

app = typer.Typer(
    help="Run jobs on Spark over streams: archive, replay, transform, analytics, dead letters, verify.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,  # completion belongs to the whole command, not to this group
)

File = Annotated[Path, typer.Argument(help="The pipeline, in TOML.", metavar="FILE", show_default=False)]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--spark-log",
        metavar="FILE",
        help="Where the output of Spark goes; a temporary file, which is kept if a job fails, if not given.",
    ),
]


@app.command()
def check(file: File, spark_log: LogFile = None) -> None:
    """Find problems of a pipeline: file, server and SQL.

    Nothing is read or written. The server is asked if the file or NATS_URL names one. Spark is started only
    for the SQL and the schemas of `transform` jobs.
    """
    from millstream.spark.pipeline.check import needs_spark
    from millstream.spark.pipeline.server_check import check_server

    source = _Source.read(file)
    wrong = 0
    nats = source.connection(required=False)
    if nats is None:
        tell(f"{file}: the server was not asked: the file has no [nats] servers, and NATS_URL is not set")
    else:
        wrong += source.report(check_server(source.pipeline, nats))
    if needs_spark(source.pipeline):
        wrong += source.report(_sql_problems(source, spark_log))
    if wrong:
        raise typer.Exit(FAILED)
    typer.echo(f"{file}: {len(source.pipeline.job)} jobs, no problems")


@app.command()
def run(
    file: File,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master, instead of the file's.")
    ] = None,
    job: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this job; may be given again.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there now is done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Progress as JSON lines.")] = False,
    spark_log: LogFile = None,
) -> None:
    """Run the jobs of a pipeline file until their end, or Ctrl-C."""
    from millstream.spark.pipeline.server_check import check_server

    source = _Source.read(file)
    source.pipeline = _chosen(source.pipeline, file, job or [], once)
    nats = source.connection(required=True)
    assert nats is not None
    _require_spark()
    source.refuse(check_server(source.pipeline, nats))
    raise typer.Exit(_run(source, nats, master, as_json, spark_log))


class _Source:
    """A pipeline and its file, which is named in its problems."""

    def __init__(self, file: Path, text: str, pipeline: Any) -> None:
        self.file = file
        self.pipeline = pipeline
        self._text = text

    @classmethod
    def read(cls, file: Path) -> "_Source":
        """Read and check the file; raises PipelineError with all its problems."""
        from millstream.spark.pipeline.check import check_pipeline
        from millstream.spark.pipeline.load import load_pipeline, read_text

        source = cls(file, read_text(file), load_pipeline(file))
        source.refuse(check_pipeline(source.pipeline))
        return source

    def connection(self, *, required: bool) -> dict[str, str] | None:
        """Return the options of the connection; None if no server is named and none is required."""
        from millstream.spark.pipeline.connection import ConnectionSettingsError, connection_options

        try:
            found = connection_options(self.pipeline.nats, os.environ)
        except ConnectionSettingsError as error:
            self.refuse([str(error)])
            raise
        if found is None and required:
            self.refuse(['[nats] key "servers" is missing, and so is NATS_URL'])
        return found

    def refuse(self, problems: list[str]) -> None:
        """Raise PipelineError if there are problems."""
        from millstream.spark.pipeline.load import PipelineError

        if problems:
            raise PipelineError(str(self.file), problems, self._text)

    def report(self, problems: list[str]) -> int:
        """Print the problems, and return their number."""
        from millstream.spark.pipeline.load import PipelineError

        if problems:
            tell(str(PipelineError(str(self.file), problems, self._text)))
        return len(problems)


def _chosen(pipeline: Any, file: Path, names: list[str], once: bool) -> Any:
    """Return the pipeline with the jobs that the flags select."""
    from millstream.spark.jobs.settings import StreamingJob

    known = [job.name for job in pipeline.job]
    for name in names:
        if name not in known:
            raise UsageError(f'{file}: there is no job "{name}"; there are {", ".join(known)}')
    jobs = []
    for job in pipeline.job:
        if names and job.name not in names:
            continue
        changes: dict[str, Any] = {"after": [name for name in job.after if not names or name in names]}
        if once and isinstance(job, StreamingJob):
            changes["trigger"] = "once"
        jobs.append(msgspec.structs.replace(job, **changes))
    return msgspec.structs.replace(pipeline, job=jobs)


def _require_spark() -> None:
    """Check the requirements of Spark early; raises MissingExtra or JavaMissing."""
    need("spark", *PACKAGES)
    from millstream.spark.pipeline.session import require_java

    require_java()


@contextlib.contextmanager
def _spark(source: _Source, master: str | None, log: Any, purpose: str) -> Iterator[Any]:
    """Return a Spark session for the pipeline, whose output goes to `log`."""
    from millstream.spark.pipeline.session import make_session

    print(f"starting Spark{purpose}, which takes a while; its output goes to {log.path}", file=sys.stderr)
    session = make_session(source.pipeline, master, source.file.parent, log)
    try:
        yield session
    finally:
        session.stop()


def _sql_problems(source: _Source, spark_log: Path | None) -> list[str]:
    _require_spark()
    from millstream.spark.pipeline.spark_log import SparkLog
    from millstream.spark.pipeline.sql_check import check_sql

    with SparkLog(spark_log) as log, _spark(source, "local[1]", log, " to check the SQL") as session:
        return check_sql(source.pipeline, session)


def _run(
    source: _Source, nats: dict[str, str], master: str | None, as_json: bool, spark_log: Path | None
) -> int:
    from millstream.spark import option_values
    from millstream.spark.pipeline.runner import PipelineRun
    from millstream.spark.pipeline.spark_log import SparkLog
    from millstream.spark.pipeline.sql_check import check_sql
    from millstream.spark.pipeline.view import choose_view

    pipeline = source.pipeline
    with SparkLog(spark_log) as log:
        with _spark(source, master, log, "") as session:
            source.refuse(check_sql(pipeline, session))
            running = PipelineRun(pipeline, session, nats)
            interval_s = option_values.duration("interval", pipeline.progress.interval)
            view = choose_view(as_json=as_json, interval_s=interval_s, jobs=running.board.jobs)
            running.on_change = view.changed
            with _signals(running.stop):
                running.start()
                running.wait()
            view.close()
        log.is_wanted = bool(running.failures)
        where = f"output of Spark: {log.path}"
        source.report([f'job "{one.job}": {one.text} ({where})' for one in running.failures])
    return FAILED if running.failures else 0


class _signals:
    """Call a function at SIGINT and SIGTERM; a second signal ends the process at once."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._before: dict[int, Any] = {}
        self._asked = False

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if self._asked:
            os._exit(128 + number)
        self._asked = True
        print("stopping; once more to end at once", file=sys.stderr)
        self._act()
