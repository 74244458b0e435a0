"""The deliveries of a consumer that are not settled: pending messages, floors, and redeliveries.

A state machine without I/O and clock: the caller passes the time.  Compiled, because it is on the path of a
message.  ``message_states`` has the table of a single message's states.

Two numbers identify a delivery: `sseq`, the message's sequence in the stream, and `dseq`, which counts
deliveries.  A message keeps the dseq of its first delivery however often it is redelivered.

Messages wait in a common line: first deliveries rise with their sequences and with time, and all wait equally
long, so the place up to which time has run out is a sequence.  What was delivered again, put off or is in
progress has a time of its own, in a heap.

A consumer may have a million messages pending.  Whatever looks at all of them does so in parts, between
which anything may happen: ``expire``, ``queue_some``, ``plan_some``, ``skip_some``, ``ack_some``,
``take_changes``.  Only a restart looks at all of them at once.

Always true:  floors never fall but by ``reset``;  every message above the floor that was delivered and
              is not pending is settled;  dseq only rises;  first deliveries rise in sseq.
Not here:     which message is next in the stream (consumer), who gets it (push, pulls), what survives
              a crash (journal; ``take_changes`` returns what is new).
"""

import heapq
from collections import deque

from millstream.base.freeing import Container
from millstream.base.paged_map import PagedMap
from millstream.jetstream.consumers.parked import Parked

_NEVER = 0
_PART = 512  # messages of a part, unless the caller says otherwise
_STALE = 64  # places in the heap that are looked at, if they are out of date
_LONG_AGO = 1
_ALL = 1 << 62


class Pending:
    """A delivered message that is not settled."""

    dseq: int  # of its first delivery
    at: int  # when it was delivered last, or was said to be in progress
    due: int  # when to deliver it again, if not by the common waiting time
    planned: int  # its first place in the heap, which is not behind `due`; or none
    queued: bool  # it waits to be delivered again
    known: bool  # the journal has it as pending
    kept: bool  # as it is now


def _pending(dseq: int, at: int) -> Pending:
    """Create an entry without the cost of calling ``__init__``."""
    entry = Pending.__new__(Pending)
    entry.dseq = dseq
    entry.at = at
    entry.due = entry.planned = _NEVER
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
        self.pending = PagedMap()  # by sseq
        self.redelivered = PagedMap()  # sseq: deliveries after the first
        self.journaled = False  # somebody calls ``take_changes``
        self.keeps_spent = False  # spent messages stay pending until the caller settles them
        self.freed: list[int] | None = None  # settled since ``take_freed``; None: nobody asks
        self.parked: Parked | None = None  # made when a message is parked
        self.aside: set[int] = set()  # pending messages that are about to be settled, and not delivered again
        self.late = False  # ``expire`` has more to do at once
        # Made when it is needed: an idle consumer has no use for it, and it is large.
        self._queue: deque[int] | None = None  # to be delivered again; some may be settled
        self._timed = 0  # messages up to here wait in the common line no more
        self._later: list[tuple[int, int]] = []  # a heap of (time, sseq); some may be out of date
        self._told = 0  # the journal was told of first deliveries up to here
        self._moved: list[int] = []  # delivered or put off again, and the journal does not know
        self._gone: list[int] = []  # settled, and the journal does not know
        self._counted: list[int] = []  # redelivered, and the journal does not know; some more than once
        self.told_dseq = 0
        self.told_sseq = 0
        self.waiting_again = 0  # how many wait to be delivered again
        self.changed = False  # since ``take_changes``
        self.resets = 0  # how often the numbers began anew

    # -- delivering -------------------------------------------------------------------------------

    def deliver(self, sseq: int, now: int) -> None:
        """Record the first delivery of a message that needs an ack."""
        self.delivered_dseq += 1
        if sseq > self.delivered_sseq:
            self.delivered_sseq = sseq
        self.pending.put(sseq, _pending(self.delivered_dseq, now))
        self.changed = True

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
        extra = self.deliveries(sseq)
        self.redelivered.put(sseq, extra)
        self._note_count(sseq)
        self._unqueue(entry)
        self._wait_anew(sseq, entry, now)

    def deliveries(self, sseq: int) -> int:
        """Return how often a pending message was delivered."""
        extra = self.redelivered.get(sseq)
        return 1 if extra is None else extra + 1

    # -- order by key (``key_order``) -------------------------------------------------------------

    def park(self, sseq: int, mark: int) -> None:
        """Record that a message, which the highest delivered one may pass, is still to be delivered."""
        if self.parked is None:
            self.parked = Parked()
        self.parked.add(sseq, mark)
        self.changed = True

    def unpark(self, sseq: int) -> None:
        """Forget a parked message that is gone."""
        if self.parked is not None and self.parked.take(sseq):
            self._gone.append(sseq)
        self.changed = True

    def deliver_parked(self, sseq: int, now: int) -> None:
        """Record the first delivery of a parked message."""
        self.delivered_dseq += 1
        if sseq > self.delivered_sseq:
            self.delivered_sseq = sseq
        entry = _pending(self.delivered_dseq, now)
        entry.known = self.parked is not None and self.parked.take(sseq)
        self.pending.put(sseq, entry)
        self._moved.append(sseq)
        self.changed = True
        wait = self._wait_of(sseq)
        if wait > 0:
            self._plan(sseq, entry, now + wait)

    def heads(self) -> list[tuple[int, int]]:
        """Return the parked messages and their marks, rising."""
        return [] if self.parked is None else self.parked.marks()

    def known_heads(self) -> list[tuple[int, int, int]]:
        """Return the rows of parked messages that the journal has."""
        return [] if self.parked is None else self.parked.known_rows()

    def take_freed(self) -> list[int]:
        """Return the messages that were settled since the last call."""
        freed = self.freed
        if not freed:
            return []
        self.freed = []
        return freed

    def _raise_to_lowest(self) -> None:
        """Raise the floor to below the lowest message that is pending or parked.

        Deliveries do not rise with their sequences here, so the floor of the deliveries moves only when
        nothing is pending.
        """
        lowest = self.pending.first()
        parked = self.parked.first() if self.parked is not None else 0
        if lowest == 0 and parked == 0:
            self.floor_dseq = self.delivered_dseq
            self.floor_sseq = self.delivered_sseq
            self._queue = None
        else:
            lowest = min(lowest, parked) if lowest and parked else lowest or parked
            self.floor_sseq = max(self.floor_sseq, lowest - 1)

    # -- what goes out again ----------------------------------------------------------------------

    def next_again(self) -> int:
        """Return the message that waits longest for redelivery, or 0; it keeps waiting."""
        while self._queue:
            sseq = self._queue[0]
            entry = self.pending.get(sseq)
            if entry is not None and entry.queued and sseq > self.floor_sseq:
                return sseq
            self._queue.popleft()
        return 0

    def pop_again(self) -> None:
        """Take the message from ``next_again`` off the queue."""
        assert self._queue is not None
        self._queue.popleft()

    def _wait_anew(self, sseq: int, entry: Pending, now: int) -> None:
        """Restart the wait for an ack, with a due time of its own."""
        entry.at = now
        self._note_move(sseq, entry)
        wait = self._wait_of(sseq)
        if wait > 0:
            self._plan(sseq, entry, now + wait)

    def _note_move(self, sseq: int, entry: Pending) -> None:
        """Record that the journal needs the new time of a message that it already has."""
        self.changed = True
        if entry.kept:
            entry.kept = False
            self._moved.append(sseq)

    def _note_count(self, sseq: int) -> None:
        self.changed = True
        if self.journaled:
            self._counted.append(sseq)

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

    def queue_some(self, after: int, now: int, most: int = _PART) -> tuple[int, list[int]]:
        """Queue at most `most` pending messages above `after`; give up those that reached the limit.

        Returns the last message that was examined, or 0 if there are no more, and the messages given up,
        which stay pending if `keeps_spent` is set.
        """
        found = []
        sseq = after
        left = most
        while left > 0:
            sseq = self.pending.after(sseq)
            if sseq == 0:
                break
            found.append(sseq)
            left -= 1
        return sseq, self._queue_those(found, now)

    def expire(self, now: int, most: int = _PART) -> list[int]:
        """Queue messages that were not acknowledged in time; give up and return those that reached the limit.

        These stay pending if `keeps_spent` is set.  Examines at most `most` messages; `late` is True if there
        may be others.
        """
        late = []
        left = most
        wait = self._common_wait()
        if wait > 0:
            limit = now - wait
            while left > 0:
                sseq = self.pending.after(self._timed)
                if sseq == 0:
                    break
                entry = self.pending.get(sseq)
                if entry.due == _NEVER and not entry.queued:
                    if entry.at > limit:
                        break
                    late.append(sseq)
                self._timed = sseq
                left -= 1
        while left > 0 and self._later and self._later[0][0] <= now:
            when, sseq = heapq.heappop(self._later)
            left -= 1
            waiting = self.pending.get(sseq)
            if waiting is None or waiting.planned != when:
                continue
            waiting.planned = _NEVER
            if waiting.queued or waiting.due == _NEVER:
                continue
            if waiting.due > now:
                self._plan(sseq, waiting, waiting.due)
            else:
                waiting.due = _NEVER
                late.append(sseq)
        self.late = left <= 0
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
            self._note_move(sseq, entry)
        if not self.keeps_spent:
            for sseq in given_up:
                self.give_up(sseq)
        return given_up

    def spent(self, sseq: int) -> bool:
        """Return True if a message may not be delivered again."""
        if self.keeps_spent and sseq in self.aside:
            return True
        return 0 < self.max_deliver <= self.deliveries(sseq)

    def give_up(self, sseq: int) -> None:
        """Drop the message from `pending`, but keep its delivery count until the stream removes it."""
        self.redelivered.put(sseq, self.deliveries(sseq))
        self._note_count(sseq)
        self._settled(sseq, self.pending.take(sseq))

    def due(self) -> int:
        """Return a time, in ns, not after the one at which ``expire`` has work; 0 if there is none."""
        earliest = self._first_planned()
        wait = self._common_wait()
        if wait <= 0:
            return earliest
        for _ in range(_PART):
            sseq = self.pending.after(self._timed)
            if sseq == 0:
                return earliest
            entry = self.pending.get(sseq)
            if entry.due == _NEVER and not entry.queued:
                usual = entry.at + wait
                return usual if earliest == _NEVER or usual < earliest else earliest
            self._timed = sseq
        return _LONG_AGO  # it looks at the others when it is called

    def _first_planned(self) -> int:
        """Return the first time in the heap, which may be stale, or 0."""
        for _ in range(_STALE):
            if not self._later:
                return _NEVER
            when, sseq = self._later[0]
            entry = self.pending.get(sseq)
            if entry is not None and entry.planned == when:
                break
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else _NEVER

    def drop_from_queue(self, sseq: int) -> None:
        """Take a pending message out of the queue for redelivery; the caller settles it or delays it."""
        self._unqueue(self.pending[sseq])

    def put_aside(self, sseq: int) -> None:
        """Deliver a pending message no more; the caller settles it soon."""
        self.drop_from_queue(sseq)
        self.aside.add(sseq)

    def has_delayed(self) -> bool:
        """Return True if a message may be due before the others."""
        return len(self._later) > 0

    def plan_again(self, now: int) -> None:
        """Compute when each pending message is due, from the time of its last delivery and the present waits.

        Called after a restart, and after the waiting times or the clock changed.
        """
        self._later.clear()
        self._timed = 0
        latest = now
        for sseq in reversed(list(self.pending)):
            entry = self.pending.get(sseq)
            entry.due = entry.planned = _NEVER
            if entry.queued:
                continue
            if entry.at > latest or self._wait_of(sseq) != self._common_wait():
                self._plan(sseq, entry, entry.at + self._wait_of(sseq))
            else:
                latest = entry.at

    def plan_some(self, after: int, most: int = _PART) -> int:
        """Update the due times of at most `most` messages above `after` to changed waiting times.

        Returns the last message that was examined, or 0 if there are no more.  Messages in the common line
        have no due times of their own.
        """
        sseq = after
        left = most
        while left > 0:
            sseq = self.pending.after(sseq)
            if sseq == 0:
                break
            entry = self.pending.get(sseq)
            if entry.due != _NEVER:
                self._plan(sseq, entry, entry.at + self._wait_of(sseq))
            left -= 1
        return sseq

    def _common_wait(self) -> int:
        """Return how long to wait for the ack of a message's first delivery."""
        if not self.backoff:
            return self.ack_wait
        wait: int = self.backoff[0]
        return wait

    def _wait_of(self, sseq: int) -> int:
        """Return how long to wait for the ack of a message."""
        if not self.backoff:
            return self.ack_wait
        wait: int = self.backoff[min(self.deliveries(sseq), len(self.backoff)) - 1]
        return wait

    def _plan(self, sseq: int, entry: Pending, due: int) -> None:
        """Set the message's own due time; an earlier place in the heap suffices."""
        entry.due = due
        if entry.planned == _NEVER or due < entry.planned:
            entry.planned = due
            heapq.heappush(self._later, (due, sseq))

    # -- what clients say -------------------------------------------------------------------------

    def ack(self, sseq: int) -> bool:
        """Settle one message; return False if it was not pending."""
        entry = self.pending.take(sseq)
        if entry is not None:
            self._settled(sseq, entry)
        if self.redelivered.count:
            self._forget_count(sseq)
        return entry is not None

    def ack_all(self, sseq: int, dseq: int) -> list[int]:
        """Settle everything up to a message; return what was pending of it."""
        if dseq <= self.floor_dseq or sseq <= self.floor_sseq:
            return []
        return self.ack_some(sseq, dseq, _ALL)

    def ack_some(self, sseq: int, dseq: int, most: int) -> list[int]:
        """Settle the first `most` messages of ``ack_all``; return what was pending of them.

        Call it until ``has_unsettled`` is False.  In between, the state is as if the client had acknowledged
        fewer.
        """
        settled: list[int] = []
        left = most
        reached = 0  # the highest dseq of these
        looked = self.floor_sseq
        while left > 0:
            each = self._next_unsettled(looked)
            if each == 0 or each > sseq:
                break
            entry = self.pending.take(each)
            if entry is not None:
                settled.append(each)
                reached = max(reached, entry.dseq)
                self._unqueue(entry)
                if entry.known:
                    self._gone.append(each)
            self._forget_count(each)
            looked = each
            left -= 1
        following = self._next_unsettled(looked)
        if following == 0 or following > sseq:
            self.floor_dseq = max(self.floor_dseq, dseq)
            self.floor_sseq = max(self.floor_sseq, sseq)
        else:
            self.floor_dseq = max(self.floor_dseq, min(reached, dseq))
            self.floor_sseq = max(self.floor_sseq, looked)
        self.changed = True
        return settled

    def _next_unsettled(self, sseq: int) -> int:
        """Return the first message above `sseq` that is pending or was given up, or 0."""
        pending = self.pending.after(sseq)
        given_up = self.redelivered.after(sseq) if self.redelivered.count else 0
        return given_up if pending == 0 or 0 < given_up < pending else pending

    def has_unsettled(self, sseq: int) -> bool:
        """Return True if there are deliveries up to `sseq` that ``ack_some`` has not processed."""
        following = self._next_unsettled(self.floor_sseq)
        return 0 < following <= sseq

    def progress(self, sseq: int, now: int) -> None:
        """Restart the ack wait of a message that a client still works on."""
        entry = self.pending.get(sseq)
        if entry is None or entry.queued:
            return
        self._wait_anew(sseq, entry, now)

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
        self._note_move(sseq, entry)
        self._plan(sseq, entry, due)

    def _settled(self, sseq: int, entry: Pending) -> None:
        """Update floors and changes after an entry left `pending`."""
        self._unqueue(entry)
        if entry.known:
            self._gone.append(sseq)
        self.changed = True
        if self.freed is not None:
            self.freed.append(sseq)
            self._raise_to_lowest()
        elif not self.pending.count:
            self.floor_dseq = self.delivered_dseq
            self.floor_sseq = self.delivered_sseq
            self._queue = None
        elif entry.dseq == self.floor_dseq + 1:
            self._raise_floor(entry.dseq, sseq)

    def _raise_floor(self, dseq: int, sseq: int) -> None:
        """Raise the floor to just below the lowest pending message.

        One below `sseq` stays above it: an ack of all names its last delivery, which may be later than the
        first delivery of a message behind it.
        """
        lowest = self.pending.after(self.floor_sseq)
        if 0 < lowest < sseq:
            return
        self.floor_dseq = dseq
        self.floor_sseq = sseq
        if lowest:
            entry = self.pending.get(lowest)
            self.floor_dseq = entry.dseq - 1
            self.floor_sseq = lowest - 1

    def _forget_count(self, sseq: int) -> None:
        if self.redelivered.take(sseq) is not None:
            self._note_count(sseq)

    # -- what the stream says ---------------------------------------------------------------------

    def remove(self, sseq: int) -> bool:
        """Settle a message that the stream removed; return True if it was pending."""
        return self.ack(sseq)

    def remove_below(self, sseq: int) -> list[int]:
        """Return the pending messages below `sseq`, where the stream now begins."""
        for each in [each for each in self.redelivered if each < sseq and each not in self.pending]:
            self._forget_count(each)
        return [each for each in self.pending if each < sseq]

    def begin_skip(self, sseq: int) -> None:
        """Raise the floor to just below `sseq` after a purge; call ``skip_some`` next."""
        self.floor_sseq = max(self.floor_sseq, sseq - 1)
        self.delivered_sseq = max(self.delivered_sseq, sseq - 1)
        self.changed = True

    def skip_some(self, sseq: int, most: int = _PART) -> int:
        """Forget at most `most` messages below `sseq`; return how many, 0 if there are no more."""
        skipped = 0
        looked = 0
        while skipped < most:
            each = self._next_unsettled(looked)
            if each == 0 or each >= sseq:
                break
            entry = self.pending.take(each)
            if entry is not None:
                self._unqueue(entry)
                if self.freed is not None:
                    self.freed.append(each)
                else:
                    self.floor_dseq = max(self.floor_dseq, entry.dseq)
                if entry.known:
                    self._gone.append(each)
            self._forget_count(each)
            looked = each
            skipped += 1
        if self.freed is not None:
            self._raise_to_lowest()
        elif not self.pending.count:
            self.floor_dseq = self.delivered_dseq
            self.floor_sseq = self.delivered_sseq
            self._queue = None
        self.changed = True
        return skipped

    def forget_above(self, sseq: int) -> None:
        """Forget everything above `sseq`, which the stream lost and whose sequences it uses again."""
        for each in [each for each in self.pending if each > sseq]:
            self._settled(each, self.pending.take(each))
        for each in [each for each in self.redelivered if each > sseq]:
            self._forget_count(each)
        for each, _ in self.heads():
            if each > sseq:
                self.unpark(each)
        self.delivered_sseq = min(self.delivered_sseq, sseq)
        self.floor_sseq = min(self.floor_sseq, sseq)
        self._timed = min(self._timed, sseq)
        self._told = min(self._told, sseq)
        self.resets += 1

    def reset(self, sseq: int) -> list[Container]:
        """Restart at `sseq` and count deliveries from one; return what ``clear`` returns."""
        freed = self.clear()
        self.delivered_dseq = self.floor_dseq = 0
        self.delivered_sseq = self.floor_sseq = sseq - 1
        self.changed = True
        return freed

    def clear(self) -> list[Container]:
        """Forget all messages, but not the positions; return the containers, for ``base.freeing``."""
        freed: list[Container] = [self.pending, self.redelivered, self.aside]
        freed += [self._later, self._moved, self._gone, self._counted]
        if self.parked is not None:
            freed += self.parked.containers()
        if self.freed is not None:
            freed.append(self.freed)
            self.freed = []
        if self._queue is not None:
            freed.append(self._queue)
        self.resets += 1
        self.pending = PagedMap()
        self.redelivered = PagedMap()
        self.aside = set()
        self.parked = None
        self._queue = None
        self.waiting_again = 0
        self.late = False
        self._later = []
        self._timed = self._told = 0
        self._moved = []
        self._gone = []
        self._counted = []
        return freed

    def needs(self, sseq: int, next_sseq: int) -> bool:
        """Return True if a wanted message must stay in a stream with interest retention."""
        if sseq > self.floor_sseq and (sseq >= next_sseq or sseq in self.pending):
            return True
        if self.parked is not None and self.parked.holds(sseq):
            return True
        return sseq in self.redelivered  # given up: it stays for somebody to look at

    # -- what survives ----------------------------------------------------------------------------

    def take_changes(
        self, most: int = _ALL
    ) -> tuple[list[tuple[int, int, int]], list[int], list[tuple[int, int]]]:
        """Return the changes for the journal, at most `most` of each kind.

        These are pending messages that are new or moved, as (sseq, dseq, at); settled messages; and (sseq,
        deliveries after the first).  `changed` stays True if there are others.  `told_dseq` and `told_sseq`
        are the last deliveries that the journal has then: it must not take later ones for settled.
        """
        fresh = []
        sseq = self._told
        entry = None
        left = most
        while left > 0:
            following = self.pending.after(sseq)
            if following == 0:
                break
            sseq = following
            entry = self.pending.get(sseq)
            if not entry.kept:
                entry.kept = entry.known = True
                fresh.append((sseq, entry.dseq, entry.at))
            left -= 1
        if left > 0 or entry is None:
            self._told = max(self._told, self.delivered_sseq)
            self.told_sseq = self.delivered_sseq
            self.told_dseq = self.delivered_dseq
        else:
            self._told = self.told_sseq = sseq
            self.told_dseq = entry.dseq
        for sseq in self._moved[:most]:
            entry = self.pending.get(sseq)
            if entry is not None and not entry.kept and sseq <= self._told:
                entry.kept = entry.known = True
                fresh.append((sseq, entry.dseq, entry.at))
        if self.parked is not None:
            self.parked.tell(fresh, self._told)
        gone = self._gone[:most]
        counted = [(sseq, self.deliveries(sseq) - 1) for sseq in self._counted[:most]]
        del self._moved[:most]
        del self._gone[:most]
        del self._counted[:most]
        self.changed = left <= 0 or bool(self._moved or self._gone or self._counted)
        return fresh, gone, counted

    def known_after(self, sseq: int, most: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return pending messages above `sseq` that the journal has, as (sseq, dseq, at).

        Examines at most `most` messages, and also returns the last of them, or 0 if there are no more.
        """
        rows = []
        left = most
        while left > 0:
            sseq = self.pending.after(sseq)
            if sseq == 0:
                break
            entry = self.pending.get(sseq)
            if entry.known:
                rows.append((sseq, entry.dseq, entry.at))
            left -= 1
        return sseq, rows

    def counts_after(self, sseq: int, most: int) -> tuple[int, list[tuple[int, int]]]:
        """Return (sseq, deliveries after the first) of at most `most` messages, like ``known_after``."""
        rows = []
        left = most
        while left > 0:
            sseq = self.redelivered.after(sseq)
            if sseq == 0:
                break
            rows.append((sseq, self.redelivered.get(sseq)))
            left -= 1
        return sseq, rows

    def restore(
        self,
        pending: dict[int, tuple[int, int]],
        redelivered: dict[int, int],
        delivered: tuple[int, int],
        floor: tuple[int, int],
    ) -> None:
        """Restore a state: pending is sseq: (dseq, at); delivered and floor are (dseq, sseq).

        A dseq of 0 is that of a parked message, and its time is the mark.
        """
        self.delivered_dseq, self.delivered_sseq = delivered
        self.floor_dseq, self.floor_sseq = floor
        for sseq, extra in redelivered.items():
            self.redelivered.put(sseq, extra)
        for sseq in sorted(pending):
            dseq, at = pending[sseq]
            if dseq == 0:
                if sseq <= self.delivered_sseq:
                    self.parked = self.parked or Parked()
                    self.parked.restore(sseq, at)
                continue
            entry = _pending(dseq, at)
            entry.kept = entry.known = True
            self.pending.put(sseq, entry)
        self._told = self.delivered_sseq
        self.changed = False
