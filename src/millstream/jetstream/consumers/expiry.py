"""When messages that nobody acknowledged go out again, or are given up.

One timer, for the message that is due first: a message costs nothing while it runs.
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
    """Of one consumer."""

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
        """Something was delivered."""
        ledger = self._ledger
        now = self._consumer.world.steady_ns()
        if (
            self._timer is not None
            and not ledger.backoff
            and (not ledger.has_delayed() or self._due_ns <= now + ledger.ack_wait)
        ):
            return  # what is new is not due before; finding out what is due first takes long
        self._fire_by(ledger.due())

    def _fire_by(self, due: int) -> None:
        """Have the timer fire at `due` at the latest; 0: nothing is due."""
        if not due or (self._timer is not None and self._due_ns <= due):
            return
        self.stop()
        self._due_ns = due
        world = self._consumer.world
        delay_s = max((due - world.steady_ns()) / _NS, 0.0) + _SHORTEST_TIMER_S
        self._timer = world.call_later(delay_s, self._expire)

    def plan_again(self) -> None:
        """Messages wait longer or shorter than they did."""
        self._ledger.plan_again(self._consumer.world.steady_ns())
        self.stop()
        self.plan()

    def put_off(self, sseq: int, delay_ns: int) -> None:
        """Somebody does not want the message now."""
        due = self._consumer.world.steady_ns() + min(max(delay_ns, 0), LONGEST_WAIT_NS)
        self._ledger.nak_later(sseq, due)
        self._consumer.keeper.touch()
        self._fire_by(due if self._timer is not None else self._ledger.due())

    def give_up(self, sseq: int) -> None:
        """It was delivered as often as it may."""
        self._consumer.advisories.max_deliveries(sseq, self._ledger.max_deliver)
        self._consumer.unblock()

    def _expire(self) -> None:
        self._timer = None
        for sseq in self._ledger.expire(self._consumer.world.steady_ns()):
            guard.alone("giving a message up", self.give_up, sseq)
        if self._ledger.next_again():
            self._consumer.wake()
        self.plan()
