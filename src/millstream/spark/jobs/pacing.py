"""Publish rows one by one, each when its time has come: the slow, timed half of replay.

Spark hands rows to a sink in batches of thousands, so a rate or the original timing cannot be kept there.
One task publishes instead, in order, on a connection of its own, and waits for all acknowledgements.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.headers import header_block
from millstream.link.publishing import Receipts
from millstream.spark.connecting import borrowed_link, explained
from millstream.spark.errors import SourceUnavailable
from millstream.spark.options import connection_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

RESULT: Final = "rows long"
_EARLY_S: Final = 0.002  # a message this early is sent rather than waited for
_PATIENCE_S: Final = 30.0  # for a server that is away
_MSG_ID: Final = "Nats-Msg-Id"


@dataclass(frozen=True, slots=True)
class Pace:
    """When a row is due: by its number (`rate`), or by its own time (`speed`)."""

    begin: float  # seconds since 1970 that the first row was sent at
    rate: float = 0.0  # rows per second
    sent: int = 0  # rows before these
    speed: float = 0.0  # how many times as fast as it was
    first_time: float = 0.0  # of the first row, seconds since 1970

    def due(self, place: int, row_time: float) -> float:
        """When to send the row at a place of these, in seconds since 1970."""
        if self.rate:
            return self.begin + (self.sent + place) / self.rate
        return self.begin + (row_time - self.first_time) / self.speed


def publish_paced(
    batches: "Iterable[RecordBatch]", nats: Mapping[str, str], pace: Pace
) -> "Iterator[RecordBatch]":
    """Publish rows of `data, subject, headers, msg_id, time`; yields how many."""
    import pyarrow as pa

    options = connection_of(nats)
    rows = 0
    with explained(options), borrowed_link(options, "millstream-replay") as link:
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
