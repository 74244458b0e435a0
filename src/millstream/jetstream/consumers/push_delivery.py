"""Delivery to a subject: subscribers get messages as fast as they, or a limit, allow.

Starts with the first subscriber and stops with the last.  Heartbeats show that the consumer is alive while
there is nothing to deliver.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base.ids import secret_token
from millstream.jetstream.consumers import delivery as stops
from millstream.jetstream.consumers.flow import FlowWindow, OriginalPace, Rate
from millstream.jetstream.consumers.pull_statuses import PUSH_BASED
from millstream.jetstream.slow_receiver import SlowReceiverPoll
from millstream.jetstream.stride import Stride
from millstream.jsapi import headers as names
from millstream.jsapi.enums import AckPolicy, ReplayPolicy
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.feed import Feed  # noqa: F401 - a type of the .pxd
    from millstream.jetstream.ports import Cancel, ClientRequest
    from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
    from millstream.protocol.outlet import Outlet

_NS = 1_000_000_000
_MESSAGES_AT_ONCE = 2048  # then others have their turn, or after this time
_LONGEST_NS = 2_000_000
_BYTES_AT_ONCE = 1024 * 1024
_UNBOUNDED = 2**62
_FLOW_REQUEST: Final = headers.make_status(b"100 FlowControl Request")
_LAST_CONSUMER: Final = names.LAST_CONSUMER.encode()
_LAST_STREAM: Final = names.LAST_STREAM.encode()
_HEARTBEAT: Final = headers.make_status(b"100 Idle Heartbeat", (_LAST_CONSUMER, b"%d"), (_LAST_STREAM, b"%d"))
_STALLED: Final = names.CONSUMER_STALLED.encode()

_DONE = stops.DONE
_END = stops.END
_FULL = stops.FULL
_NOBODY = stops.NOBODY
_TOO_BIG = stops.TOO_BIG
_TIRED = stops.TIRED


class PushDelivery:
    """The delivery of a push consumer."""

    polled = False

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._world = consumer.world
        self._timer: Cancel | None = None  # for what has to wait: rate, pace, a receiver that is behind
        self._heartbeat: Cancel | None = None
        self._last_sent_ns = 0
        self._flow_handles: list[object] = []
        self._watch: object | None = None
        self._pace: OriginalPace | None = None
        self._patience = SlowReceiverPoll()
        self._stride = Stride()
        self.active = False  # somebody listens
        self.lost_interest_ns = consumer.world.steady_ns()
        self._follow()

    def _follow(self) -> None:
        """Apply the consumer's configuration."""
        config = self._consumer.config
        self._subject = config.deliver_subject.encode()
        self._outlet: Outlet = self._world.outlet(self._subject, config.deliver_group.encode() or None)
        self._window = FlowWindow() if config.flow_control else None
        burst = self._consumer.largest_message()
        self._rate = Rate(config.rate_limit_bps, burst) if config.rate_limit_bps else None
        self._heartbeat_ns = config.idle_heartbeat
        self._flow_acks = config.ack_policy is AckPolicy.FLOW_CONTROL

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        consumer = self._consumer
        if consumer.config.replay_policy is ReplayPolicy.ORIGINAL:
            self._pace = OriginalPace(consumer.stream.log.last_seq)
        if self._window is not None:
            answers = consumer.stream.account.subjects.all_flow_control(consumer.stream.name, consumer.name)
            self._flow_handles = [self._world.serve(each, self._answered) for each in answers]
        self._watch = self._world.watch(self._subject, self._interest_changed)
        if self._heartbeat_ns:
            self._plan_heartbeat(self._heartbeat_ns)
        self.check_interest()

    def stop(self) -> None:
        for timer in (self._timer, self._heartbeat):
            if timer is not None:
                timer.cancel()
        self._timer = self._heartbeat = None
        if self._watch is not None:
            self._world.release(self._watch)
            self._watch = None
        for handle in self._flow_handles:
            self._world.release(handle)
        self._flow_handles.clear()
        self.active = False

    def deleted(self) -> None:
        """Do nothing: clients notice that the heartbeats stop."""

    def shut_down(self) -> None: ...

    def configure(self, before: ConsumerConfig) -> None:
        """Change subject, group or rate if the configuration changed."""
        consumer, config = self._consumer, self._consumer.config
        if (before.deliver_subject, before.deliver_group, before.rate_limit_bps) != (
            config.deliver_subject,
            config.deliver_group,
            config.rate_limit_bps,
        ):
            self.stop()
            self._follow()
            self.start()
        if before.deliver_subject != config.deliver_subject:
            consumer.expiry.deliver_all_again()

    def ask(self, reply: bytes, body: bytes, block: bytes) -> None:
        """Refuse a pull request."""
        if reply:
            self._world.publish(reply, b"", headers=PUSH_BASED)

    def unpin(self, group: str) -> None:
        """Do nothing: push consumers have no priority groups."""

    def in_use(self) -> bool:
        return self.active

    def last_used_ns(self) -> int:
        return self.lost_interest_ns

    def describe(self, info: ConsumerInfo) -> None:
        info.push_bound = self.active

    # -- interest ---------------------------------------------------------------------------------

    def _interest_changed(self) -> None:
        self._world.call_soon(self.check_interest)

    def check_interest(self) -> None:
        if self._watch is None:
            return
        active = self._outlet.is_named()  # one who listens to everything does not make consumers deliver
        if active == self.active:
            return
        self.active = active
        if active:
            self._consumer.wake()
        else:
            self.lost_interest_ns = self._world.steady_ns()
            self._consumer.rest()
        self._consumer.inactivity.check()

    # -- delivering -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Deliver the messages that exist and may be sent."""
        consumer = self._consumer
        if not self.active:
            return
        if self._timer is not None:
            return  # it will pump
        if self._outlet.behind():
            self._wait(self._patience.look_after_s())
            return
        now = self._world.steady_ns()
        stopped = self._run(now)
        if stopped == _END:
            consumer.await_commit()
        elif stopped == _NOBODY:
            self.active = False
            self.lost_interest_ns = now
            consumer.rest()
            self.check_interest()
            consumer.inactivity.check()
        elif stopped == _FULL:
            consumer.fill()
        elif stopped in (_DONE, _TIRED):
            consumer.wake()

    def _run(self, now: int) -> int:
        """Send messages; return why it stopped.  DONE: others, a timer or the client come first."""
        consumer = self._consumer
        feed, window = consumer.feed, self._window
        left = _MESSAGES_AT_ONCE
        left_bytes = _BYTES_AT_ONCE
        end = now + _LONGEST_NS
        looked = now
        while left > 0 and left_bytes > 0:
            if left < _MESSAGES_AT_ONCE:
                began, looked = looked, self._world.steady_ns()
                self._stride.took(feed.sent, looked - began)
                if looked > end:
                    break
            most = min(left, self._stride.messages, consumer.room())
            if most == 0:
                return _TOO_BIG  # the keeper wakes
            room = left_bytes
            if window is not None:
                if window.is_blocked():
                    return _TOO_BIG  # the client's answer wakes
                room = min(room, window.room())
            if self._rate is not None:
                room = min(room, self._rate.room(now))
            if self._pace is not None and feed.next_sseq > self._pace.last_sseq:
                self._pace = None
            if self._pace is not None:
                pause = self._pace.pause_ns(feed, now)
                if pause:
                    self._wait(pause / _NS)
                    return _TOO_BIG
                most = 1
            stopped = feed.send(self._outlet, most, room, now)
            self._sent(now)
            if stopped == _TOO_BIG:
                wait = self._rate.wait_ns(consumer.delivery.too_big) if self._rate is not None else 0
                if wait:
                    self._wait(wait / _NS)
                    return stopped
                # It goes, but then something is to be decided.
                stopped = feed.send(self._outlet, 1, _UNBOUNDED, now)
                self._sent(now)
            if stopped != _DONE:
                return stopped
            left -= most
            left_bytes -= feed.sent_bytes
        return _DONE

    def _sent(self, now: int) -> None:
        feed = self._consumer.feed
        if not feed.sent:
            return
        self._last_sent_ns = now
        self._patience.is_over()
        self._consumer.delivered(now)
        if self._rate is not None:
            self._rate.sent(feed.sent_bytes)
        window = self._window
        if window is not None:
            due = window.sent(feed.sent_bytes)
            if due or (self._flow_acks and self._must_ask_for_acks()):
                self._ask()

    def _wait(self, delay_s: float) -> None:
        self._timer = self._world.call_later(delay_s, self._waited)

    def _waited(self) -> None:
        self._timer = None
        self._consumer.pump()

    # -- flow control -----------------------------------------------------------------------------

    def _flow_start(self) -> bytes:
        consumer = self._consumer
        return consumer.stream.account.subjects.flow_control(consumer.stream.name, consumer.name)

    def _must_ask_for_acks(self) -> bool:
        """Return True if flow control responses are the acks, and nothing may be sent without one."""
        consumer = self._consumer
        return (
            self._window is not None
            and not self._window.subject
            and 0 < consumer.config.max_ack_pending <= len(consumer.ledger.pending)
        )

    def _ask(self) -> None:
        assert self._window is not None
        self._window.ask(self._flow_start() + secret_token().encode())
        self._world.publish(self._subject, b"", reply=self._window.subject, headers=_FLOW_REQUEST)

    def _answered(self, request: ClientRequest) -> None:
        if self._window is None or not self._window.answer(request.subject):
            return
        if self._consumer.config.ack_policy is AckPolicy.FLOW_CONTROL and request.headers:
            sseq = _number(headers.find(request.headers, _LAST_STREAM))
            if 0 < sseq <= self._consumer.stream.log.last_seq:
                dseq = max(_number(headers.find(request.headers, _LAST_CONSUMER)), 0)
                self._consumer.acknowledging.acknowledge_all(sseq, dseq)
        self._consumer.wake()

    # -- heartbeats -------------------------------------------------------------------------------

    def _plan_heartbeat(self, wait_ns: int) -> None:
        self._heartbeat = self._world.call_later(wait_ns / _NS, self._beat)

    def _beat(self) -> None:
        """Send a heartbeat if nothing was sent for the interval; checked when the timer fires."""
        quiet_ns = self._world.steady_ns() - self._last_sent_ns
        if quiet_ns < self._heartbeat_ns:
            self._plan_heartbeat(self._heartbeat_ns - quiet_ns)
            return
        self._plan_heartbeat(self._heartbeat_ns)
        if self.active:
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        consumer, window = self._consumer, self._window
        block = _HEARTBEAT % (consumer.ledger.delivered_dseq, consumer.feed.next_sseq - 1)
        if window is not None and window.subject:
            block = headers.put(block, _STALLED, window.subject)
        self._world.publish(self._subject, b"", headers=block)
        if (
            window is not None
            and not window.subject
            and consumer.config.ack_policy is AckPolicy.FLOW_CONTROL
            and consumer.ledger.pending
        ):
            self._ask()


def _number(value: bytes | None) -> int:
    return int(value) if value and value.isdigit() and len(value) < 20 else -1
