"""Read one range of a stream as record batches: connect, reconnect, check that it is complete.

Rows read before a connection broke are kept; the next reader continues after them.  A task succeeds only if
the range is known to be complete.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import (
    AuthorizationViolation,
    LinkApiError,
    LinkError,
    NoResponders,
    NotConnected,
    RequestTimeout,
)
from millstream.link.options import LinkOptions
from millstream.tables.columns import Columns
from millstream.tables.connections import borrowed_link, explain
from millstream.tables.errors import SourceUnavailable
from millstream.tables.intake import Intake
from millstream.tables.readers.arrow import ArrowBroken, ArrowReader, ArrowUnusable
from millstream.tables.readers.direct import DirectReader
from millstream.tables.readers.get import GetReader
from millstream.tables.readers.job import ReadJob
from millstream.tables.readers.loss import check_after, check_before
from millstream.tables.readers.pull import PullReader
from millstream.tables.stream_range import ARROW, DIRECT, GET, PULL, Fetching, StreamRange

logger: Final = logging.getLogger("millstream.tables")

_READERS: Final[dict[str, Callable[[ReadJob], PullReader | DirectReader | GetReader]]] = {
    PULL: PullReader,
    DIRECT: DirectReader,
    GET: GetReader,
}
_REFUSED_PAUSE_S: Final = 1.0  # times the failures so far: electing a leader takes seconds


def read_range(
    partition: StreamRange, connection: LinkOptions, fetching: Fetching, form: Any, name: str
) -> Iterator[Any]:
    """Yield all messages of a range in order, as batches of the Arrow schema `form`, or raise an error.

    `name` is the connection's name for monitoring.
    """
    columns = tuple(form.names)
    if partition.high < partition.low:
        return
    with_headers = fetching.include_headers
    try:
        with borrowed_link(connection, name) as link:
            if partition.transport == ARROW:
                arrow = ArrowReader(
                    link,
                    partition,
                    form,
                    with_headers=with_headers,
                    timeout_s=fetching.timeout,
                    fail=fetching.fail_on_data_loss,
                    hosts=fetching.arrow_hosts,
                )
                yield from _read_arrow(arrow, link, partition, fetching)
                if arrow.through >= partition.high:
                    return
                partition = replace(partition, low=arrow.through + 1, transport=partition.fallback)
            intake = _intake(partition, fetching, columns)
            yield from _read(ReadJob(link, partition, fetching, intake, form, with_data="data" in columns))
    except LinkError as error:
        raise explain(error, connection, partition.stream) from error


def _read_arrow(
    reader: ArrowReader, link: BlockingLink, partition: StreamRange, fetching: Fetching
) -> Iterator[Any]:
    """Yield the range, or as much as Arrow delivers if there is a fallback."""
    failures = 0
    while reader.through < partition.high:
        reached = reader.through
        if not link.connected:
            link.reconnect(fetching.timeout)
        try:
            yield from reader.batches()
        except ArrowUnusable as error:
            if not partition.fallback:
                raise SourceUnavailable(f"transport=arrow: {error}") from None
            logger.info("%s; stream %s is read over the wire", error, partition.stream)
            break
        except AuthorizationViolation:
            raise
        except (ArrowBroken, NotConnected, RequestTimeout) as error:
            failures = 1 if reader.through > reached else failures + 1
            broken = isinstance(error, ArrowBroken)
            if failures > fetching.retries:
                if not broken:
                    raise
                if not partition.fallback:
                    raise SourceUnavailable(f"stream {partition.stream} as Arrow: {error}") from error
                logger.warning("%s; stream %s is read over the wire", error, partition.stream)
                break
            logger.warning(
                "%s; reading of stream %s goes on behind %d", error, partition.stream, reader.through
            )
            if not broken:
                link.close()
    check_after(_asking(link), partition, partition.high, reader.gaps, fail=fetching.fail_on_data_loss)


def _read(job: ReadJob) -> Iterator[Any]:
    partition, fetching, intake = job.partition, job.fetching, job.intake
    reader = _READERS[partition.transport]
    failures = 0
    checked = False
    while True:
        reached = intake.last
        if not job.link.connected:
            job.link.reconnect(fetching.timeout)
        try:
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
        except (NotConnected, RequestTimeout, NoResponders, LinkApiError) as error:
            if isinstance(error, LinkApiError) and not error.may_pass:
                raise
            failures = 1 if intake.last > reached else failures + 1
            if failures > fetching.retries:
                raise
            logger.warning("%s; reading of stream %s goes on behind %d", error, partition.stream, intake.last)
            job.link.close()  # what is still on its way is for a reader that is gone
            if isinstance(error, NoResponders | LinkApiError):
                time.sleep(failures * _REFUSED_PAUSE_S)
    if intake.columns.rows:
        yield intake.flush(job.arrow_schema)


def _intake(partition: StreamRange, fetching: Fetching, columns: tuple[str, ...]) -> Intake:
    pulled = partition.transport == PULL
    patterns = () if pulled or len(partition.filters) < 2 else tuple(f.encode() for f in partition.filters)
    return Intake(
        Columns(columns, partition.stream, with_headers=fetching.include_headers),
        partition.low,
        partition.high,
        direct=partition.transport == DIRECT,
        sizes=pulled and "data" not in columns,
        patterns=patterns,
    )


def _asking(link: BlockingLink) -> Any:
    return lambda name, request=None: link.api(name, request or b"")
