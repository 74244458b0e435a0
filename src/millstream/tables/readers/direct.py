"""Read a range by batched direct gets: without a consumer, so nothing on the server changes.

Makes one request at a time: the server pushes its response without flow control, so its size in bytes is
limited to keep us from being disconnected as too slow.  A direct get takes one filter; with several, all
messages are sent and the intake drops the others.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from millstream.base.ids import nuid
from millstream.tables.errors import StreamAccessError
from millstream.tables.readers.job import ReadJob, WireReader, is_finished

_MOST: Final = 1_000  # messages of one request; more gained nothing in measurements
_END_OF_BATCH: Final = 204
_NOT_FOUND: Final = 404
_NOBODY: Final = 503


class DirectReader(WireReader):
    """Reads one range."""

    def __init__(self, job: ReadJob) -> None:
        super().__init__(job)
        self._inbox = f"{job.link.inbox}-{nuid()}"
        self._sent = 0

    def batches(self) -> Iterator[Any]:
        """Yield full record batches; the rows of the last one stay in the intake."""
        self._sid = self._link.subscribe(f"{self._inbox}.*")
        self._again()
        yield from self._read()
        self._link.unsubscribe(self._sid)

    def _again(self) -> None:
        partition, fetching = self._job.partition, self._job.fetching
        first = self._intake.last + 1
        body: dict[str, Any] = {
            "seq": first,
            "batch": min(_MOST, fetching.batch, partition.high - first + 1),
            "max_bytes": fetching.max_bytes,
        }
        if len(partition.filters) == 1:
            body["next_by_subj"] = partition.filters[0]
        self._sent += 1
        self._link.publish(
            f"{self._link.options.api}.DIRECT.GET.{partition.stream}",
            msgspec.json.encode(body),
            reply=f"{self._inbox}.{self._sent}",
        )

    def _take_status(self) -> bool:
        parser = self._link.parser
        status = parser.status()
        if parser.subject().decode() != f"{self._inbox}.{self._sent}":
            return False
        if status == _NOT_FOUND or (status == _NOBODY and parser.payload_size == 0):
            if is_finished(self._job):
                return True
            self._patience.pause()
        elif status != _END_OF_BATCH:
            text = parser.headers().partition(b"\r\n")[0].decode(errors="replace")
            raise StreamAccessError(
                f"a direct get of stream {self._job.partition.stream} was refused: {text}"
            )
        self._again()
        return False
