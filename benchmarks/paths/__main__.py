"""Operations beside the measured paths, at two sizes: ``python -m benchmarks.paths [NAME…]``.

Prints operations a second (or a cost) of both servers, the ratio (above 1 is better for Millstream), how each
figure changed since the first size (below 1: it fell; ours / theirs), and the processor time that the server
took for an operation.  Each workload runs on fresh servers, ours and nats-server in turns.
"""

import fnmatch
import json
import statistics
import sys
import time
import traceback
from pathlib import Path as FilePath
from typing import Annotated, Any

import typer

from benchmarks.paths import (  # noqa: F401
    connections,
    consuming,
    copies,
    keys,
    publishing,
    reading,
    removing,
    routing,
    services,
)
from benchmarks.paths.run import PATHS, Figure, Path, Run
from tests.kits.reference import ServerKind, ServerProcess

Found = dict[str, list[tuple[Figure, Figure]]]


def measure(path: Path, kind: ServerKind, size: int) -> dict[str, Figure]:
    """Run one workload on a fresh server."""
    text = path.config if isinstance(path.config, str) else path.config()
    config = f"jetstream {{}}\n{text}" if text else None
    with ServerProcess(kind, jetstream=True, config=config) as server:
        run = Run(server, size)
        try:
            path.work(run)
        finally:
            run.close()
        return run.figures


def line(name: str, pairs: list[tuple[Figure, Figure]], first: list[tuple[Figure, Figure]] | None) -> str:
    """One row: medians of both, the ratio of the medians, growth since the first size, processor time."""
    ours, theirs = (statistics.median(pair[side].value for pair in pairs) for side in (0, 1))
    is_cost = pairs[0][0].is_cost
    ratio = theirs / ours if is_cost else ours / theirs
    used, used_by_theirs = (statistics.median(pair[side].processor_us for pair in pairs) for side in (0, 1))
    growth = ""
    if first:
        before, before_theirs = (statistics.median(pair[side].value for pair in first) for side in (0, 1))
        growth = f"{ours / before:.2f} / {theirs / before_theirs:.2f}"
    processor = f"{used:,.1f} / {used_by_theirs:,.1f}" if used or used_by_theirs else ""
    return f"{name:58} {ours:11,.1f} {theirs:11,.1f} {ratio:6.2f}   {growth:14} {processor}"


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Which, as patterns.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each.")] = 1,
    sizes: Annotated[list[int] | None, typer.Option(help="Other sizes.")] = None,
    keep: Annotated[
        FilePath | None, typer.Option(help="Append figures to this file, a JSON line each.")
    ] = None,
) -> None:
    """Measure and print."""
    chosen = [each for each in PATHS if not names or any(fnmatch.fnmatch(each.name, one) for one in names)]
    typer.echo(f"{'':58} {'ours':>11} {'nats':>11}  ratio   growth         processor us")
    for each in chosen:
        first: Found = {}
        for size in sizes or each.sizes:
            found: Found = {}
            try:
                for _ in range(rounds):
                    one = measure(each, ServerKind.MILLSTREAM, size)
                    other = measure(each, ServerKind.NATS_SERVER, size)
                    for name in one:
                        found.setdefault(name, []).append((one[name], other[name]))
            except Exception:
                typer.echo(f"{each.name} {size}: " + traceback.format_exc(limit=-3))
                continue
            for name, pairs in found.items():
                typer.echo(line(f"{each.name} {size:,}: {name}", pairs, first.get(name)))
                if keep is not None:
                    _keep(keep, each.name, size, name, pairs)
            first = first or found
            sys.stdout.flush()


def _keep(file: FilePath, path: str, size: int, name: str, pairs: list[tuple[Figure, Figure]]) -> None:
    row: dict[str, Any] = {"path": path, "size": size, "figure": name, "at": time.time()}
    row["ours"], row["theirs"] = ([pair[side].value for pair in pairs] for side in (0, 1))
    row["is_cost"] = pairs[0][0].is_cost
    row["cpu"], row["cpu_theirs"] = ([pair[side].processor_us for pair in pairs] for side in (0, 1))
    with file.open("a") as out:
        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    typer.run(main)
