"""Redeliver or give up messages that were not acknowledged in time.

One timer, for the message that is due first: a message costs nothing while it runs.  Many may be due at once,
so all of this is done in slices.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base import guard, slices
from millstream.base.build import pure_requested
from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.ledger import Ledger
    from millstream.jetstream.ports import Cancel, World

LONGEST_WAIT_NS: Final = 2**61  # some 70 years; what is due then still has a number

_NS: Final = 1_000_000_000
_SHORTEST_TIMER_S: Final = 0.001
_AT_ONCE = 16 if pure_requested() else 64  # messages
_COST = 16  # items of a slice that an advisory counts for


class Expiry:
    """The ack time-outs of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._world: World = consumer.world
        self._ledger: Ledger = consumer.ledger
        self._timer: Cancel | None = None
        self._due_ns = 0  # when it fires
        self._expiring = False  # what was due is looked at in slices

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def plan(self, now: int) -> None:
        """Set the timer after a delivery."""
        ledger = self._ledger
        if (
            self._timer is not None
            and not ledger.backoff
            and (not ledger.has_delayed() or self._due_ns <= now + ledger.ack_wait)
        ):
            return  # what is new is not due before
        self._fire_by(ledger.due())

    def _fire_by(self, due: int) -> None:
        """Let the timer fire at `due` at the latest; 0: nothing is due."""
        if self._expiring:
            return  # it is set when all is looked at
        if not due or (self._timer is not None and self._due_ns <= due):
            return
        self.stop()
        self._due_ns = due
        delay_s = max((due - self._world.steady_ns()) / _NS, 0.0) + _SHORTEST_TIMER_S
        self._timer = self._world.call_later(delay_s, self._expire)

    def plan_again(self) -> None:
        """Recompute the timer after the waiting times changed."""
        self.stop()
        slices.begin(self._world, "planning redeliveries", self._plan_all())
        self.plan(self._world.steady_ns())

    def deliver_all_again(self) -> None:
        """Redeliver all pending messages."""
        slices.begin(self._world, "queueing redeliveries", self._queue_all())

    def _plan_all(self) -> Pieces[None]:
        ledger, resets, sseq = self._ledger, self._ledger.resets, 0
        while ledger.resets == resets and (sseq := ledger.plan_some(sseq, _AT_ONCE)):
            yield _AT_ONCE
        if self._consumer.running:
            self.stop()
            self.plan(self._world.steady_ns())

    def _queue_all(self) -> Pieces[None]:
        ledger, resets, sseq = self._ledger, self._ledger.resets, 0
        last = ledger.delivered_sseq
        while ledger.resets == resets and self._consumer.running:
            sseq, given_up = ledger.queue_some(sseq, self._world.steady_ns(), _AT_ONCE)
            self._give_up_all(given_up)
            if not 0 < sseq < last:
                break
            yield _AT_ONCE
        if self._consumer.running:
            self._consumer.wake()

    def put_off(self, sseq: int, delay_ns: int) -> None:
        """Redeliver a message after a delay."""
        due = self._world.steady_ns() + min(max(delay_ns, 0), LONGEST_WAIT_NS)
        self._ledger.nak_later(sseq, due)
        self._consumer.keeper.touch()
        self._fire_by(due if self._timer is not None else self._ledger.due())

    def give_up(self, sseq: int) -> None:
        """Report a message that reached its maximum of deliveries, or make a dead letter of it."""
        if self._consumer.letters is not None:
            self._consumer.letters.give_up(sseq)
            return
        self._consumer.advisories.max_deliveries(sseq, self._ledger.max_deliver)
        self._consumer.unblock()

    def _give_up_all(self, sseqs: list[int]) -> None:
        for sseq in sseqs:
            guard.alone("giving a message up", self.give_up, sseq)

    def _expire(self) -> None:
        self._timer = None
        self._expiring = True
        slices.begin(self._world, "redeliveries", self._expire_all())

    def _expire_all(self) -> Pieces[None]:
        ledger, consumer = self._ledger, self._consumer
        try:
            while True:
                given_up = ledger.expire(self._world.steady_ns(), _AT_ONCE)
                self._give_up_all(given_up)
                if ledger.next_again():
                    consumer.wake()
                if not ledger.late:
                    break
                yield _AT_ONCE + _COST * len(given_up)
                if not consumer.running:
                    return
        finally:
            self._expiring = False
        self.plan(self._world.steady_ns())
