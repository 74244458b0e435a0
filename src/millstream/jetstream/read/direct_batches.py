"""Schedule batches of direct gets, and end each of them.

    asked ─▶ queue ─▶ durable messages, as they are in the log ─▶ those that await commit ─▶ 204 EOB

All batches of a stream share what may be sent in one turn of the event loop, so neither a large one nor many
delay others: what fits is sent at once, the rest in turns.  A batch for a slow receiver waits until it has
caught up (``Outlet.behind``): no client is disconnected for requesting much.

Messages may be added and removed between two turns.  A batch contains what exists when it gets there,
including messages that are not durable yet, which are read when they are, even if they were replaced by then.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base.complaints import Complaints
from millstream.jetstream.read import answers as stops
from millstream.jetstream.read import lookup
from millstream.jetstream.read.answers import DirectBatch, DirectSending
from millstream.jetstream.slow_receiver import SlowReceiverPoll
from millstream.jetstream.stride import Stride
from millstream.jsapi import headers as names
from millstream.protocol.headers import make_status
from millstream.store.counts import count_between
from millstream.store.cursor import Cursor
from millstream.store.errors import StoreError
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, ClientRequest
    from millstream.jetstream.stream.stream import Stream
    from millstream.store.log import Log

_MOST_COUNTS: Final = 64  # readers of a stream whose counts are cached
_log = logging.getLogger("millstream.jetstream")

NOT_FOUND: Final = b"404 Message Not Found"

_END: Final = b"204 EOB"
_MESSAGES_AT_ONCE: Final = 2048  # then others have their turn, or after this time
_LONGEST_NS: Final = 2_000_000
_BYTES_AT_ONCE: Final = 1024 * 1024
_MOST_BATCHES: Final = 1024  # under way


class WalkedBatch:
    """A batch that walks through the log from a sequence on; `pattern` may be empty."""

    def __init__(self, batch: DirectBatch, cursor: Cursor, pattern: bytes, counted_at: int) -> None:
        self.batch = batch
        self.cursor = cursor
        self.pattern = pattern
        self.counted_at = counted_at  # the last sequence when `batch.pending` was right
        self.late: deque[int] | None = None  # durable now, and was not when the cursor came to it


class PickedBatch:
    """A batch of messages that were chosen beforehand, not above `ceiling`."""

    def __init__(self, batch: DirectBatch, seqs: Iterable[int], ceiling: int) -> None:
        self.batch = batch
        self.seqs = deque(seqs)
        self.ceiling = ceiling


class DirectBatches:
    """The batches of one stream."""

    def __init__(self, stream: Stream, sending: DirectSending) -> None:
        self._stream = stream
        self._world = stream.world
        self._sending = sending
        self._record = Record()
        self._counts = PageCounts(stream.log)
        self._queue: deque[WalkedBatch | PickedBatch] = deque()
        self._late: set[WalkedBatch] = set()  # wait for a commit
        self._behind: list[WalkedBatch | PickedBatch] = []  # wait for their receivers
        self._patience = SlowReceiverPoll()
        self._stride = Stride()
        self._look: Cancel | None = None
        self._planned = False
        self._told_full = Complaints(_log)
        self._room = _MESSAGES_AT_ONCE  # of this turn
        self._room_bytes = _BYTES_AT_ONCE

    def full(self, others: int = 0) -> bool:
        """Return True if too many are in progress to accept another; `others` are not known here yet."""
        if others + len(self._queue) + len(self._late) + len(self._behind) < _MOST_BATCHES:
            return False
        self._told_full.warn(
            "stream %s: %d direct gets are under way, one is refused", self._stream.name, _MOST_BATCHES
        )
        return True

    def walk(self, batch: DirectBatch, seq: int, pattern: bytes) -> None:
        """Send the messages from `seq` on."""
        log = self._stream.log
        batch.pending = self._counts.count(seq, pattern)
        cursor = Cursor(log, max(seq, 1), (pattern,) if pattern else ())
        self._add(WalkedBatch(batch, cursor, pattern, log.last_seq))

    def pick(self, batch: DirectBatch, seqs: Iterable[int], ceiling: int) -> None:
        """Send these messages, which are durable."""
        self._add(PickedBatch(batch, seqs, ceiling))

    def stop(self) -> None:
        """End all incomplete batches with their position: nothing can be read any more."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        left = [*self._queue, *self._late, *self._behind]
        self._queue.clear()
        self._late.clear()
        self._behind.clear()
        for each in left:
            self._send_end(each)

    # -- turns ------------------------------------------------------------------------------------

    def _add(self, work: WalkedBatch | PickedBatch) -> None:
        self._queue.append(work)
        if len(self._queue) == 1:
            self._run()

    def _run(self) -> None:
        queue = self._queue
        looked = self._world.steady_ns()
        end = looked + _LONGEST_NS
        while queue and self._room > 0 and self._room_bytes > 0:
            work = queue.popleft()
            if work.batch.outlet.behind():
                self._behind.append(work)
                continue
            room = self._room
            if self._goes_on(work):
                queue.append(work)
            began, looked = looked, self._world.steady_ns()
            self._stride.took(room - self._room, looked - began)
            if queue and looked > end:
                self._room = 0
        if self._behind and self._look is None:
            self._look = self._world.call_later(self._patience.look_after_s(), self._looked)
        if not self._planned:
            self._planned = True
            self._world.call_soon(self._turn)
        self._world.flush()

    def _turn(self) -> None:
        self._planned = False
        self._room = _MESSAGES_AT_ONCE
        self._room_bytes = _BYTES_AT_ONCE
        if self._queue:
            self._run()

    def _looked(self) -> None:
        """Poll slow receivers: no event fires when a socket drains."""
        self._look = None
        waiting, self._behind = self._behind, []
        idle = not self._queue
        self._queue.extend(waiting)
        if idle:
            self._run()

    def _goes_on(self, work: WalkedBatch | PickedBatch) -> bool:
        """Send as much as there is room for; return True if there is more for another turn."""
        try:
            if isinstance(work, PickedBatch):
                return self._send_picks(work)
            if work.late is not None:
                return self._send_late(work, work.late)
            return self._send_durable(work)
        except StoreError as error:
            _log.error("%s", error)
            return self._pass_over(work)

    def _sent(self, messages: int, size: int) -> None:
        self._room -= messages
        self._room_bytes -= size
        if messages:
            self._patience.is_over()

    # -- a walk -----------------------------------------------------------------------------------

    def _send_durable(self, walk: WalkedBatch) -> bool:
        sending = self._sending
        stopped = sending.run(
            walk.cursor, walk.batch, min(self._room, self._stride.messages), self._room_bytes
        )
        self._sent(sending.sent, sending.sent_bytes)
        if stopped == stops.DONE:
            return True
        if stopped == stops.TIRED:
            self._room = 0
            return True
        if stopped == stops.OVER or (stopped == stops.END and not self._wait_for_late(walk)):
            self._finish(walk)
        return False

    def _wait_for_late(self, walk: WalkedBatch) -> bool:
        """Return True if there are more messages that will be durable in a moment."""
        log = self._stream.log
        found: deque[int] = deque()
        seq = lookup.next_of(log, max(walk.cursor.seq, log.committed + 1), walk.pattern)
        while seq and len(found) < walk.batch.left:
            found.append(seq)
            seq = lookup.next_of(log, seq + 1, walk.pattern)
        if not found:
            return False

        def durable(_: StoreError | None) -> None:
            if walk in self._late:
                self._late.discard(walk)
                walk.late = found
                self._add(walk)

        self._late.add(walk)
        self._stream.on_outcome(durable)
        return True

    def _send_late(self, walk: WalkedBatch, late: deque[int]) -> bool:
        batch, record = walk.batch, self._record
        least = self._room - self._stride.messages
        while late and batch.left > 0 and batch.left_bytes > 0:
            if self._room <= max(least, 0) or self._room_bytes <= 0:
                return True
            if not lookup.read(self._stream.log, late.popleft(), record):
                continue
            if not self._sending.put(record, batch):
                return False
            self._sent(1, record.size)
        self._finish(walk)
        return False

    def _pass_over(self, work: WalkedBatch | PickedBatch) -> bool:
        """Continue after a message that cannot be read now; return False if that is impossible."""
        if isinstance(work, WalkedBatch):
            try:
                seq = lookup.next_of(self._stream.log, work.cursor.seq, work.pattern)
            except StoreError:
                seq = 0
            if seq:
                work.cursor.move(seq + 1)
                return True
        self._finish(work)
        return False

    # -- picks ------------------------------------------------------------------------------------

    def _send_picks(self, picks: PickedBatch) -> bool:
        batch, record = picks.batch, self._record
        least = self._room - self._stride.messages
        while picks.seqs and batch.left > 0 and batch.left_bytes > 0:
            if self._room <= max(least, 0) or self._room_bytes <= 0:
                return True
            if not lookup.read(self._stream.log, picks.seqs.popleft(), record):
                self.send_status(batch.request, NOT_FOUND)
                return False
            if not self._sending.put(record, batch):
                return False
            self._sent(1, record.size)
        self._finish(picks)
        return False

    # -- ends -------------------------------------------------------------------------------------

    def _finish(self, work: WalkedBatch | PickedBatch) -> None:
        batch = work.batch
        if isinstance(work, WalkedBatch):
            if not batch.last and batch.left > 0:
                self.send_status(batch.request, NOT_FOUND)
                return
            log = self._stream.log
            if log.last_seq != work.counted_at and batch.last:
                batch.pending = self._counts.count(batch.last + 1, work.pattern)
            elif batch.last and not batch.bare:
                self._counts.keep(batch.last + 1, work.pattern, batch.pending)
        self._send_end(work)

    def _send_end(self, work: WalkedBatch | PickedBatch) -> None:
        batch = work.batch
        numbers = [(names.NUM_PENDING, batch.pending), (names.LAST_SEQUENCE, batch.last)]
        if isinstance(work, PickedBatch):
            numbers.append((names.UP_TO_SEQUENCE, work.ceiling))
        self.send_status(batch.request, _END, *((name.encode(), b"%d" % value) for name, value in numbers))

    def send_status(self, request: ClientRequest, status: bytes, *headers: tuple[bytes, bytes]) -> None:
        request.answer(b"", headers=make_status(status, *headers))


class _KnownCount(NamedTuple):
    left: int
    last_seq: int
    messages: int


class PageCounts:
    """Counts of the messages from a sequence on, for clients that read a log page by page.

    Counting with a filter reads the tables of every segment.  A client that reads a stream in batches
    requests the count with each of them, from where the last one ended, so that count is cached with the
    log's state: as long as nothing was removed, only newer messages need counting.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: OrderedDict[tuple[int, bytes], _KnownCount] = OrderedDict()

    def count(self, seq: int, pattern: bytes) -> int:
        """Count messages not below `seq`, durable or not; an empty `pattern` means all subjects."""
        log = self._log
        patterns = (pattern,) if pattern else ()
        known = self._known.pop((seq, pattern), None)
        if known is not None:
            grown = log.last_seq - known.last_seq
            if log.messages - known.messages == grown:  # so everything that came is there, and nothing went
                since = count_between(log, known.last_seq + 1, log.last_seq, patterns) if grown else 0
                return known.left + since
        return count_between(log, seq, log.last_seq, patterns)

    def keep(self, seq: int, pattern: bytes, left: int) -> None:
        """Cache that there are `left` messages from `seq` on."""
        if len(self._known) >= _MOST_COUNTS:
            self._known.popitem(last=False)
        self._known[seq, pattern] = _KnownCount(left, self._log.last_seq, self._log.messages)
