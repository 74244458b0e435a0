"""Delivery on request: the queue of pull requests, and the messages they get.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from millstream.base import slices
from millstream.base.build import pure_requested
from millstream.base.slices import Pieces
from millstream.jetstream.consumers import delivery as stops
from millstream.jetstream.consumers.flow import OriginalPace
from millstream.jetstream.consumers.pull_queue import WaitingPulls
from millstream.jetstream.slow_receiver import SlowReceiverPoll
from millstream.jetstream.stride import Stride
from millstream.jsapi import headers as names
from millstream.jsapi.enums import PriorityPolicy, ReplayPolicy
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.feed import Feed  # noqa: F401 - a type of the .pxd
    from millstream.jetstream.consumers.pull_request import PullRequest
    from millstream.jetstream.ports import Cancel
    from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
    from millstream.protocol.outlet import Outlet

_NS = 1_000_000_000
_MESSAGES_AT_ONCE = 2048  # then others have their turn, or after this time
_LONGEST_NS = 2_000_000
_UNBOUNDED = 2**62
_BYTES_AT_ONCE = 1024 * 1024
_MAX_OUTLETS = 64  # remembered at a time
_MAX_PASSED_OVER = 256  # one after the other, until it looks as if all were behind
_TOLD_AT_ONCE = 8 if pure_requested() else 64  # statuses
_STATUS_COST = 4  # items of a slice that each counts for
_REQUEST_COST = 4  # messages that serving a request takes as long as, without its messages
_PIN_ID: Final = names.PIN_ID.encode()

_DONE = stops.DONE
_END = stops.END
_FULL = stops.FULL
_NOBODY = stops.NOBODY
_TOO_BIG = stops.TOO_BIG
_TIRED = stops.TIRED


class PullDelivery:
    """The delivery of a pull consumer."""

    active = False
    polled = True  # a request may end without a word

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._world = consumer.world
        self.waiting = WaitingPulls(consumer.config, consumer.world.has_interest)
        self._outlets: dict[bytes, Outlet] = {}
        self._timer: Cancel | None = None
        self._timer_ns = 0
        self._pause: Cancel | None = None  # the pace of the original is kept
        self._pace: OriginalPace | None = None
        self._look: Cancel | None = None  # those who may be served are behind
        self._patience = SlowReceiverPoll()
        self._stride = Stride()
        self._pins = consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT
        self._untold: deque[tuple[bytes, bytes]] = deque()  # statuses that are sent in slices
        self._telling = False

    def configure(self, before: ConsumerConfig) -> None:
        """Apply the consumer's configuration."""
        self.waiting.configure(self._consumer.config)
        self._pins = self._consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT
        if not self._pins:
            self._consumer.delivery.extra_header = b""

    def start(self) -> None:
        """Prepare the pace; nothing is delivered before a request."""
        if self._consumer.config.replay_policy is ReplayPolicy.ORIGINAL:
            self._pace = OriginalPace(self._consumer.stream.log.last_seq)

    def stop(self) -> None:
        for timer in (self._timer, self._pause, self._look):
            if timer is not None:
                timer.cancel()
        self._timer = self._pause = self._look = None

    def deleted(self) -> None:
        slices.begin(self._world, "statuses", self._end_all())

    def shut_down(self) -> None:
        """End all waiting requests at once, because the server stops."""
        self.waiting.shut_down()
        self.tell()
        slices.finish(self._tell_all())

    # -- requests ---------------------------------------------------------------------------------

    def ask(self, reply: bytes, body: bytes, block: bytes) -> None:
        """Handle a pull request."""
        if not reply:
            return
        consumer = self._consumer
        try:
            pending = consumer.feed.count()
        except StoreError:  # the delivery meets it too, and tries again later
            pending = consumer.delivery.pending
        again = consumer.ledger.waiting_again
        waits = self.waiting.ask(reply, body, block, self._world.steady_ns(), pending, again)
        self.tell()
        if waits and consumer.paused:
            self._settle(_END, self._world.steady_ns())
        elif waits and consumer.config.priority_policy is PriorityPolicy.PRIORITIZED:
            consumer.wake()  # of requests that come together, the one that counts most is first
        elif waits:
            consumer.pump()

    def unpin(self, group: str) -> None:
        self.waiting.groups.unpin(group)
        self.tell()
        self._consumer.wake()

    def in_use(self) -> bool:
        """Return True if a client waits for messages, or still has some to acknowledge."""
        now = self._world.steady_ns()
        return self.waiting.num_waiting(now) > 0 or self._consumer.ledger.due() > now

    def last_used_ns(self) -> int:
        consumer = self._consumer
        return max(self.waiting.last_asked_ns, consumer.last_ack_ns, consumer.started_ns)

    def describe(self, info: ConsumerInfo) -> None:
        info.num_waiting = self.waiting.num_waiting(self._world.steady_ns())
        self.tell()
        info.priority_groups = self.waiting.groups.state()

    # -- delivering -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Serve the waiting requests."""
        consumer, waiting = self._consumer, self.waiting
        feed = consumer.feed
        if not waiting.count or self._telling:
            return
        now = self._world.steady_ns()
        if self._pause is not None:
            self._settle(_TOO_BIG, now)  # requests expire and get heartbeats meanwhile
            return
        left = _MESSAGES_AT_ONCE
        left_bytes = _BYTES_AT_ONCE
        passed_over = 0
        stopped = _DONE
        end = now + _LONGEST_NS
        looked = now
        while left > 0 and left_bytes > 0 and waiting.count and stopped == _DONE:
            if left < _MESSAGES_AT_ONCE:
                began, looked = looked, self._world.steady_ns()
                self._stride.took(feed.sent, looked - began)
                if looked > end:
                    break
            if not feed.has_more():
                stopped = _END
                break
            if feed.is_full():
                stopped = _FULL
                break
            again = 1 if consumer.ledger.waiting_again else 0
            request = waiting.current(now, consumer.delivery.pending + again, len(consumer.ledger.pending))
            self.tell()
            if request is None:
                stopped = _END  # of what those who wait may have
                break
            if self._untold:
                stopped = _TOO_BIG  # what follows waits for that
                break
            outlet = self._outlet_of(request.reply)
            if outlet.behind():
                left -= 1
                passed_over += 1
                if passed_over >= min(waiting.count, _MAX_PASSED_OVER) or not waiting.pass_over(request):
                    stopped = _TOO_BIG
                    self._look_again()
                continue
            passed_over = 0
            stopped = self._serve(request, outlet, left_bytes, now)
            left -= feed.sent + _REQUEST_COST
            left_bytes -= feed.sent_bytes
        self._settle(stopped, now)

    def _serve(self, request: PullRequest, outlet: Outlet, most_bytes: int, now: int) -> int:
        consumer, waiting = self._consumer, self.waiting
        feed = consumer.feed
        feed.sent = feed.sent_bytes = 0
        if not outlet.has_interest():
            waiting.gone(request)
            self.tell()
            return _DONE
        most = min(waiting.run_length(), self._stride.messages, consumer.room())
        if most == 0:
            return _TOO_BIG  # the keeper wakes
        if self._pace is not None and feed.next_sseq > self._pace.last_sseq:
            self._pace = None
        if self._pace is not None:
            pause = self._pace.pause_ns(feed, now)
            if pause:
                self._pause = self._world.call_later(pause / _NS, self._pause_ended)
                return _TOO_BIG
            most = 1
        if self._pins:
            consumer.delivery.extra_header = b"%b: %b\r\n" % (_PIN_ID, waiting.groups.pin_id.encode())
        stopped = self._send(request, outlet, most, most_bytes, now)
        if feed.sent:
            self._patience.is_over()
            waiting.served(request, feed.sent_bytes, now, feed.sent)
            consumer.delivered(now)
            self.tell()
        letters = consumer.letters if stopped == _TOO_BIG and request.bytes_left > 0 else None
        if letters is not None and letters.take_oversized(now):
            return _DONE
        if stopped == _TOO_BIG:
            waiting.too_big(request)
            self.tell()
            return _DONE
        if stopped == _NOBODY:
            waiting.gone(request)
            self.tell()
            return _DONE
        return stopped

    def _send(self, request: PullRequest, outlet: Outlet, most: int, most_bytes: int, now: int) -> int:
        """Send messages to a request; return TOO_BIG if the next does not fit it."""
        feed = self._consumer.feed
        own_most = request.bytes_left if request.bytes_left > 0 else _UNBOUNDED
        if own_most <= most_bytes:
            return feed.send(outlet, most, own_most, now)
        stopped = feed.send(outlet, most, most_bytes, now)
        if stopped != _TOO_BIG:
            return stopped
        return _DONE if feed.sent else feed.send(outlet, 1, own_most, now)

    def _settle(self, stopped: int, now: int) -> None:
        """End the turn: end requests that do not wait, and set timers for those that do."""
        consumer, waiting = self._consumer, self.waiting
        dseq, sseq = consumer.ledger.delivered_dseq, consumer.feed.next_sseq - 1
        goes_on = stopped in (_DONE, _TIRED)
        if goes_on and waiting.count and consumer.feed.has_more():
            consumer.wake()
        elif stopped in (_FULL, _TOO_BIG):
            if stopped == _FULL:
                consumer.fill()
            waiting.expire(now, dseq, sseq)
        else:
            if waiting.exhausted(now, dseq, sseq):
                consumer.wake()
            if waiting.count:
                consumer.await_commit()
            else:
                consumer.rest()
        self.tell()
        self._plan()

    def _pause_ended(self) -> None:
        self._pause = None
        self._consumer.pump()

    def _look_again(self) -> None:
        """Poll the slow receiver: no event fires when its socket drains."""
        if self._look is None:
            self._look = self._world.call_later(self._patience.look_after_s(), self._looked)

    def _looked(self) -> None:
        self._look = None
        self._consumer.pump()

    def _outlet_of(self, inbox: bytes) -> Outlet:
        outlet = self._outlets.get(inbox)
        if outlet is None:
            if len(self._outlets) >= _MAX_OUTLETS:
                self._outlets.clear()
            outlet = self._outlets[inbox] = self._world.outlet(inbox)
        return outlet

    def tell(self) -> None:
        """Send the statuses and advisories that the queue has collected."""
        waiting = self.waiting
        if waiting.statuses:
            statuses, waiting.statuses = waiting.statuses, []
            if not self._telling and len(statuses) <= _TOLD_AT_ONCE:
                for inbox, block in statuses:
                    self._world.publish(inbox, b"", headers=block)
            else:
                self._untold.extend(statuses)
                if not self._telling:
                    self._telling = True
                    slices.begin(self._world, "statuses", self._tell_all())
        changes = waiting.groups.changes
        if changes:
            waiting.groups.changes = []
            for change in changes:
                if change.reason:
                    self._consumer.advisories.unpinned(change.group, change.reason)
                else:
                    self._consumer.advisories.pinned(change.group, change.pin_id)

    def _end_all(self) -> Pieces[None]:
        """End all waiting requests of a deleted consumer."""
        while self.waiting.count:
            self.waiting.deleted(_TOLD_AT_ONCE)
            self.tell()
            yield _TOLD_AT_ONCE * _STATUS_COST

    def _tell_all(self) -> Pieces[None]:
        """Send statuses; no message goes out before the last of them, since it may be for the same inbox."""
        while self._untold:
            for _ in range(min(len(self._untold), _TOLD_AT_ONCE)):
                inbox, block = self._untold.popleft()
                self._world.publish(inbox, b"", headers=block)
            yield _TOLD_AT_ONCE * _STATUS_COST
        self._telling = False
        self._consumer.wake()

    # -- time -------------------------------------------------------------------------------------

    def _plan(self) -> None:
        due = self.waiting.due()
        if not due or (self._timer is not None and self._timer_ns <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due
        delay_s = max((due - self._world.steady_ns()) / _NS, 0.001)
        self._timer = self._world.call_later(delay_s, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        consumer = self._consumer
        consumer.pump()
        now = self._world.steady_ns()
        if self.waiting.exhausted(now, consumer.ledger.delivered_dseq, consumer.feed.next_sseq - 1):
            consumer.wake()
        self.tell()
        self._plan()
        consumer.inactivity.check()
