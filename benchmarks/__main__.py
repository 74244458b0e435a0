"""``python -m benchmarks``: see ``README.md``."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import machine, report, servers
from benchmarks.compare import Row, compare
from benchmarks.consumer_workloads import CONSUMERS
from benchmarks.crew import CrewError
from benchmarks.gateway_workloads import GATEWAY, HTTP_SERVERS, compare_servers
from benchmarks.stream_compare import compare_publishing, compare_store
from benchmarks.stream_snapshots import SNAPSHOTS
from benchmarks.stream_store import STORE, StoreWorkload
from benchmarks.stream_workloads import STREAMS, StreamWorkload
from benchmarks.wire import WireError
from benchmarks.workloads import CORE, Workload
from tests.kits.reference import Server, ServerKind, ServerProcessError

application = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@application.callback()
def benchmarks() -> None:
    """Measure Millstream beside nats-server, in the same minutes on the same machine."""


Rounds = Annotated[int, typer.Option(min=1, help="Rounds on each server.")]
Scale = Annotated[float, typer.Option(min=0.001, help="Multiply the messages of every round.")]
Quick = Annotated[bool, typer.Option("--quick", help="Three rounds of a quarter of the size.")]
Only = Annotated[list[str] | None, typer.Option(help="Only this workload; may be repeated.")]
Json = Annotated[Path | None, typer.Option(help="Also write the figures to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write a table for README.md to this file.")]
SERVERS = "nats-server, millstream, or the folder of another checkout of Millstream."
Ours = Annotated[str, typer.Option(metavar="SERVER", help=f"The server to measure: {SERVERS}")]
Theirs = Annotated[str, typer.Option(metavar="SERVER", help=f"The server to compare with: {SERVERS}")]

# From (rounds, scale, progress) to rows.
Measure = Callable[[int, float, Callable[[str], None]], list[Row]]


@application.command()
def core(
    rounds: Rounds = 9,
    scale: Scale = 1.0,
    quick: Quick = False,
    only: Only = None,
    json: Json = None,
    ours: Ours = ServerKind.MILLSTREAM,
    theirs: Theirs = ServerKind.NATS_SERVER,
) -> None:
    """Publish, subscribe and request/reply."""
    sides = named(ours, theirs)

    def measure(each: Workload) -> Measure:
        return lambda rounds, scale, progress: compare(
            each, *sides, rounds=rounds, scale=scale, progress=progress
        )

    if quick:
        rounds, scale = 3, scale / 4
    suite = {each.name: measure(each) for each in CORE}
    run(suite, rounds=rounds, scale=scale, only=only, json=json, sides=sides)


@application.command()
def streams(
    rounds: Rounds = 7,
    scale: Scale = 1.0,
    quick: Quick = False,
    only: Only = None,
    json: Json = None,
    ours: Ours = ServerKind.MILLSTREAM,
    theirs: Theirs = ServerKind.NATS_SERVER,
) -> None:
    """Publishing into streams, what they cost in memory and on disk, and restarting with them."""
    sides = named(ours, theirs)

    def measure(each: StreamWorkload) -> Measure:
        return lambda rounds, scale, progress: compare_publishing(
            each, *sides, rounds=rounds, scale=scale, progress=progress
        )

    if quick:
        rounds, scale = 3, scale / 4
    suite = {each.workload.name: measure(each) for each in STREAMS}
    suite |= store_suite(STORE, sides)
    run(suite, rounds=rounds, scale=scale, only=only, json=json, sides=sides)


@application.command()
def consumers(
    rounds: Rounds = 7,
    scale: Scale = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Three rounds of a tenth of the size.")] = False,
    only: Only = None,
    json: Json = None,
    ours: Ours = ServerKind.MILLSTREAM,
    theirs: Theirs = ServerKind.NATS_SERVER,
) -> None:
    """Reading streams through consumers, many idle consumers, and restarting with them."""
    sides = named(ours, theirs)
    if quick:
        rounds, scale = 3, scale / 10
    suite = store_suite(CONSUMERS, sides)
    run(suite, rounds=rounds, scale=scale, only=only, json=json, sides=sides)


@application.command()
def snapshots(
    rounds: Rounds = 5,
    scale: Scale = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Three rounds of a tenth of the size.")] = False,
    only: Only = None,
    json: Json = None,
    ours: Ours = ServerKind.MILLSTREAM,
    theirs: Theirs = ServerKind.NATS_SERVER,
) -> None:
    """Taking a stream out of a server and putting it into another: time, size, memory."""
    sides = named(ours, theirs)
    if quick:
        rounds, scale = 3, scale / 10
    suite = store_suite(SNAPSHOTS, sides)
    run(suite, rounds=rounds, scale=scale, only=only, json=json, sides=sides)


@application.command()
def gateway(
    rounds: Rounds = 5,
    scale: Scale = 1.0,
    quick: Quick = False,
    only: Only = None,
    json: Json = None,
    ours: Ours = ServerKind.MILLSTREAM,
    theirs: Theirs = ServerKind.NATS_SERVER,
) -> None:
    """Publishing and reading over HTTP, in front of each server; and on other HTTP servers."""
    sides = named(ours, theirs)

    def measure(row: str) -> Measure:
        return lambda rounds, scale, progress: compare_servers(
            row, sides[0], rounds=min(rounds, 3), scale=scale, progress=progress
        )

    if quick:
        rounds, scale = 3, scale / 4
    suite = store_suite(GATEWAY, sides) | {row: measure(row) for row in HTTP_SERVERS}
    run(suite, rounds=rounds, scale=scale, only=only, json=json, sides=sides)


@application.command()
def spark(
    rounds: Rounds = 5,
    scale: Scale = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Three rounds of a twentieth of the size.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="reading, sink or batches, or a part of rows' names; may be repeated."),
    ] = None,
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """Streams into Spark and out of it, beside plain Python and nats-py: about twenty minutes."""
    from benchmarks import spark_report, spark_suite

    if quick:
        rounds, scale = 3, scale / 20
    console = wide_console()
    with console.status("starting") as status:
        about, results = spark_suite.measure(
            rounds=rounds, scale=scale, only=only or (), progress=status.update
        )
    spark_report.show(console, about, results)
    if json is not None:
        spark_report.write_json(json, about, results)
    if markdown is not None:
        markdown.write_text(spark_report.markdown(about, results))


@application.command("spark-archive")
def spark_archive(
    messages: Annotated[int, typer.Option(min=1000, help="Messages in the stream.")] = 1_000_000,
    batch: Annotated[int, typer.Option(min=1000, help="Messages in a micro-batch.")] = 100_000,
    format: Annotated[str, typer.Option(help="Format of the table: parquet or iceberg.")] = "parquet",
    json: Json = None,
    markdown: Markdown = None,
) -> None:
    """A stream into a table by `millstream pipeline run`, and the memory that all its processes take."""
    from benchmarks import spark_archive as archive

    console = wide_console()
    with console.status("starting") as status:
        outcome = archive.measure(messages, batch, format, status.update)
    console.print(archive.markdown(outcome), markup=False, highlight=False)
    if json is not None:
        archive.write_json(json, outcome)
    if markdown is not None:
        markdown.write_text(archive.markdown(outcome))


@application.command()
def publishers(
    server: Annotated[ServerKind, typer.Option(help="Into which.")] = ServerKind.MILLSTREAM,
    messages: Annotated[int, typer.Option(min=10_000, help="Messages of a round.")] = 100_000,
    rounds: Rounds = 5,
) -> None:
    """Publishing into a stream: nats-py, the lean client, and the Spark sink without Spark."""
    from benchmarks import publishers as module

    module.compare(server, messages, rounds, wide_console())


@application.command()
def arrow(
    rounds: Rounds = 5,
    messages: Annotated[int, typer.Option(min=10_000, help="Messages in a stream.")] = 1_000_000,
) -> None:
    """Reading a stream as Arrow without Spark, and what it costs those who publish meanwhile."""
    from benchmarks import arrow_range

    arrow_range.compare(rounds, messages, wide_console())


def wide_console() -> Console:
    return Console(width=None if Console().is_terminal else 160)


def named(ours: str, theirs: str) -> tuple[Server, Server]:
    """Return the two servers of a command line."""
    try:
        return servers.named(ours), servers.named(theirs)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def store_suite(workloads: Sequence[StoreWorkload], sides: tuple[Server, Server]) -> dict[str, Measure]:
    """The servers of workloads that start them themselves."""

    def measure(each: StoreWorkload) -> Measure:
        return lambda rounds, scale, progress: compare_store(
            each, *sides, rounds=min(rounds, each.most_rounds), scale=scale, progress=progress
        )

    return {each.name: measure(each) for each in workloads}


def run(
    suite: dict[str, Measure],
    *,
    rounds: int,
    scale: float,
    only: list[str] | None,
    json: Path | None,
    sides: tuple[Server, Server],
) -> None:
    """Measure the workloads of a suite and show what came out."""
    unknown = sorted(set(only or ()) - set(suite))
    if unknown:
        raise typer.BadParameter(f"no workload {', '.join(unknown)}; there are {', '.join(suite)}")
    console = wide_console()
    described = machine.describe()
    rows: list[Row] = []
    failures: dict[str, str] = {}
    with console.status("starting") as status:
        identities = [servers.identity(side) for side in sides]
        for name, measure in suite.items():
            if only and name not in only:
                continue
            try:
                rows += measure(rounds, scale, status.update)
            except (CrewError, ServerProcessError, WireError) as error:
                failures[name] = str(error)
    heading = report.Heading(
        ours=identities[0],
        theirs=identities[1],
        machine=described,
        rounds=rounds,
        scale=scale,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    report.show(console, heading, rows, failures)
    if json is not None:
        report.write_json(json, heading, rows, failures)
    if failures:
        raise typer.Exit(1)


application(prog_name="python -m benchmarks")
