"""Queries in their own processes, and a stream and a bucket to ask."""

import asyncio
import itertools
import json
from typing import Any, Final

import nats

from millstream.queries.formats import rows_of, unique_names
from millstream.queries.limits import SqlLimits
from millstream.queries.process import RunningQuery
from millstream.queries.statistics import QueryStatistics
from millstream.queries.table_access import TableAccess
from millstream.tables.source import TableSource
from millstream.tables.table import connection_to
from tests.kits.patience import PATIENCE_S

# A busy machine answers late: the time-outs of users would fail a test by chance.
PATIENT: Final[dict[str, Any]] = {"connect_timeout_s": PATIENCE_S, "request_timeout_s": PATIENCE_S}
_numbers = itertools.count(1)
ITEMS = ("apple", "pear", "plum")


def new_name() -> str:
    """Return the name of a stream or bucket that nobody has used; its subjects are `<name>.>`."""
    return f"SQL{next(_numbers)}"


def fill(url: str, stream: str, payloads: list[bytes] | None = None, count: int = 30, **user: str) -> None:
    """Make a stream with orders of two places, or with these payloads on `<stream>.eu`."""

    async def work() -> None:
        async with await nats.connect(url, **user) as connection:
            jetstream = connection.jetstream(timeout=PATIENCE_S)
            await jetstream.add_stream(name=stream, subjects=[f"{stream}.>"])
            for n in range(count if payloads is None else len(payloads)):
                subject = f"{stream}.{'us' if payloads is None and n % 3 == 0 else 'eu'}"
                order = json.dumps({"item": ITEMS[n % 3], "n": n}).encode()
                await jetstream.publish(
                    subject, order if payloads is None else payloads[n], headers={"Place": subject[-2:]}
                )

    asyncio.run(work())


def source_of(url: str, **options: Any) -> TableSource:
    return TableSource(connection_to(url, PATIENT | options), name="test")


def ask(url: str, query: str, **limits: Any) -> list[dict[str, Any]]:
    """Return the rows of a query in its own process."""
    return ask_with_statistics(source_of(url), query, **limits)[0]


def ask_with_statistics(
    source: TableSource, query: str, *, tables: TableAccess | None = None, **limits: Any
) -> tuple[list[dict[str, Any]], QueryStatistics]:
    allowed = SqlLimits(**({"time_s": PATIENCE_S} | limits))
    with RunningQuery(query, source, allowed, tables=tables) as running:
        batches = running.batches()
        schema = next(batches)
        names = unique_names(schema)
        rows = [row for batch in batches for row in rows_of(batch, names)]
    source.close()
    return rows, running.statistics
