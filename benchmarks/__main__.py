"""``python -m benchmarks``: see ``README.md``."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import machine, report, servers
from benchmarks.compare import Row, compare
from benchmarks.crew import CrewError
from benchmarks.workloads import CORE
from millrace.testing.reference import ServerKind, ServerProcessError

application = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@application.callback()
def benchmarks() -> None:
    """Measure Millrace beside nats-server, in the same minutes on the same machine."""


@application.command()
def core(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds on each server.")] = 9,
    scale: Annotated[float, typer.Option(min=0.001, help="Multiply the messages of every round.")] = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Three rounds of a quarter of the size.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this workload; may be repeated.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
    ours: Annotated[ServerKind, typer.Option(help="What to measure.")] = ServerKind.MILLRACE,
    theirs: Annotated[ServerKind, typer.Option(help="What to compare with.")] = ServerKind.NATS_SERVER,
) -> None:
    """Publish, subscribe and request/reply."""
    names = [workload.name for workload in CORE]
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise typer.BadParameter(f"no workload {', '.join(unknown)}; there are {', '.join(names)}")
    if quick:
        rounds, scale = 3, scale / 4
    console = Console(width=None if Console().is_terminal else 160)
    described = machine.describe()
    rows: list[Row] = []
    failures: dict[str, str] = {}
    with console.status("starting") as status:
        identities = servers.identity(ours), servers.identity(theirs)
        for workload in CORE:
            if only and workload.name not in only:
                continue
            try:
                rows += compare(workload, ours, theirs, rounds=rounds, scale=scale, progress=status.update)
            except (CrewError, ServerProcessError) as error:
                failures[workload.name] = str(error)
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
