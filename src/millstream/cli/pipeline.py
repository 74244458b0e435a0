"""`millstream pipeline`: run a file of Spark jobs, or check it.

Exit codes: 0 done or stopped by a signal, 1 a job failed or `verify` found a difference, 2 a wrong file.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from millstream.base.errors import MillstreamError

app = typer.Typer(
    help="Run jobs on Spark over streams: archive, replay, transform, analytics, dead letters, verify.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="The pipeline, in TOML.", metavar="FILE")]


@app.command()
def check(file: File) -> None:
    """Check a pipeline file without starting anything."""
    pipeline = _load(file, require_connection=False)
    typer.echo(f"{file}: {len(pipeline.job)} jobs, no problems")


@app.command()
def run(
    file: File,
    master: Annotated[str | None, typer.Option(help="Spark master, instead of the file's.")] = None,
    job: Annotated[list[str] | None, typer.Option(help="Only this job; may be given again.")] = None,
    once: Annotated[bool, typer.Option(help="End when all that is there now is done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Progress as JSON lines.")] = False,
) -> None:
    """Run the jobs of a pipeline file until they are done, or until Ctrl-C."""
    pipeline = _load(file, require_connection=True)
    pipeline = _chosen(pipeline, file, job or [], once)
    raise typer.Exit(_run(pipeline, file, master, as_json))


def _load(file: Path, *, require_connection: bool) -> Any:
    from millstream.spark.pipeline.check import check_pipeline
    from millstream.spark.pipeline.connection import ConnectionSettingsError, connection_options
    from millstream.spark.pipeline.load import PipelineError, load_pipeline

    try:
        pipeline = load_pipeline(file)
        problems = check_pipeline(pipeline)
        if require_connection or pipeline.nats.servers:
            try:
                connection_options(pipeline.nats, os.environ)
            except ConnectionSettingsError as error:
                problems.append(str(error))
        if problems:
            raise PipelineError(str(file), problems)
    except PipelineError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    return pipeline


def _chosen(pipeline: Any, file: Path, names: list[str], once: bool) -> Any:
    """The pipeline with the jobs that the flags leave in it."""
    from millstream.spark.jobs.settings import StreamingJob

    known = [job.name for job in pipeline.job]
    for name in names:
        if name not in known:
            typer.echo(f'{file}: there is no job "{name}"; there are {", ".join(known)}', err=True)
            raise typer.Exit(2)
    jobs = []
    for job in pipeline.job:
        if names and job.name not in names:
            continue
        changes: dict[str, Any] = {"after": [name for name in job.after if not names or name in names]}
        if once and isinstance(job, StreamingJob):
            changes["trigger"] = "once"
        jobs.append(msgspec.structs.replace(job, **changes))
    return msgspec.structs.replace(pipeline, job=jobs)


def _run(pipeline: Any, file: Path, master: str | None, as_json: bool) -> int:
    try:
        from millstream.spark.pipeline.runner import PipelineRun
        from millstream.spark.pipeline.session import make_session
    except ModuleNotFoundError as error:
        typer.echo(f"{error}; install what pipelines need with: pip install 'millstream[spark]'", err=True)
        return 1
    from millstream.spark import option_values
    from millstream.spark.pipeline.connection import connection_options
    from millstream.spark.pipeline.view import choose_view

    nats = connection_options(pipeline.nats, os.environ)
    try:
        spark = make_session(pipeline, master, file.parent)
    except MillstreamError as error:
        typer.echo(f"error: {error}", err=True)
        return 1
    try:
        running = PipelineRun(pipeline, spark, nats)
        interval_s = option_values.duration("interval", pipeline.progress.interval)
        view = choose_view(as_json=as_json, interval_s=interval_s, jobs=running.board.jobs)
        running.on_change = view.changed
        with _signals(running.stop):
            running.start()
            running.wait()
        view.close()
    except MillstreamError as error:
        typer.echo(f"error: {error}", err=True)
        return 1
    finally:
        spark.stop()
    for failure in running.failures:
        typer.echo(f'error: job "{failure.job}": {failure.text}', err=True)
    return 1 if running.failures else 0


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
