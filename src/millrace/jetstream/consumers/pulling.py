"""Delivery on request: the queue of pull requests, and the messages they get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millrace.jetstream.consumers import delivery as stops
from millrace.jetstream.consumers.flow import OriginalPace
from millrace.jetstream.consumers.pulls import WaitingPulls
from millrace.jsapi import headers as names
from millrace.jsapi.enums import PriorityPolicy, ReplayPolicy

if TYPE_CHECKING:
    from millrace.jetstream.consumers.consumer import Consumer
    from millrace.jetstream.consumers.pull_requests import PullRequest
    from millrace.jetstream.ports import Cancel
    from millrace.protocol.outlet import Outlet

_NS: Final = 1_000_000_000
_MESSAGES_AT_ONCE: Final = 2048  # then others have their turn
_UNBOUNDED: Final = 2**62
_MAX_OUTLETS: Final = 64  # remembered at a time
_BEHIND_S: Final = 0.002
_PIN_ID: Final = names.PIN_ID.encode()


class Pulling:
    """How a pull consumer delivers."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._world = consumer.world
        self.waiting = WaitingPulls(consumer.config, consumer.world.has_interest)
        self._outlets: dict[bytes, Outlet] = {}
        self._timer: Cancel | None = None
        self._timer_ns = 0
        self._slow: Cancel | None = None  # a receiver is behind, or the pace of the original is kept
        self._pace: OriginalPace | None = None
        self._pins = consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT

    def configure(self) -> None:
        """Follow the consumer's configuration."""
        self.waiting.configure(self._consumer.config)
        self._pins = self._consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT
        if not self._pins:
            self._consumer.delivery.extra_header = b""

    def start(self) -> None:
        """Nothing happens before somebody asks."""
        if self._consumer.config.replay_policy is ReplayPolicy.ORIGINAL:
            self._pace = OriginalPace(self._consumer.stream.log.last_seq)

    def stop(self) -> None:
        for timer in (self._timer, self._slow):
            if timer is not None:
                timer.cancel()
        self._timer = self._slow = None

    def deleted(self) -> None:
        self.waiting.deleted()
        self.tell()

    def shut_down(self) -> None:
        self.waiting.shut_down()
        self.tell()

    # -- requests ---------------------------------------------------------------------------------

    def ask(self, reply: bytes, body: bytes, block: bytes) -> None:
        """A request came."""
        if not reply:
            return
        consumer = self._consumer
        again = consumer.ledger.waiting_again
        waits = self.waiting.ask(reply, body, block, self._world.now_ns(), consumer.feed.count(), again)
        self.tell()
        if waits and consumer.paused:
            self._settle(stops.END, self._world.now_ns())
        elif waits and consumer.config.priority_policy is PriorityPolicy.PRIORITIZED:
            consumer.wake()  # of requests that come together, the one that counts most is first
        elif waits:
            consumer.pump()

    def unpin(self, group: str) -> None:
        self.waiting.groups.unpin(group)
        self.tell()
        self._consumer.wake()

    # -- delivering -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Serve those who wait."""
        consumer, waiting = self._consumer, self.waiting
        if not waiting.count or self._slow is not None:
            return
        now = self._world.now_ns()
        left = _MESSAGES_AT_ONCE
        stopped = stops.DONE
        while left > 0 and waiting.count and stopped == stops.DONE:
            if not consumer.feed.has_more():
                stopped = stops.END
                break
            if consumer.feed.is_full():
                stopped = stops.FULL
                break
            again = 1 if consumer.ledger.waiting_again else 0
            request = waiting.current(now, consumer.delivery.pending + again, len(consumer.ledger.pending))
            self.tell()
            if request is None:
                stopped = stops.END  # of what those who wait may have
                break
            stopped = self._serve(request, now)
            left -= consumer.feed.sent or 1
        self._settle(stopped, now)

    def _serve(self, request: PullRequest, now: int) -> int:
        consumer, waiting = self._consumer, self.waiting
        outlet = self._outlet_of(request.reply)
        if not outlet.has_interest():
            waiting.gone(request)
            self.tell()
            return stops.DONE
        if outlet.behind():
            self._slow = self._world.call_later(_BEHIND_S, self._caught_up)
            return stops.TOO_BIG
        most = min(waiting.run_length(), _MESSAGES_AT_ONCE, consumer.keeper.room(consumer.wake))
        if most == 0:
            return stops.TOO_BIG  # the keeper wakes
        if self._pace is not None and consumer.feed.next_sseq > self._pace.last_sseq:
            self._pace = None
        if self._pace is not None:
            pause = self._pace.pause_ns(consumer.feed, now)
            if pause:
                self._slow = self._world.call_later(pause / _NS, self._caught_up)
                return stops.TOO_BIG
            most = 1
        if self._pins:
            consumer.delivery.extra_header = b"%b: %b\r\n" % (_PIN_ID, waiting.groups.pin_id.encode())
        stopped = consumer.feed.send(outlet, most, max(request.bytes_left, 0) or _UNBOUNDED, now)
        if consumer.feed.sent:
            waiting.served(request, consumer.feed.sent_bytes, now, consumer.feed.sent)
            consumer.delivered(now)
            self.tell()
        if stopped == stops.TOO_BIG:
            waiting.too_big(request)
            self.tell()
            return stops.DONE
        if stopped == stops.NOBODY:
            waiting.gone(request)
            self.tell()
            return stops.DONE
        return stopped

    def _settle(self, stopped: int, now: int) -> None:
        """Nothing more goes out for now: tell those who do not wait, and plan for those who do."""
        consumer, waiting = self._consumer, self.waiting
        dseq, sseq = consumer.ledger.delivered_dseq, consumer.feed.next_sseq - 1
        if stopped == stops.DONE and waiting.count and consumer.feed.has_more():
            consumer.wake()
        elif stopped in (stops.FULL, stops.TOO_BIG):
            if stopped == stops.FULL:
                consumer.fill()
            waiting.expire(now, dseq, sseq)
        else:
            if waiting.exhausted(now, dseq, sseq):
                consumer.wake()
            if waiting.count:
                consumer.hunger()
            else:
                consumer.rest()
        self.tell()
        self._plan()

    def _caught_up(self) -> None:
        self._slow = None
        self._consumer.pump()

    def _outlet_of(self, inbox: bytes) -> Outlet:
        outlet = self._outlets.get(inbox)
        if outlet is None:
            if len(self._outlets) >= _MAX_OUTLETS:
                self._outlets.clear()
            outlet = self._outlets[inbox] = self._world.outlet(inbox)
        return outlet

    def tell(self) -> None:
        """Send what the queue has to say."""
        waiting = self.waiting
        if waiting.statuses:
            statuses, waiting.statuses = waiting.statuses, []
            for inbox, block in statuses:
                self._world.publish(inbox, b"", headers=block)
        changes = waiting.groups.changes
        if changes:
            waiting.groups.changes = []
            for change in changes:
                if change.reason:
                    self._consumer.advisories.unpinned(change.group, change.reason)
                else:
                    self._consumer.advisories.pinned(change.group, change.pin_id)

    # -- time -------------------------------------------------------------------------------------

    def _plan(self) -> None:
        due = self.waiting.due()
        if not due or (self._timer is not None and self._timer_ns <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due
        delay_s = max((due - self._world.now_ns()) / _NS, 0.001)
        self._timer = self._world.call_later(delay_s, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        consumer = self._consumer
        if not consumer.paused:
            self.pump()
        now = self._world.now_ns()
        if self.waiting.exhausted(now, consumer.ledger.delivered_dseq, consumer.feed.next_sseq - 1):
            consumer.wake()
        self.tell()
        self._plan()
        consumer.inactivity.check()
