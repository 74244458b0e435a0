"""Publish rows one by one, with many in flight: `at-least-once` or, with ids, `dedupe`.

    record batch ─▶ RowFrames ─▶ window ─▶ server
                       ▲                      │
                       └── again, same ids ◀──┘  (connection lost, no ack, server busy)

A record batch is kept until each of its rows has an outcome, so rows without one can be sent again.  The
server may be away for twice `publish.timeout`; then the task fails, and Spark retries it with the same ids.
Rows that are sent again may be stored after rows that followed them.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from millstream.link.blocking_link import BlockingLink
from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.errors import LinkError, NoResponders, NotConnected
from millstream.link.publish_window import Receipts
from millstream.spark.errors import SparkError
from millstream.spark.writing.bad_rows import BadRows
from millstream.spark.writing.columns import ColumnLayout, RowRules, row_frames
from millstream.spark.writing.frames import RowFrames
from millstream.spark.writing.outcome import Verdict, verdict_on

logger: Final = logging.getLogger("millstream.spark")

_FLUSH_AT: Final = 128 * 1024  # bytes of frames per write
_UNSETTLED: Final = 2  # record batches with rows that have no outcome yet
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


class _Pending:
    """A record batch that is partly published."""

    __slots__ = ("frames", "receipts", "row")

    def __init__(self, frames: RowFrames) -> None:
        self.frames = frames
        self.receipts = Receipts()
        self.row = 0  # the next one to publish


class PlainWriter:
    """Writes the rows of one task."""

    def __init__(
        self,
        link: BlockingLink,
        layout: ColumnLayout,
        rules: RowRules,
        bad_rows: BadRows,
        *,
        window: int,
        timeout_s: float,
        where: str,
    ) -> None:
        self.rows = 0
        self.duplicates = 0
        self._link = link
        self._publisher = BlockingPublisher(link, limit=window, timeout_s=timeout_s)
        self._layout = layout
        self._rules = rules
        self._bad_rows = bad_rows
        self._patience_s = 2 * timeout_s
        self._where = where  # for messages: the partition and what it belongs to
        self._unsettled: deque[_Pending] = deque()
        self._trouble_since: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Return when every row is stored, or handled as the options say."""
        first_row = 0
        for batch in batches:
            frames = row_frames(
                batch,
                self._layout,
                self._rules,
                first_row=first_row,
                max_payload=self._publisher.window.max_payload,
            )
            first_row += batch.num_rows
            self._unsettled.append(_Pending(frames))
            self._with_patience(lambda: self._publish(self._unsettled[-1]))
            while len(self._unsettled) > _UNSETTLED:
                self._settle_oldest()
        while self._unsettled:
            self._settle_oldest()
        self._with_patience(lambda: self._bad_rows.settle(self._publisher))
        self._publisher.close()

    # -- one batch ----------------------------------------------------------------------------------

    def _publish(self, pending: _Pending) -> None:
        frames, window = pending.frames, self._publisher.window
        while pending.row < frames.row_count:
            pending.row = frames.encode(window, pending.receipts, pending.row, _FLUSH_AT)
            if frames.problem:
                self._bad_rows.take(self._publisher, frames, pending.row, frames.problem)
                pending.row += 1
            elif pending.row < frames.row_count:
                if window.free():
                    self._publisher.flush()
                else:
                    self._publisher.make_room()
        self._publisher.flush()

    def _settle_oldest(self) -> None:
        pending = self._unsettled[0]
        while True:
            self._with_patience(lambda: self._publisher.settle(pending.receipts))
            again = self._judge(pending)
            if not again:
                break
            try:
                self._publish_again(pending, again)
            except NotConnected as error:
                self._recover(error)
        self._unsettled.popleft()

    def _judge(self, pending: _Pending) -> list[int]:
        """Count stored rows, handle bad ones, and return the rows to send again."""
        receipts, frames = pending.receipts, pending.frames
        stored = len(receipts) - len(receipts.errors)
        self.rows += stored
        self.duplicates += len(receipts.duplicates)
        if stored:
            self._all_is_well()
        again: list[int] = []
        hopeless: dict[bytes, bool] = {}
        for place in sorted(receipts.errors):
            error, row = receipts.errors[place], frames.sent[place]
            verdict = verdict_on(error)
            if isinstance(error, NoResponders):
                subject = frames.subject_of(row)
                if subject not in hopeless:
                    hopeless[subject] = not self._is_taken(subject)
                if hopeless[subject]:
                    verdict = Verdict.BAD_ROW
            if verdict is Verdict.AGAIN:
                again.append(row)
            elif verdict is Verdict.BAD_ROW:
                self._with_patience(
                    lambda row=row, error=error: self._bad_rows.take(  # type: ignore[misc]
                        self._publisher, frames, row, str(error)
                    )
                )
            else:
                raise SparkError(
                    f"row {frames.first_id + row} of {self._where} was refused: {error}"
                ) from error
        if again:
            self._wait(receipts.errors[min(receipts.errors)])
        return again

    def _publish_again(self, pending: _Pending, rows: list[int]) -> None:
        frames, window = pending.frames, self._publisher.window
        pending.receipts = Receipts()
        frames.sent.clear()
        place = 0
        try:
            while place < len(rows):
                place = frames.encode_again(window, pending.receipts, rows, place, _FLUSH_AT)
                if place < len(rows):
                    self._publisher.make_room()
            self._publisher.flush()
        except NotConnected as error:
            for row in rows[len(frames.sent) :]:
                frames.sent.append(row)
                pending.receipts.refuse(error)
            raise

    def _is_taken(self, subject: bytes) -> bool:
        """Return True if a stream has the subject, so that it is only temporarily away."""
        answer = self._patiently_ask(
            lambda: self._link.api("STREAM.NAMES", {"subject": subject.decode(errors="replace")})
        )
        return bool(answer.get("streams"))

    # -- patience -----------------------------------------------------------------------------------

    def _with_patience(self, work: Callable[[], None]) -> None:
        """Call `work` until it succeeds; reconnect when the connection is lost."""
        while True:
            try:
                return work()
            except NotConnected as error:
                self._recover(error)

    def _patiently_ask(self, ask: Callable[[], dict[str, object]]) -> dict[str, object]:
        while True:
            try:
                return ask()
            except LinkError as error:
                if verdict_on(error) is not Verdict.AGAIN:
                    raise
                if isinstance(error, NotConnected):
                    self._recover(error)
                else:
                    self._wait(error)

    def _recover(self, error: LinkError) -> None:
        """Reconnect after a pause."""
        self._wait(error)
        left_s = self._patience_s - (time.monotonic() - (self._trouble_since or time.monotonic()))
        self._link.reconnect(within_s=max(left_s, 1.0))
        self._publisher.reconnected()

    def _wait(self, error: LinkError) -> None:
        """Pause before a retry; raise SparkError after `_patience_s` of trouble."""
        now = time.monotonic()
        if self._trouble_since is None:
            self._trouble_since = now
            logger.warning("%s waits: %s", self._where, error)
        if now - self._trouble_since > self._patience_s:
            raise SparkError(
                f"{self._where} could not be written within {self._patience_s:g} s of trouble: {error}"
            ) from error
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _all_is_well(self) -> None:
        self._trouble_since = None
        self._pause_s = _FIRST_PAUSE_S
