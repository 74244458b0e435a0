"""Publish rows one by one at their due time: the timed mode of replay.

Spark passes rows to a sink in batches of thousands, which cannot keep a rate or the original timing.  One
task publishes instead, in order, on its own connection, and waits for all acks.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.frames import header_block
from millstream.link.publish_window import Receipts
from millstream.spark.files import shipped
from millstream.spark.options import connection_of
from millstream.tables.connections import borrowed_link, explained
from millstream.tables.errors import SourceUnavailable

if TYPE_CHECKING:
    from pyarrow import RecordBatch

RESULT: Final = "rows long"
_EARLY_S: Final = 0.002  # send a message that is due within this time without waiting
_PATIENCE_S: Final = 30.0  # how long to wait for a server that is away
_MSG_ID: Final = "Nats-Msg-Id"


@dataclass(frozen=True, slots=True)
class Pace:
    """Computes when a row is due: from its number (`rate`) or from its own time (`speed`)."""

    begin: float  # when the first row was sent, seconds since 1970
    rate: float = 0.0  # rows per second
    sent: int = 0  # rows sent before these
    speed: float = 0.0  # factor by which replay is faster than the original
    first_time: float = 0.0  # original time of the first row, seconds since 1970

    def due(self, place: int, row_time: float) -> float:
        """Return when to send the row with this index, in seconds since 1970."""
        if self.rate:
            return self.begin + (self.sent + place) / self.rate
        return self.begin + (row_time - self.first_time) / self.speed


def publish_paced(
    batches: "Iterable[RecordBatch]", nats: Mapping[str, str], pace: Pace
) -> "Iterator[RecordBatch]":
    """Publish rows of `data, subject, headers, msg_id, time`; yield their number."""
    import pyarrow as pa

    options = connection_of(nats)
    rows = 0
    with explained(options), borrowed_link(shipped(options), "millstream-replay") as link:
        if not link.connected:
            link.reconnect(_PATIENCE_S)
        publisher = BlockingPublisher(link)
        try:
            for batch in batches:
                receipts = Receipts()
                for row in batch.to_pylist():
                    wait_s = pace.due(rows, row["time"].timestamp()) - time.time()
                    if wait_s > _EARLY_S:
                        publisher.flush()
                        time.sleep(wait_s)
                    publisher.publish(receipts, row["subject"].encode(), _headers(row), row["data"] or b"")
                    rows += 1
                publisher.settle(receipts)
                _check(receipts)
        finally:
            publisher.close()
    yield pa.RecordBatch.from_pydict({"rows": [rows]}, schema=pa.schema([("rows", pa.int64())]))


def _headers(row: Mapping[str, Any]) -> bytes:
    """Return the headers of a row and its id, as they are on the wire."""
    pairs = [(name, value) for name, values in row["headers"] for value in values]
    return header_block([(_MSG_ID, row["msg_id"]), *pairs])


def _check(receipts: Receipts) -> None:
    if receipts.errors:
        place, error = next(iter(receipts.errors.items()))
        raise SourceUnavailable(
            f"{len(receipts.errors)} messages were not stored, the first of them ({place}): {error}"
        )
