"""The deliveries of a consumer that are not settled: pending messages, floors, and redeliveries.

A state machine without I/O and clock: the caller passes the time.  Compiled, because it is on the path of a
message.  ``states`` has the table of a single message's states.

Two numbers identify a delivery: `sseq`, the message's sequence in the stream, and `dseq`, which counts
deliveries.  A message keeps the dseq of its first delivery however often it is redelivered.

Always true:  floors only fall by ``reset``;  every delivered message above the floor that is not pending is
              settled;  dseq only rises.
Not here:     which message is next in the stream (consumer), who gets it (push, pulls), what survives
              a crash (journal; ``take_changes`` returns what is new).
"""

import heapq
from collections import deque

_NEVER = 0


class Pending:
    """A delivered message that is not settled."""

    dseq: int  # of its first delivery
    at: int  # when it was delivered last, or was said to be in progress
    due: int  # when to deliver it again, if not by the common waiting time
    queued: bool  # it waits to be delivered again
    known: bool  # the journal has it as pending
    kept: bool  # as it is now


def _pending(dseq: int, at: int) -> Pending:
    """Create an entry without the cost of calling ``__init__``."""
    entry = Pending.__new__(Pending)
    entry.dseq = dseq
    entry.at = at
    entry.due = _NEVER
    entry.queued = entry.known = entry.kept = False
    return entry


class Ledger:
    """The ledger of one consumer."""

    def __init__(self) -> None:
        self.delivered_dseq = 0
        self.delivered_sseq = 0  # the highest
        self.floor_dseq = 0
        self.floor_sseq = 0
        self.ack_wait = 0  # ns
        self.backoff: tuple[int, ...] = ()
        self.max_deliver = 0  # 0: any number of times
        self.pending: dict[int, Pending] = {}  # by sseq; by `at`, but for those with a `due` or queued
        self.redelivered: dict[int, int] = {}  # sseq: deliveries after the first
        # Made when they are needed: an idle consumer has no use for them, and they are large.
        self.order: deque[int] | None = None  # sseqs as first delivered; some may be settled
        self._queue: deque[int] | None = None  # to be delivered again; some may be settled
        self._later: list[tuple[int, int]] = []  # a heap of (due, sseq); some may be out of date
        self._moved: list[int] = []  # delayed, and the journal does not know
        self._gone: list[int] = []  # settled, and the journal does not know
        self._counted: dict[int, None] = {}  # redelivered, and the journal does not know
        self.waiting_again = 0  # how many wait to be delivered again
        self.changed = False  # since ``take_changes``
        self.resets = 0  # how often the numbers began anew

    # -- delivering -------------------------------------------------------------------------------

    def deliver(self, sseq: int, now: int) -> None:
        """Record the first delivery of a message that needs an ack."""
        self.delivered_dseq += 1
        if sseq > self.delivered_sseq:
            self.delivered_sseq = sseq
        entry = _pending(self.delivered_dseq, now)
        key = sseq  # one object for both
        self.pending[key] = entry
        if self.order is None:
            self.order = deque()
        self.order.append(key)
        self.changed = True
        if self.backoff:
            self._plan(sseq, entry, now + self._wait_of(sseq))

    def deliver_settled(self, sseq: int) -> None:
        """Record the delivery of a message that needs no ack."""
        self.delivered_dseq += 1
        if sseq > self.delivered_sseq:
            self.delivered_sseq = sseq
        self.floor_dseq = self.delivered_dseq
        self.floor_sseq = self.delivered_sseq
        self.changed = True

    def deliver_again(self, sseq: int, now: int) -> None:
        """Record the redelivery of the message from ``next_again``."""
        entry = self.pending[sseq]
        self.delivered_dseq += 1
        extra = self.redelivered.get(sseq, 0) + 1
        self.redelivered[sseq] = extra
        self._counted[sseq] = None
        self._unqueue(entry)
        entry.at = now
        entry.due = _NEVER
        self._put_last(sseq, entry)
        if self.backoff:
            self._plan(sseq, entry, now + self._wait_of(sseq))

    def deliveries(self, sseq: int) -> int:
        """Return how often a pending message was delivered."""
        return self.redelivered.get(sseq, 0) + 1

    # -- what goes out again ----------------------------------------------------------------------

    def next_again(self) -> int:
        """Return the message that waits longest for redelivery, or 0; it keeps waiting."""
        while self._queue:
            sseq = self._queue[0]
            entry = self.pending.get(sseq)
            if entry is not None and entry.queued:
                return sseq
            self._queue.popleft()
        return 0

    def pop_again(self) -> None:
        """Take the message from ``next_again`` off the queue."""
        assert self._queue is not None
        self._queue.popleft()

    def _put_last(self, sseq: int, entry: Pending) -> None:
        """Move an entry to the end, as its `at` changed, and mark it as new to the journal."""
        del self.pending[sseq]
        self.pending[sseq] = entry
        entry.kept = False
        self.changed = True

    def _enqueue(self, sseq: int, entry: Pending) -> None:
        entry.queued = True
        entry.due = _NEVER
        self.waiting_again += 1
        if self._queue is None:
            self._queue = deque()
        self._queue.append(sseq)

    def _unqueue(self, entry: Pending) -> None:
        """Mark an entry's place in the queue as invalid."""
        if entry.queued:
            entry.queued = False
            self.waiting_again -= 1

    def queue_all(self, now: int) -> list[int]:
        """Redeliver everything pending; give up and return what may not be redelivered."""
        return self._queue_those(sorted(self.pending), now)

    def expire(self, now: int) -> list[int]:
        """Queue messages not acknowledged in time; return those that reached their maximum of deliveries."""
        late = []
        if not self.backoff and self.ack_wait > 0:
            limit = now - self.ack_wait
            for sseq, entry in self.pending.items():
                if entry.due != _NEVER or entry.queued:
                    continue
                if entry.at > limit:
                    break
                late.append(sseq)
        while self._later and self._later[0][0] <= now:
            due, sseq = heapq.heappop(self._later)
            waiting = self.pending.get(sseq)
            if waiting is not None and waiting.due == due and not waiting.queued:
                waiting.due = _NEVER  # it may have been planned twice for the same moment
                late.append(sseq)
        late.sort()
        return self._queue_those(late, now)

    def _queue_those(self, sseqs: list[int], now: int) -> list[int]:
        given_up = []
        for sseq in sseqs:
            entry = self.pending[sseq]
            if entry.queued:
                continue
            if self.spent(sseq):
                given_up.append(sseq)
                continue
            self._enqueue(sseq, entry)
            entry.at = now
            self._put_last(sseq, entry)
        for sseq in given_up:
            self.give_up(sseq)
        return given_up

    def spent(self, sseq: int) -> bool:
        """Return True if a message may not be delivered again."""
        return 0 < self.max_deliver <= self.deliveries(sseq)

    def give_up(self, sseq: int) -> None:
        """Drop the message from `pending`, but keep its delivery count until the stream removes it."""
        self.redelivered[sseq] = self.deliveries(sseq)
        self._counted[sseq] = None
        self._settled(sseq, self.pending.pop(sseq))

    def due(self) -> int:
        """Return when ``expire`` next has something to do, in ns; 0: never, as it is now."""
        earliest = self._later[0][0] if self._later else _NEVER
        if not self.backoff and self.ack_wait > 0:
            for entry in self.pending.values():
                if entry.due == _NEVER and not entry.queued:
                    usual = entry.at + self.ack_wait
                    if earliest == _NEVER or usual < earliest:
                        earliest = usual
                    break
        return earliest

    def has_delayed(self) -> bool:
        """Return True if a message may be due before the others."""
        return len(self._later) > 0

    def plan_again(self, now: int) -> None:
        """Give messages their own due times where the order of `pending` is not that of their times.

        Called after the waiting times or the clock changed, and after a restart.
        """
        self._later.clear()
        latest = now
        for sseq in reversed(self.pending):
            entry = self.pending[sseq]
            entry.due = _NEVER
            if entry.queued:
                continue
            if self.backoff or entry.at > latest:
                self._plan(sseq, entry, entry.at + self._wait_of(sseq))
            else:
                latest = entry.at

    def _wait_of(self, sseq: int) -> int:
        """Return how long to wait for the ack of a message."""
        if not self.backoff:
            return self.ack_wait
        wait: int = self.backoff[min(self.redelivered.get(sseq, 0), len(self.backoff) - 1)]
        return wait

    def _plan(self, sseq: int, entry: Pending, due: int) -> None:
        entry.due = due
        heapq.heappush(self._later, (due, sseq))

    # -- what clients say -------------------------------------------------------------------------

    def ack(self, sseq: int) -> bool:
        """Settle one message; return False if it was not pending."""
        entry = self.pending.pop(sseq, None)
        if entry is not None:
            self._settled(sseq, entry)
        if self.redelivered:
            self._forget_count(sseq)
        return entry is not None

    def ack_all(self, sseq: int, dseq: int) -> list[int]:
        """Settle everything up to a message; return what was pending of it."""
        if dseq <= self.floor_dseq or sseq <= self.floor_sseq:
            return []
        return self.ack_some(sseq, dseq, len(self.order or ()))

    def ack_some(self, sseq: int, dseq: int, most: int) -> list[int]:
        """Settle the first `most` messages of ``ack_all``; return what was pending of them.

        Call it until ``has_unsettled`` is False.  In between, the state is as if the client had acknowledged
        fewer.
        """
        settled: list[int] = []
        left = most
        reached = 0  # the highest dseq of these
        while left > 0 and self.order and self.order[0] <= sseq:
            each = self.order.popleft()
            entry = self.pending.pop(each, None)
            if entry is not None:
                settled.append(each)
                reached = max(reached, entry.dseq)
                self._unqueue(entry)
                if entry.known:
                    self._gone.append(each)
            self._forget_count(each)
            left -= 1
        if not self.has_unsettled(sseq):
            self.floor_dseq = max(self.floor_dseq, dseq)
            self.floor_sseq = max(self.floor_sseq, sseq)
        elif settled:
            self.floor_dseq = max(self.floor_dseq, min(reached, dseq))
            self.floor_sseq = max(self.floor_sseq, settled[-1])
        self.changed = True
        return settled

    def has_unsettled(self, sseq: int) -> bool:
        """Return True if there are deliveries up to `sseq` that ``ack_some`` has not processed."""
        order = self.order
        return order is not None and len(order) > 0 and order[0] <= sseq

    def progress(self, sseq: int, now: int) -> None:
        """Restart the ack wait of a message that a client still works on."""
        entry = self.pending.get(sseq)
        if entry is None or entry.queued:
            return
        entry.at = now
        entry.due = _NEVER
        self._put_last(sseq, entry)
        if self.backoff:
            self._plan(sseq, entry, now + self._wait_of(sseq))

    def may_nak(self, sseq: int, dseq: int) -> bool:
        """Return True if a client can nak this delivery: it is pending and above the floor."""
        return self.floor_dseq < dseq <= self.delivered_dseq and sseq in self.pending

    def nak(self, sseq: int) -> None:
        """Redeliver a message as soon as possible."""
        entry = self.pending[sseq]
        if not entry.queued:
            self._enqueue(sseq, entry)

    def nak_later(self, sseq: int, due: int) -> None:
        """Redeliver a message at a time."""
        entry = self.pending[sseq]
        self._unqueue(entry)
        entry.at = due - self._wait_of(sseq)  # so that it is due then after a restart, too
        if entry.kept:
            entry.kept = False
            self._moved.append(sseq)
        self.changed = True
        self._plan(sseq, entry, due)

    def _settled(self, sseq: int, entry: Pending) -> None:
        """Update floors and changes after an entry left `pending`."""
        self._unqueue(entry)
        if entry.known:
            self._gone.append(sseq)
        self.changed = True
        if not self.pending:
            self.floor_dseq = self.delivered_dseq
            self.floor_sseq = self.delivered_sseq
            if self.order is not None:
                self.order.clear()
            self._queue = None
            self._later.clear()
        elif entry.dseq == self.floor_dseq + 1:
            self._raise_floor(entry.dseq, sseq)

    def _raise_floor(self, dseq: int, sseq: int) -> None:
        """Raise the floor to just below the next pending message."""
        order = self.order
        while order and order[0] not in self.pending:
            order.popleft()
        self.floor_dseq = dseq
        self.floor_sseq = sseq
        if order:
            lowest = order[0]
            if lowest > sseq:
                entry = self.pending[lowest]
                self.floor_dseq = entry.dseq - 1
                self.floor_sseq = lowest - 1

    def _forget_count(self, sseq: int) -> None:
        if sseq in self.redelivered:
            del self.redelivered[sseq]
            self._counted[sseq] = None
            self.changed = True

    # -- what the stream says ---------------------------------------------------------------------

    def remove(self, sseq: int) -> bool:
        """Settle a message that the stream removed; return True if it was pending."""
        return self.ack(sseq)

    def remove_below(self, sseq: int) -> list[int]:
        """Return the pending messages below `sseq`, where the stream now begins."""
        if not self.pending and not self.redelivered:
            return []
        for each in [each for each in self.redelivered if each < sseq and each not in self.pending]:
            self._forget_count(each)
        return sorted([each for each in self.pending if each < sseq])

    def skip_to(self, sseq: int) -> None:
        """Settle everything below `sseq`, which will never be delivered: a purge."""
        for each in [each for each in self.pending if each < sseq]:
            entry = self.pending.pop(each)
            self._unqueue(entry)
            self.floor_dseq = max(self.floor_dseq, entry.dseq)
            if entry.known:
                self._gone.append(each)
            self._forget_count(each)
        for each in [each for each in self.redelivered if each < sseq]:
            self._forget_count(each)
        self.floor_sseq = max(self.floor_sseq, sseq - 1)
        self.delivered_sseq = max(self.delivered_sseq, sseq - 1)
        if not self.pending:
            self.floor_dseq = self.delivered_dseq
            self.floor_sseq = self.delivered_sseq
            self.redelivered.clear()
            self.order = None
            self._queue = None
            self._later.clear()
        self.changed = True

    def forget_above(self, sseq: int) -> None:
        """Forget everything above `sseq`, which the stream lost and whose sequences it uses again."""
        for each in [each for each in self.pending if each > sseq]:
            self._settled(each, self.pending.pop(each))
        for each in [each for each in self.redelivered if each > sseq]:
            self._forget_count(each)
        self.delivered_sseq = min(self.delivered_sseq, sseq)
        self.floor_sseq = min(self.floor_sseq, sseq)
        self.resets += 1

    def reset(self, sseq: int) -> None:
        """Start again before `sseq`; deliveries are counted from one."""
        self.resets += 1
        self.delivered_dseq = self.floor_dseq = 0
        self.delivered_sseq = self.floor_sseq = sseq - 1
        self.pending.clear()
        self.redelivered.clear()
        self.order = None
        self._queue = None
        self.waiting_again = 0
        self._later.clear()
        self._moved.clear()
        self._gone.clear()
        self._counted.clear()
        self.changed = True

    def needs(self, sseq: int, next_sseq: int) -> bool:
        """Return True if a wanted message must stay in a stream with interest retention."""
        if sseq > self.floor_sseq and (sseq >= next_sseq or sseq in self.pending):
            return True
        return sseq in self.redelivered  # given up: it stays for somebody to look at

    # -- what survives ----------------------------------------------------------------------------

    def take_changes(self) -> tuple[list[tuple[int, int, int]], list[int], list[tuple[int, int]]]:
        """Return pending messages, new or moved (sseq, dseq, at); settled ones; (sseq, redeliveries)."""
        fresh = []
        for sseq in reversed(self.pending):  # what is new is at the end
            entry = self.pending[sseq]
            if entry.kept:
                break
            entry.kept = entry.known = True
            fresh.append((sseq, entry.dseq, entry.at))
        for sseq in self._moved:
            moved = self.pending.get(sseq)
            if moved is not None and not moved.kept:
                moved.kept = moved.known = True
                fresh.append((sseq, moved.dseq, moved.at))
        self._moved = []
        gone = self._gone
        self._gone = []
        counted = [(sseq, self.redelivered.get(sseq, 0)) for sseq in self._counted]
        self._counted.clear()
        self.changed = False
        return fresh, gone, counted

    def restore(
        self,
        pending: dict[int, tuple[int, int]],
        redelivered: dict[int, int],
        delivered: tuple[int, int],
        floor: tuple[int, int],
    ) -> None:
        """Restore a state: pending is sseq: (dseq, at); delivered and floor are (dseq, sseq)."""
        self.delivered_dseq, self.delivered_sseq = delivered
        self.floor_dseq, self.floor_sseq = floor
        self.redelivered = dict(redelivered)
        self.order = deque(sorted(pending)) if pending else None
        self.pending.clear()
        for sseq, (dseq, at) in sorted(pending.items(), key=lambda item: (item[1][1], item[0])):
            entry = _pending(dseq, at)
            entry.kept = entry.known = True
            self.pending[sseq] = entry
            if self.backoff:
                self._plan(sseq, entry, at + self._wait_of(sseq))
        self.changed = False
