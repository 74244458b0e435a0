"""A range as Arrow from Millrace: the server builds the columns, over HTTP."""

from collections.abc import Iterator
from typing import Any

from millrace.spark.options import ConnectionOptions, Fetching
from millrace.spark.partitions import RangePartition
from millrace.wire.blocking import BlockingLink
from millrace.wire.errors import NoResponders


def arrow_offered(link: BlockingLink) -> bool:
    """Whether the server answers for ranges as Arrow; nats-server does not."""
    try:
        link.request("$MILLRACE.ARROW.INFO")
    except NoResponders:
        return False
    return True


def read_arrow(
    partition: RangePartition,
    connection: ConnectionOptions,
    fetching: Fetching,
    columns: tuple[str, ...],
    form: Any,
) -> Iterator[Any]:
    raise NotImplementedError
