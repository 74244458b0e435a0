"""``python -m benchmarks.profile_server WORKLOAD``: where a server spends its time under one workload.

Starts the server, records it with Linux perf while the workload runs over and over, and prints the
functions that cost most.  Compiled modules show up by their C names (``__pyx_f_...``).  With ``--port``
it only puts load on a server that already runs, for any other profiler (see ``README.md``).
"""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.servers import named, running
from benchmarks.wire import Address
from benchmarks.workloads import CORE, Target, Workload
from tests.kits.reference import ServerKind


def profile(
    workload: Annotated[str, typer.Argument(help="A workload of `python -m benchmarks core`.")],
    server: Annotated[
        str, typer.Option(help="nats-server, millstream, or the folder of another checkout of Millstream.")
    ] = ServerKind.MILLSTREAM,
    seconds: Annotated[float, typer.Option(min=1, help="How long.")] = 5.0,
    lines: Annotated[int, typer.Option(min=1, help="How many functions to print.")] = 40,
    keep: Annotated[Path | None, typer.Option(help="Keep perf's recording in this file.")] = None,
    port: Annotated[int | None, typer.Option(help="Only load the server on this local port.")] = None,
) -> None:
    chosen = next((one for one in CORE if one.name == workload), None)
    if chosen is None:
        raise typer.BadParameter(f"there are {', '.join(one.name for one in CORE)}")
    if port is not None:
        load(chosen, Target(Address("127.0.0.1", port)), seconds)
        return
    if shutil.which("perf") is None:
        raise typer.BadParameter("perf is not installed; use --port and another profiler")
    with tempfile.TemporaryDirectory() as folder, running(named(server)) as target:
        recording = keep or Path(folder, "perf.data")
        record(recording, chosen, target, seconds)
        show(recording, lines)


def load(workload: Workload, target: Target, seconds: float) -> None:
    """Run the workload again and again for about `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for suffix, figure in workload.run(target, 1.0).figures.items():
            typer.echo(f"{workload.title} {suffix}: {figure.value:,.0f} {figure.unit}")


def record(recording: Path, workload: Workload, target: Target, seconds: float) -> None:
    command = ["perf", "record", "-q", "-F", "999", "-g", "-o", str(recording), "-p", str(target.pid)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as perf:
        try:
            load(workload, target, seconds)
        finally:
            perf.send_signal(signal.SIGINT)


def show(recording: Path, lines: int) -> None:
    command = ["perf", "report", "--stdio", "--no-children", "-g", "none", "--percent-limit", "0.3"]
    report = subprocess.run(
        [*command, "-i", str(recording)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    rows = [line for line in report.stdout.splitlines() if line.strip() and not line.startswith("#")]
    typer.echo("\n".join(rows[:lines]))


if __name__ == "__main__":
    typer.run(profile)
