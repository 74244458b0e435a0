"""One range of a stream as record batches, in a task: connected, reconnected, checked to its end.

The rows that were read before a connection broke stay; the next reader goes on behind them.  A task ends well
only when the range is known to be complete.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.types import StructType

from millrace.spark.columns import Columns
from millrace.spark.connecting import borrowed_link, explain
from millrace.spark.intake import Intake
from millrace.spark.options import ConnectionOptions, Fetching
from millrace.spark.partitions import ARROW, DIRECT, GET, PULL, RangePartition
from millrace.spark.readers.direct import DirectReader
from millrace.spark.readers.get import GetReader
from millrace.spark.readers.job import Job
from millrace.spark.readers.loss import check_after, check_before
from millrace.spark.readers.pull import PullReader
from millrace.spark.schema import arrow_schema, chosen_columns, needs_data
from millrace.wire.blocking import BlockingLink
from millrace.wire.errors import AuthorizationViolation, NotConnected, RequestTimeout, WireError

logger: Final = logging.getLogger("millrace.spark")

_READERS: Final[dict[str, Callable[[Job], PullReader | DirectReader | GetReader]]] = {
    PULL: PullReader,
    DIRECT: DirectReader,
    GET: GetReader,
}


def read_range(
    partition: RangePartition, connection: ConnectionOptions, fetching: Fetching, schema: StructType
) -> Iterator[Any]:
    """The messages of a range, in order; all of them, or an error."""
    form = arrow_schema(schema)
    columns = chosen_columns(schema)
    if partition.high < partition.low:
        return
    if partition.transport == ARROW:
        from millrace.spark.readers.arrow import read_arrow

        yield from read_arrow(partition, connection, fetching, columns, form)
        return
    intake = _intake(partition, fetching, columns)
    try:
        with borrowed_link(connection, _name(partition)) as link:
            job = Job(link, partition, fetching, intake, form, with_data=needs_data(columns))
            yield from _read(job)
    except WireError as error:
        raise explain(error, connection, partition.stream) from error


def _read(job: Job) -> Iterator[Any]:
    partition, fetching, intake = job.partition, job.fetching, job.intake
    reader = _READERS[partition.transport]
    failures = 0
    checked = False
    while True:
        reached = intake.last
        try:
            if not job.link.connected:
                job.link.reconnect(fetching.timeout)
            if not checked:
                if not check_before(_asking(job.link), partition, fail=fetching.fail_on_data_loss):
                    return
                checked = True
            yield from reader(job).batches()
            check_after(
                _asking(job.link), partition, intake.last, intake.gaps, fail=fetching.fail_on_data_loss
            )
            break
        except AuthorizationViolation:
            raise
        except (NotConnected, RequestTimeout) as error:
            failures = 1 if intake.last > reached else failures + 1
            if failures > fetching.retries:
                raise
            logger.warning("%s; reading of stream %s goes on behind %d", error, partition.stream, intake.last)
            job.link.close()
    if intake.columns.rows:
        yield intake.flush(job.arrow_schema)


def _intake(partition: RangePartition, fetching: Fetching, columns: tuple[str, ...]) -> Intake:
    pulled = partition.transport == PULL
    patterns = () if pulled or len(partition.filters) < 2 else tuple(f.encode() for f in partition.filters)
    return Intake(
        Columns(columns, partition.stream, with_headers=fetching.include_headers),
        partition.low,
        partition.high,
        direct=partition.transport == DIRECT,
        sizes=pulled and not needs_data(columns),
        patterns=patterns,
    )


def _asking(link: BlockingLink) -> Any:
    return lambda name, request=None: link.api(name, request or b"")


def _name(partition: RangePartition) -> str:
    """What monitoring shows of the connection: which query, and which partition it was made for."""
    context = TaskContext.get()
    if context is None:
        return f"spark/{partition.stream}"
    query = context.getLocalProperty("sql.streaming.queryId") or "batch"
    return f"spark/{query}/{context.partitionId()}"
