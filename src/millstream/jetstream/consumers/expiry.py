"""Redeliver or give up messages that were not acknowledged in time.

There is one timer, for the message that is due first, so a message costs nothing while it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base import guard

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.ports import Cancel

LONGEST_WAIT_NS: Final = 2**61  # some 70 years; what is due then still has a number

_NS: Final = 1_000_000_000
_SHORTEST_TIMER_S: Final = 0.001


class Expiry:
    """The ack time-outs of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ledger = consumer.ledger
        self._timer: Cancel | None = None
        self._due_ns = 0  # when it fires

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def plan(self) -> None:
        """Set the timer after a delivery or a delayed nak."""
        if self._timer is not None and not self._ledger.backoff and not self._ledger.has_delayed():
            return
        due = self._ledger.due()
        if not due or (self._timer is not None and self._due_ns <= due):
            return
        self.stop()
        self._due_ns = due
        world = self._consumer.world
        delay_s = max((due - world.steady_ns()) / _NS, 0.0) + _SHORTEST_TIMER_S
        self._timer = world.call_later(delay_s, self._expire)

    def plan_again(self) -> None:
        """Recompute the timer after the waiting times changed."""
        self._ledger.plan_again(self._consumer.world.steady_ns())
        self.stop()
        self.plan()

    def put_off(self, sseq: int, delay_ns: int) -> None:
        """Redeliver a message after a delay."""
        now = self._consumer.world.steady_ns()
        self._ledger.nak_later(sseq, now + min(max(delay_ns, 0), LONGEST_WAIT_NS))
        self._consumer.keeper.touch()
        self.plan()

    def give_up(self, sseq: int) -> None:
        """Report a message that reached its maximum of deliveries."""
        self._consumer.advisories.max_deliveries(sseq, self._ledger.max_deliver)
        self._consumer.unblock()

    def _expire(self) -> None:
        self._timer = None
        for sseq in self._ledger.expire(self._consumer.world.steady_ns()):
            guard.alone("giving a message up", self.give_up, sseq)
        if self._ledger.next_again():
            self._consumer.wake()
        self.plan()
