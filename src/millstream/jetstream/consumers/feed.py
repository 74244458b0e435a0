"""Choose what a consumer delivers next: redeliveries, then single messages at the start, then the stream.

Sends through ``delivery`` and records in the ledger.  A message without a receiver, or too big for the
request, stays the next one.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.base.slices import Pieces, finish
from millstream.jetstream.consumers import delivery as stops
from millstream.jetstream.consumers.delivery import Delivery
from millstream.jetstream.consumers.last_messages import Singles
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.start import Sifted
from millstream.store.cursor import Cursor
from millstream.store.record import Record
from millstream.subjects.match import matches

if TYPE_CHECKING:
    from millstream.jetstream.consumers.key_order import KeyOrder, KeyState
    from millstream.jetstream.consumers.start import Start
    from millstream.jetstream.consumers.told_removals import ToldRemovals
    from millstream.protocol.outlet import Outlet
    from millstream.store.log import Log

_DONE = stops.DONE
_END = stops.END
_FULL = stops.FULL
_NOBODY = stops.NOBODY
_TOO_BIG = stops.TOO_BIG
_TIRED = stops.TIRED
_PARKED = -2
_PARKED_AT_ONCE = 1000  # messages, then others have their turn
_SIFTED_AT_ONCE = 256  # messages


class Feed:
    """The feed of one consumer.

    `given_up` and `missing` are called for messages that cannot be redelivered.
    """

    def __init__(
        self,
        log: Log,
        ledger: Ledger,
        delivery: Delivery,
        *,
        told: ToldRemovals,
        given_up: Callable[[int], None],
        missing: Callable[[int], None],
    ) -> None:
        self.sent = 0  # by the last call of ``send``
        self.sent_bytes = 0
        self.recounts = 0  # how often everything that is left was counted
        self.patterns: tuple[bytes, ...] = ()
        self._log = log
        self._ledger = ledger
        self._delivery = delivery
        self._told = told
        self._given_up = given_up
        self._missing = missing
        self._cursor = Cursor(log, 1)
        self._record = Record()
        self._singles = Singles()  # to begin with
        self._counted_to = 0  # the last sequence that is in ``delivery.pending``
        self.keys: KeyOrder | None = None  # set: messages are sent in the order of their keys
        self._removals = -1  # of the log, when that was counted
        self._passes_removed = False  # and the removal may not be durable

    # -- where it is ------------------------------------------------------------------------------

    @property
    def next_sseq(self) -> int:
        """Return the next sequence of the stream to look at."""
        return self._singles.first or self._cursor.seq

    def begin(self, start: Start, patterns: tuple[bytes, ...]) -> None:
        """Deliver from a position on."""
        self.patterns = patterns
        self._singles = start.singles or Singles()
        self._move(start.sseq if start.singles is None else start.resume)
        counted = start.counted
        if counted is not None:
            self._delivery.pending = counted.messages
            self._counted_to = counted.upto
            self._removals = counted.removals
            self._passes_removed = bool(self._log.gone)

    def restore_keys(self) -> None:
        """Continue the order by key after a restart."""
        if self.keys is not None:
            self.keys.restore(self._cursor.seq)
            self._removals = -1

    def _move(self, sseq: int) -> None:
        self._cursor = Cursor(self._log, sseq, self.patterns)
        self._removals = -1

    def release(self) -> None:
        """Free what was read ahead: nothing is delivered for now."""
        self._cursor.release()
        self._record.buf = b""
        self._delivery.release()

    def let_go(self) -> None:
        """Forget the consumer, which has ended."""
        self._given_up = self._missing = _ignore

    def choose(self, patterns: tuple[bytes, ...], sifted: Sifted | None = None) -> None:
        """Continue from here with other subjects; `sifted` is the result of ``sift`` for them."""
        if self.must_sift(patterns, sifted):
            sifted = finish(self.sift(patterns))
        if sifted is not None:
            self._singles = self._singles.narrow(sifted.kept)
        self.patterns = patterns
        self._move(self._cursor.seq)

    def must_sift(self, patterns: tuple[bytes, ...], sifted: Sifted | None) -> bool:
        """Return True if ``sift`` comes before ``choose``, unless there is its result already."""
        if not patterns or not self._singles.first:
            return False
        return sifted is None or sifted.patterns != patterns or sifted.singles is not self._singles

    def takes_long_to_sift(self, patterns: tuple[bytes, ...], sifted: Sifted | None) -> bool:
        """Return True if ``sift`` should be done in slices before ``choose``."""
        return len(self._singles) > _SIFTED_AT_ONCE and self.must_sift(patterns, sifted)

    def sift(self, patterns: tuple[bytes, ...]) -> Pieces[Sifted]:
        """Find which of the single messages have subjects that match other patterns."""
        singles = self._singles
        kept = yield from singles.sift(lambda sseq: self._has_one_of(patterns, sseq))
        return Sifted(patterns, singles, kept)

    def _has_one_of(self, patterns: tuple[bytes, ...], sseq: int) -> bool:
        subject = self._log.subject_of(sseq)
        return subject is not None and any(matches(subject, pattern) for pattern in patterns)

    def skip_to(self, sseq: int) -> None:
        """Skip everything below `sseq`, which is gone."""
        self._singles.skip_to(sseq)
        if self._cursor.seq < sseq:
            self._move(sseq)
        self._removals = -1

    # -- how much is left -------------------------------------------------------------------------

    def count(self) -> int:
        """Return the number of messages still to be delivered for the first time."""
        log, delivery = self._log, self._delivery
        removals = log.state.last_seq - log.state.messages
        if removals != self._removals and not self._has_passed(log.gone, removals):
            delivery.pending = len(self._singles) + self._cursor.count_from(self._cursor.seq)
            if self.keys is not None:
                delivery.pending += self.keys.parked
            self._removals = removals
            self._passes_removed = bool(log.gone)
            self.recounts += 1
        elif log.state.committed > self._counted_to:
            delivery.pending += self._cursor.count_from(max(self._counted_to + 1, self._cursor.seq))
        self._counted_to = log.state.committed
        return delivery.pending

    def passes_removed(self) -> bool:
        """Return True if the next delivery may pass messages whose removal is not durable."""
        self.count()
        return self._passes_removed

    def may_pass(self) -> None:
        """Let the feed pass everything that was removed until now."""
        self._passes_removed = False

    def _has_passed(self, gone: list[int] | None, removals: int) -> bool:
        """Return True if all messages removed since the last count were already passed: the count is right.

        `gone` ends with the sequences removed last, when the log had lost `removals` messages in total;
        consumers were told of those before.
        """
        if self._removals < 0 or gone is None:
            return False
        told, sseq = removals - len(gone), self._cursor.seq
        if self._removals < told:
            if self._told.total != told or self._told.highest_since(self._removals) >= sseq:
                return False
            unseen = len(gone)
        else:
            unseen = removals - self._removals
        if unseen > 0 and max(gone[-unseen:]) >= sseq:
            return False
        self._removals = removals
        return True

    def holds(self) -> bool:
        """Return True if a message may leave the stream that the feed or the ledger has a note of."""
        ledger = self._ledger
        return bool(self._singles.first or self.keys is not None or ledger.pending or ledger.redelivered)

    def removed(self, sseqs: list[int]) -> None:
        """Drop messages that left the stream."""
        left = len(self._singles)
        if left:
            self._singles.removed(sseqs)
            self._delivery.pending -= left - len(self._singles)

    def goes_again(self) -> bool:
        """Return True if the next message is a redelivery."""
        return self._ledger.next_again() > 0

    def has_more(self) -> bool:
        """Return True if there is a message to deliver."""
        if self.keys is not None:
            return self._may_have_more()
        return self._ledger.next_again() > 0 or self.count() > 0

    def _may_have_more(self) -> bool:
        """Return True if a message may be sent although others are parked."""
        assert self.keys is not None
        self.keys.settle()
        self.count()
        if self._ledger.next_again() or self.keys.next_ready() is not None:
            return True
        return self._cursor.count_from(self._cursor.seq) > 0

    def is_freed(self) -> bool:
        """Return True if a key may have become free."""
        return self.keys is not None and (bool(self._ledger.freed) or self.keys.next_ready() is not None)

    def is_full(self) -> bool:
        """Return True if `max_ack_pending` allows no new message; redeliveries are always allowed."""
        ledger = self._ledger
        return 0 < self._delivery.max_pending <= len(ledger.pending) and not ledger.waiting_again

    # -- sending ----------------------------------------------------------------------------------

    def send(self, outlet: Outlet, most: int, most_bytes: int, now: int) -> int:
        """Send up to `most` messages; return why it stopped, see ``delivery``."""
        self.sent = self.sent_bytes = 0
        self.count()
        while self.sent < most and self._ledger.next_again():
            stopped = self._send_again(outlet, most_bytes - self.sent_bytes, now)
            if stopped != _DONE:
                return stopped
        while self.sent < most and self._singles.first:
            stopped = self._send_single(outlet, most_bytes - self.sent_bytes, now)
            if stopped != _DONE:
                return stopped
        if self.sent == most:
            return _DONE
        if self.keys is not None:
            return self._send_in_order(outlet, most, most_bytes, now)
        delivery = self._delivery
        stopped = delivery.run(self._cursor, outlet, most - self.sent, most_bytes - self.sent_bytes, now)
        self.sent += delivery.sent
        self.sent_bytes += delivery.sent_bytes
        return stopped

    def next_timestamp(self) -> int:
        """Return the timestamp of the next new message; 0 if there is none."""
        record = self._record
        if self._singles.first:
            return record.timestamp if self._log.get(self._singles.first, record) else 0
        if not self._cursor.next(record):
            return 0
        self._cursor.move(record.seq)
        return record.timestamp

    def _send_again(self, outlet: Outlet, most_bytes: int, now: int) -> int:
        """Send the redelivery that waits longest."""
        ledger, record = self._ledger, self._record
        sseq = ledger.next_again()
        if ledger.spent(sseq):
            ledger.pop_again()
            if ledger.keeps_spent:
                ledger.drop_from_queue(sseq)
            else:
                ledger.give_up(sseq)
            self._given_up(sseq)
            return _DONE
        if not self._log.get(sseq, record):
            ledger.pop_again()
            if not self._log.gone:  # otherwise the removal is not durable, and `missing` follows
                self._missing(sseq)
            return _DONE
        size = self._delivery.size_of(record, ledger.deliveries(sseq) + 1, self._delivery.pending)
        if size > most_bytes:
            self._delivery.too_big = size
            return _TOO_BIG
        if not self._delivery.send(outlet):
            return _NOBODY
        ledger.pop_again()
        ledger.deliver_again(sseq, now)
        self._note(size)
        return _DONE

    def _send_single(self, outlet: Outlet, most_bytes: int, now: int) -> int:
        delivery, ledger, record = self._delivery, self._ledger, self._record
        if 0 < delivery.max_pending <= len(ledger.pending):
            return _FULL
        sseq = self._singles.first
        if sseq > self._log.committed:
            return _END
        if not self._log.get(sseq, record):
            self.removed([sseq])
            return _DONE
        left = max(delivery.pending - 1, 0)
        size = delivery.size_of(record, 1, left)
        if size > most_bytes:
            self._delivery.too_big = size
            return _TOO_BIG
        if not delivery.send(outlet):
            return _NOBODY
        delivery.pending = left
        if delivery.settles:
            ledger.deliver_settled(record.seq)
        else:
            ledger.deliver(record.seq, now)
        self._singles.pop()
        self._note(size)
        return _DONE

    # -- order by key -----------------------------------------------------------------------------

    def _send_in_order(self, outlet: Outlet, most: int, most_bytes: int, now: int) -> int:
        """Send messages whose keys allow it: ready keys and new messages in turn."""
        keys, ledger, delivery = self.keys, self._ledger, self._delivery
        assert keys is not None
        keys.settle()
        keys.stuck = None
        self._cursor.allow(delivery.reach)
        passed = 0
        while self.sent < most:
            if 0 < delivery.max_pending <= len(ledger.pending):
                return _FULL
            ready = keys.next_ready()
            if ready is not None and keys.prefers_ready():
                stopped = self._send_parked(ready, outlet, most_bytes - self.sent_bytes, now)
            else:
                stopped = self._send_new(outlet, most_bytes - self.sent_bytes, now)
                if stopped == _PARKED:
                    passed += 1
                    if passed < _PARKED_AT_ONCE:
                        continue
                    stopped = _TIRED
                if ready is not None and stopped in (_END, _TIRED):
                    stopped = self._send_parked(ready, outlet, most_bytes - self.sent_bytes, now)
            if stopped != _DONE:
                return stopped
        return _DONE

    def _send_new(self, outlet: Outlet, most_bytes: int, now: int) -> int:
        """Send or park the next message of the stream."""
        keys, ledger, record, cursor = self.keys, self._ledger, self._record, self._cursor
        assert keys is not None
        if not cursor.step(record):
            return _TIRED if cursor.tired else _END
        subject = record.subject()
        state = keys.admits(record.seq, subject)
        if state is None:
            return _PARKED
        left = max(self._delivery.pending - 1, 0)
        size = self._delivery.size_of(record, 1, left)
        if size > most_bytes or not self._delivery.send(outlet):
            cursor.move(record.seq)
            keys.look(state)
            self._delivery.too_big = size
            return _TOO_BIG if size > most_bytes else _NOBODY
        self._delivery.pending = left
        ledger.deliver(record.seq, now)
        keys.sent(state, record.seq)
        self._note(size)
        return _DONE

    def _send_parked(self, state: KeyState, outlet: Outlet, most_bytes: int, now: int) -> int:
        """Send the head of a ready key."""
        keys, ledger, record, delivery = self.keys, self._ledger, self._record, self._delivery
        assert keys is not None
        sseq = state.head
        if not self._log.get(sseq, record):
            if self._log.gone:
                return _END  # the removal is not durable; the consumer is woken when it is
            keys.take_head(state, self._cursor.seq)
            ledger.unpark(sseq)
            keys.look(state)
            return _DONE
        left = max(delivery.pending - 1, 0)
        size = delivery.size_of(record, 1, left)
        if size > most_bytes:
            delivery.too_big = size
            keys.stuck = state
            return _TOO_BIG
        if not delivery.send(outlet):
            return _NOBODY
        delivery.pending = left
        self._deliver_head(state, now)
        self._note(size)
        return _DONE

    def _deliver_head(self, state: KeyState, now: int) -> None:
        keys, sseq = self.keys, state.head
        assert keys is not None
        keys.take_head(state, self._cursor.seq)
        self._ledger.deliver_parked(sseq, now)
        keys.sent(state, sseq)
        keys.look(state)

    # -- messages that nobody can get -------------------------------------------------------------

    def take_next(self, now: int) -> int:
        """Record the next message as delivered without sending it; return its sequence, or 0."""
        ledger = self._ledger
        sseq = ledger.next_again()
        if sseq:
            ledger.pop_again()
            ledger.drop_from_queue(sseq)
            return sseq
        keys = self.keys
        if keys is not None and keys.stuck is not None:
            sseq = keys.stuck.head
            self._deliver_head(keys.stuck, now)
            keys.stuck = None
            self._delivery.pending = max(self._delivery.pending - 1, 0)
            return sseq
        if self._singles.first:
            sseq = self._singles.first
            self._singles.pop()
        elif self._cursor.next(self._record):
            sseq = self._record.seq
        else:
            return 0
        self._delivery.pending = max(self._delivery.pending - 1, 0)
        ledger.deliver(sseq, now)
        if keys is not None:
            state = keys.admits(sseq, self._record.subject())
            assert state is not None  # it was the next one
            keys.sent(state, sseq)
        return sseq

    def _note(self, size: int) -> None:
        self.sent += 1
        self.sent_bytes += size


def _ignore(sseq: int) -> None: ...
