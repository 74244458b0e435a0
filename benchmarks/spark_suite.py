"""`python -m benchmarks spark`: servers, streams, one Spark session, and all its rows in turn."""

import importlib.metadata
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final

from benchmarks import machine, servers, spark_batches, spark_reading, spark_writing
from benchmarks.contest import Entrant, Result, hold
from benchmarks.spark_report import About
from benchmarks.spark_session import SETTINGS, Spark, started
from benchmarks.spark_streams import HEADED, PLAIN, Site, fill, site
from tests.kits.reference import ServerKind

GROUPS: Final = ("reading", "sink", "batches")
_MESSAGES: Final = 2_000_000
_WRITTEN: Final = 500_000
_SMALLEST: Final = 20_000  # the backlog of micro-batches, and whole batches everywhere
_BATCH_ROUNDS: Final = 3


def measure(
    *, rounds: int, scale: float, only: Sequence[str], progress: Callable[[str], None]
) -> tuple[About, list[Result]]:
    """Measure the groups; `only` are groups, or words that names of rows must contain."""
    described = machine.describe()
    count = max(_SMALLEST, int(_MESSAGES * scale) // 10_000 * 10_000)
    results: list[Result] = []
    with ExitStack() as stack:
        sites = [stack.enter_context(site(kind)) for kind in (ServerKind.MILLSTREAM, ServerKind.NATS_SERVER)]
        for each in sites:
            for stream in (PLAIN, HEADED):
                progress(f"{each.kind}: {count:,} messages")
                fill(each, stream, count)
        spark = stack.enter_context(started())
        for group in GROUPS:
            chosen = _chosen(group, _entrants(group, spark, sites, count, scale), only)
            turns = min(rounds, _BATCH_ROUNDS) if group == "batches" else rounds
            results += hold(chosen, turns, progress)
    about = About(
        what="Spark",
        versions=_versions(),
        settings=SETTINGS,
        machine=described,
        rounds=rounds,
        messages=count,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return about, results


def _entrants(group: str, spark: Spark, sites: list[Site], count: int, scale: float) -> list[Entrant]:
    match group:
        case "reading":
            return spark_reading.entrants(spark, sites, count)
        case "sink":
            written = max(_SMALLEST, int(_WRITTEN * scale) // 10_000 * 10_000)
            return spark_writing.entrants(spark, sites, written)
    return spark_batches.entrants(spark, sites)


def _chosen(group: str, rows: list[Entrant], only: Sequence[str]) -> list[Entrant]:
    """Rows of a group that was asked for, or with one of the words in their names, and those beside them."""
    if not only or group in only:
        return rows
    words = [word for word in only if word not in GROUPS]
    wanted = [each for each in rows if any(word in each.name for word in words)]
    bases = {each.base for each in wanted}
    return [each for each in rows if each in wanted or each.name in bases]


def _versions() -> str:
    packages = (f"{name} {importlib.metadata.version(name)}" for name in ("pyspark", "pyarrow"))
    kinds = (servers.identity(kind) for kind in (ServerKind.MILLSTREAM, ServerKind.NATS_SERVER))
    return ", ".join([*kinds, *packages])
