"""Read a range message by message from the stream's leader.

For work queues without `allow_direct`, which cannot be read in any other way.  It is slow, but needs no check
for completeness: only the leader answers.
"""

import base64
from collections.abc import Iterator
from typing import Any

from millstream.golang.time import parse_time
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError
from millstream.tables import intake as codes
from millstream.tables.intake import MAX_BYTES, MAX_ROWS
from millstream.tables.readers.job import ReadJob


class GetReader:
    """Reads one range.  The caller handles broken connections with a new reader that continues."""

    def __init__(self, job: ReadJob) -> None:
        self._job = job

    def batches(self) -> Iterator[Any]:
        """Yield full record batches; the rows of the last one stay in the intake."""
        intake, partition = self._job.intake, self._job.partition
        wanted = partition.filters[0] if len(partition.filters) == 1 else ">"
        while True:
            try:
                answer = self._job.link.api(
                    f"STREAM.MSG.GET.{partition.stream}", {"seq": intake.last + 1, "next_by_subj": wanted}
                )
            except LinkApiError as error:
                if error.err is Err.NO_MESSAGE_FOUND:
                    return
                raise
            message = answer["message"]
            code = intake.add(
                message["subject"].encode(),
                int(message["seq"]),
                int(parse_time(message["time"])),
                base64.b64decode(message.get("hdrs") or ""),
                base64.b64decode(message.get("data") or ""),
            )
            if code == codes.FINISHED:
                return
            if intake.columns.rows >= MAX_ROWS or intake.columns.volume >= MAX_BYTES:
                yield intake.flush(self._job.arrow_schema)
