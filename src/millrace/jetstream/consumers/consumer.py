"""A consumer: a place in a stream, what it delivered from there, and who it delivers to.

Puts the parts together and does what they cannot do without the world: timers, advisories, subjects.

    stream committed ─┐                                    ┌▶ pushing ─┐
    ack, nak, term ───┼▶ consumer ─ feed ─ ledger ─ keeper │           ├▶ outlet
    pull request ─────┘                                    └▶ pulling ─┘

Everything runs on the loop's thread.  Nothing is delivered before it is committed.
"""

from __future__ import annotations

import logging
import random
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from millrace.base.ids import short_hash
from millrace.jetstream.consumers.acks import AckSink, AckSubject
from millrace.jetstream.consumers.config import paused
from millrace.jetstream.consumers.config_rules import filters_of
from millrace.jetstream.consumers.delivery import Delivery
from millrace.jetstream.consumers.feed import Feed
from millrace.jetstream.consumers.inactivity import Inactivity
from millrace.jetstream.consumers.keeper import NoKeeper
from millrace.jetstream.consumers.ledger import Ledger
from millrace.jetstream.consumers.nak_delay import delay_of
from millrace.jetstream.consumers.pulling import Pulling
from millrace.jetstream.consumers.pushing import Pushing
from millrace.jetstream.consumers.start import Start, find_rest, find_start
from millrace.jsapi.consumer_types import ConsumerConfig, ConsumerInfo, SequenceInfo
from millrace.jsapi.enums import AckPolicy, DeliverPolicy, RetentionPolicy
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.go_time import Time
from millrace.store.errors import StoreError

if TYPE_CHECKING:
    from millrace.jetstream.consumers.keeper import Keeper
    from millrace.jetstream.ports import Cancel, World
    from millrace.jetstream.stream import Stream

_log = logging.getLogger("millrace.jetstream")

_NS: Final = 1_000_000_000
_SHORTEST_TIMER_S: Final = 0.001
_LONGEST_WAIT_NS: Final = 2**61  # some 70 years; what is due then still has a number
_RETRY_S: Final = 1.0  # between tries to read from a disk that failed
_FROM_THE_END: Final = (
    DeliverPolicy.NEW,
    DeliverPolicy.LAST,
    DeliverPolicy.LAST_PER_SUBJECT,
    DeliverPolicy.BY_START_TIME,
)
_PUSH_BASED: Final = b"NATS/1.0 409 Consumer is push based\r\n\r\n"
_REMOVED: Final = "Unacknowledged message was deleted"


class Consumer:
    """One consumer of one stream."""

    def __init__(self, stream: Stream, name: str, config: ConsumerConfig, created_ns: int) -> None:
        self.stream = stream
        self.world: World = stream.world
        self.name = name
        self.config: ConsumerConfig = config
        self.created_ns = created_ns
        self.started_ns = stream.world.now_ns()
        self.keeper: Keeper | NoKeeper
        self.advisories = stream.account.advisories.of_consumer(stream.name, name)
        self.ledger = Ledger()
        self.delivery = Delivery(self.ledger, b"$JS.ACK.%b.%b." % (stream.name.encode(), name.encode()))
        self.feed = Feed(
            stream.log, self.ledger, self.delivery, given_up=self._given_up, missing=self.message_removed
        )
        self.acks = AckSink(self.ledger, self._said, self._acks_came)
        self.inactivity = Inactivity(self)
        self.last_delivery_ns = 0
        self.last_ack_ns = 0
        self._handles: list[object] = []
        self._expiry: Cancel | None = None
        self._expiry_ns = 0
        self._resume: Cancel | None = None
        self._read_again: Cancel | None = None  # the disk did not give a message
        self._full = False  # nothing goes out before something is settled
        self._awake = False  # a pump is planned
        self._pumping = False
        self.running = False
        self.released = 0  # without acks: what a stream that keeps what is of interest was told about
        self._take_over(config)
        self.mode: Pushing | Pulling = Pushing(self) if config.deliver_subject else Pulling(self)

    def _take_over(self, config: ConsumerConfig) -> None:
        self.config = config
        self.patterns = tuple(subject.encode() for subject in filters_of(config))
        ledger, delivery = self.ledger, self.delivery
        ledger.ack_wait = min(config.ack_wait, _LONGEST_WAIT_NS)
        ledger.backoff = tuple(min(wait, _LONGEST_WAIT_NS) for wait in config.backoff)
        ledger.max_deliver = max(config.max_deliver, 0)
        delivery.settles = config.ack_policy is AckPolicy.NONE
        delivery.headers_only = config.headers_only
        delivery.max_pending = max(config.max_ack_pending, 0) if not delivery.settles else 0
        self._sample_percent = _sampling(config.sample_freq)
        self.follow_retention()

    def follow_retention(self) -> None:
        """An ack may go the short way if it does not decide whether the stream keeps a message."""
        self.acks.plain = (
            self.config.ack_policy is AckPolicy.EXPLICIT
            and not self._sample_percent
            and self.stream.config.retention is RetentionPolicy.LIMITS
        )

    # -- life -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new one: find the place to start from."""
        start = find_start(
            self.stream.log, self.config, self.patterns, one_per_subject=self._keeps_one_per_subject
        )
        self.feed.begin(start, self.patterns)
        self.ledger.start_at(start.sseq)
        self.released = self.ledger.floor_sseq

    def go_on(self) -> None:
        """One that was restored: behind what it delivered, with what is left of that."""
        ledger, log = self.ledger, self.stream.log
        if not self.stream.sync or self.config.deliver_policy in _FROM_THE_END:
            # A crash can cost messages that were delivered, or that it was to begin behind.
            ledger.forget_above(max(log.last_seq, self.config.opt_start_seq - 1))
        for sseq in ledger.remove_below(log.first_seq):
            ledger.remove(sseq)
        for sseq in [sseq for sseq in ledger.pending if not log.has(sseq)]:
            ledger.remove(sseq)
        ledger.plan_again(self.world.now_ns())
        self._begin_at(max(ledger.delivered_sseq + 1, log.first_seq))
        self.released = ledger.floor_sseq

    def _begin_at(self, sseq: int) -> None:
        """Deliver from `sseq` on what was not settled before."""
        start = Start(sseq)
        if self.config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT and not self._keeps_one_per_subject:
            start = find_rest(self.stream.log, self.patterns, sseq, self.created_ns)
        self.feed.begin(start, self.patterns)

    @property
    def _keeps_one_per_subject(self) -> bool:
        return self.stream.config.max_msgs_per_subject == 1

    def start(self) -> None:
        """Listen and deliver."""
        self.running = True
        world, stream, name = self.world, self.stream.name.encode(), self.name.encode()
        if self.config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
            identity = account_hash(self.stream.account.name).encode()
            domain = self.stream.account.domain.encode() or b"_"
            second = b"$JS.ACK.%b.%b.%b.%b.*.*.*.*.>" % (domain, identity, stream, name)
            self._handles += [
                world.capture(b"$JS.ACK.%b.%b.>" % (stream, name), self.acks),
                world.capture(second, self.acks),
            ]
        self._handles.append(
            world.serve(
                b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (stream, name),
                lambda request: self._asked_for_messages(request.reply, request.payload, request.headers),
            )
        )
        self._plan_pause()
        self.mode.start()
        self._plan_expiry()
        self.inactivity.start()

    def stop(self) -> None:
        """Neither take nor send anything any more."""
        self.running = False
        for handle in self._handles:
            self.world.release(handle)
        self._handles.clear()
        for timer in (self._expiry, self._resume, self._read_again):
            if timer is not None:
                timer.cancel()
        self._expiry = self._resume = self._read_again = None
        self.mode.stop()
        self.inactivity.stop()
        self.rest()

    # -- delivering -------------------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to deliver."""
        if not self._awake and self.running:
            self._awake = True
            self.world.call_soon(self._wake_up)

    def _wake_up(self) -> None:
        self._awake = False
        self.pump()

    def pump(self) -> None:
        """Deliver what there is and may go."""
        if not self.running or self.paused or self._read_again is not None:
            return
        if self._pumping:  # it delivers to where it is asked for messages
            self.wake()
            return
        self._pumping = True
        try:
            self.mode.pump()
        except StoreError as error:
            _log.error("consumer %s of stream %s: %s", self.name, self.stream.name, error)
            self._read_again = self.world.call_later(_RETRY_S, self._try_again)
        finally:
            self._pumping = False
        self.world.flush()

    def _try_again(self) -> None:
        self._read_again = None
        self.pump()

    def hunger(self) -> None:
        """Everything is delivered: tell me when there is more."""
        self.stream.consumers.hungry.add(self)

    def rest(self) -> None:
        """Nobody wants anything now."""
        self.stream.consumers.hungry.discard(self)

    def fill(self) -> None:
        """So much is not acknowledged that nothing more may go out."""
        self._full = True
        self.rest()

    def delivered(self, now: int) -> None:
        """The feed sent something."""
        if now < self.last_delivery_ns:
            self.ledger.plan_again(now)  # the clock was set back
        self.last_delivery_ns = now
        self.keeper.touch()
        if self.delivery.settles:
            if self.stream.config.retention is not RetentionPolicy.LIMITS:
                self.stream.consumers.interest.settled_up_to(self)
        else:
            self._plan_expiry()

    def _unblock(self) -> None:
        """Something was settled."""
        self.keeper.touch()
        if self._full:
            self._full = False
            self.wake()

    # -- what clients say -------------------------------------------------------------------------

    def _asked_for_messages(self, reply: bytes, body: bytes, headers: bytes) -> None:
        if isinstance(self.mode, Pulling):
            self.mode.ask(reply, body, headers)
        elif reply:
            self.world.publish(reply, b"", headers=_PUSH_BASED)

    def _acks_came(self) -> None:
        """The first of some plain acks: look after them when all are in."""
        self.world.call_soon(self._look_after_acks)

    def _look_after_acks(self) -> None:
        self.acks.tell_again()
        self.last_ack_ns = self.world.now_ns()
        self._unblock()

    def _said(self, ack: AckSubject, payload: bytes, reply: bytes) -> None:
        """Anything but a plain ack without an answer."""
        sseq, dseq, deliveries = ack.sseq, ack.dseq, ack.deliveries
        if payload in (b"", b"+ACK", b"+OK"):
            if self._acknowledge(sseq, dseq, deliveries, sample=True):
                self._answer_when_durable(reply)
        elif payload.startswith(b"+NXT"):
            self._acknowledge(sseq, dseq, deliveries, sample=True)
            self._asked_for_messages(reply, payload[4:], b"")
        elif payload.startswith(b"+TERM"):
            reason = payload[5:].strip().decode(errors="replace")
            if self._terminate(sseq, dseq, deliveries, reason):
                self._answer_when_durable(reply)
        else:
            if payload.startswith(b"-NAK"):
                self._refuse(sseq, dseq, deliveries, payload[4:])
            elif payload == b"+WPI":
                self.ledger.progress(sseq, self.world.now_ns())
                self.keeper.touch()
            if reply and sseq:
                self.world.publish(reply, b"")

    def _answer_when_durable(self, reply: bytes) -> None:
        if not reply:
            return

        def answer(error: StoreError | None) -> None:
            if error is None:
                self.world.publish(reply, b"")

        if isinstance(self.keeper, NoKeeper) and self.stream.config.retention is not RetentionPolicy.LIMITS:
            self.stream.after_outcome(answer)  # the ack is kept nowhere but in that the message is gone
        else:
            self.keeper.when_durable(answer)

    def _acknowledge(self, sseq: int, dseq: int, deliveries: int, *, sample: bool) -> bool:
        """False if it cannot have been delivered."""
        if sseq >= self.feed.next_sseq and sseq > self.ledger.delivered_sseq:
            return False
        if self.config.ack_policy is AckPolicy.ALL:
            self.acknowledge_all(sseq, dseq)
            return True
        entry = self.ledger.pending.get(sseq)
        if entry is not None and sample and self._is_sampled():
            self.advisories.acked(dseq, sseq, self.world.now_ns() - entry.at, deliveries)
        self.last_ack_ns = self.world.now_ns()
        self.ledger.ack(sseq)
        self.stream.consumers.interest.settled((sseq,))
        self._unblock()
        return True

    def acknowledge_all(self, sseq: int, dseq: int) -> None:
        """Everything up to here; a delivery that never was would leave no room for later ones."""
        dseq = min(dseq, self.ledger.delivered_dseq)
        if dseq <= self.ledger.floor_dseq or sseq <= self.ledger.floor_sseq:
            return
        self.last_ack_ns = self.world.now_ns()
        settled = self.ledger.ack_all(sseq, dseq)
        self.stream.consumers.interest.settled((*settled, sseq))
        self._unblock()

    def _terminate(self, sseq: int, dseq: int, deliveries: int, reason: str) -> bool:
        accepted = self._acknowledge(sseq, dseq, deliveries, sample=False)
        self.advisories.terminated(dseq, sseq, deliveries, reason)
        return accepted

    def _refuse(self, sseq: int, dseq: int, deliveries: int, argument: bytes) -> None:
        if not self.ledger.may_nak(sseq, dseq):
            return
        self.advisories.naked(dseq, sseq, deliveries)
        delay = delay_of(argument)
        if delay is None:
            self.ledger.nak(sseq)
            self.wake()
        else:
            self.ledger.nak_later(sseq, self.world.now_ns() + min(max(delay, 0), _LONGEST_WAIT_NS))
            self.keeper.touch()
            self._plan_expiry()

    def _is_sampled(self) -> bool:
        percent = self._sample_percent
        return percent >= 100 or (percent > 0 and random.randrange(100) <= percent)

    # -- what goes out again ----------------------------------------------------------------------

    def _plan_expiry(self) -> None:
        """One timer, for the message that is due first; a message costs nothing while it runs."""
        if self._expiry is not None and not self.ledger.backoff and not self.ledger.has_delayed():
            return
        due = self.ledger.due()
        if not due or (self._expiry is not None and self._expiry_ns <= due):
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_ns = due
        delay_s = max((due - self.world.now_ns()) / _NS, 0.0) + _SHORTEST_TIMER_S
        self._expiry = self.world.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        for sseq in self.ledger.expire(self.world.now_ns()):
            self._given_up(sseq)
        if self.ledger.next_again():
            self.wake()
        self._plan_expiry()

    def _given_up(self, sseq: int) -> None:
        self.advisories.max_deliveries(sseq, self.ledger.max_deliver)
        self._unblock()

    # -- what the stream says ---------------------------------------------------------------------

    def message_removed(self, sseq: int) -> None:
        """The stream does not have it any more, though it was not acknowledged."""
        entry = self.ledger.pending.get(sseq)
        deliveries = max(self.ledger.deliveries(sseq) - 1, 1)  # as nats-server counts here
        self.ledger.remove(sseq)
        if entry is not None:
            self.last_ack_ns = self.world.now_ns()
            self.advisories.terminated(entry.dseq, sseq, deliveries, _REMOVED)
            self._unblock()

    def removed_below(self, sseq: int) -> None:
        """The stream begins at `sseq` now."""
        for each in self.ledger.remove_below(sseq):
            self.message_removed(each)

    def lost(self, sseqs: set[int]) -> None:
        """These are not there any more, and nobody needs to be told."""
        for sseq in sseqs & self.ledger.pending.keys():
            self.ledger.remove(sseq)
            self.last_ack_ns = self.world.now_ns()

    def purged(self, sseq: int) -> None:
        """Nothing below `sseq` is there any more, and nobody needs to be told."""
        pending = len(self.ledger.pending)
        self.ledger.skip_to(sseq)
        if len(self.ledger.pending) < pending:
            self.last_ack_ns = self.world.now_ns()
        self.feed.skip_to(sseq)
        self._unblock()

    # -- what administrators say ------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        until = self.config.pause_until
        return until is not None and self.world.now_ns() < int(until)

    def _plan_pause(self) -> bool:
        """Whether there is a pause that will end."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        until = self.config.pause_until
        left = int(until) - self.world.now_ns() if until is not None else 0
        if left > 0:
            self._resume = self.world.call_later(left / _NS, self._resumed)
        return left > 0

    def _resumed(self) -> None:
        self._resume = None
        if not self._plan_pause():  # else the clock and the timer do not agree
            self.advisories.paused(self.config.pause_until, paused=False)
            self.wake()

    def pause(self, until: Time | None) -> None:
        """Deliver nothing until then; None: from now on again."""
        self.stream.consumers.update(self, paused(self.config, until))

    def delete(self) -> None:
        self.stream.consumers.remove(self)

    def update(self, config: ConsumerConfig) -> None:
        """Take over another configuration that was checked."""
        before = self.config
        patterns = self.patterns
        self._take_over(config)
        if patterns != self.patterns:
            self.feed.choose(self.patterns)
            interest = self.stream.consumers.interest
            interest.given_back(interest.held_by(self))
        if isinstance(self.mode, Pushing):
            if (before.deliver_subject, before.deliver_group, before.rate_limit_bps) != (
                config.deliver_subject,
                config.deliver_group,
                config.rate_limit_bps,
            ):
                self.mode.moved()
            if before.deliver_subject != config.deliver_subject:
                for sseq in self.ledger.queue_all(self.world.now_ns()):
                    self._given_up(sseq)
        else:
            self.mode.configure()
        if before.pause_until != config.pause_until:
            self._plan_pause()
            self.advisories.paused(config.pause_until, paused=self.paused)
        if (before.ack_wait, before.backoff) != (config.ack_wait, config.backoff):
            self.ledger.plan_again(self.world.now_ns())
            if self._expiry is not None:
                self._expiry.cancel()
                self._expiry = None
            self._plan_expiry()
        if before.inactive_threshold != config.inactive_threshold:
            self.inactivity.stop()
            self.inactivity.check()
        self._full = False
        self.wake()

    def reset(self, sseq: int | None) -> int:
        """Begin anew at `sseq`, or at the first message that is not settled; where that is."""
        config = self.config
        if not sseq:
            sseq = self.ledger.floor_sseq + 1
        elif config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE:
            if sseq < config.opt_start_seq:
                raise ApiError(Err.CONSUMER_INVALID_RESET, err="below start seq")
        elif config.deliver_policy is DeliverPolicy.BY_START_TIME:
            assert config.opt_start_time is not None
            log = self.stream.log
            if sseq < (log.seq_at_time(int(config.opt_start_time)) or log.last_seq + 1):
                raise ApiError(Err.CONSUMER_INVALID_RESET, err="below start time")
        elif config.deliver_policy is not DeliverPolicy.ALL:
            raise ApiError(Err.CONSUMER_INVALID_RESET, err="not allowed")
        interest = self.stream.consumers.interest
        held = interest.held_by(self)
        self.ledger.reset(sseq)
        self.released = self.ledger.floor_sseq
        self._begin_at(sseq)
        self.last_delivery_ns = self.last_ack_ns = 0
        self.keeper.reset()
        interest.given_back(held)
        self._full = False
        self.wake()
        return sseq

    def unpin(self, group: str) -> None:
        """Let another client of the group have its turn."""
        if isinstance(self.mode, Pulling):
            self.mode.unpin(group)

    @property
    def bound(self) -> bool:
        """Whether somebody listens where it delivers."""
        return isinstance(self.mode, Pushing) and self.mode.active

    def largest_message(self) -> int:
        """What may always go out at once, whatever the rate."""
        return max(self.stream.config.max_msg_size, 0) or self.world.max_payload

    # -- what it is like --------------------------------------------------------------------------

    def info(self) -> ConsumerInfo:
        ledger, now = self.ledger, self.world.now_ns()
        info = ConsumerInfo(
            stream_name=self.stream.name,
            name=self.name,
            created=Time(self.created_ns),
            config=self.config,
            delivered=SequenceInfo(ledger.delivered_dseq, ledger.delivered_sseq),
            ack_floor=SequenceInfo(ledger.floor_dseq, ledger.floor_sseq),
            num_ack_pending=len(ledger.pending),
            num_redelivered=len(ledger.redelivered) if ledger.max_deliver != 1 else 0,
            num_pending=self.feed.count(),
            push_bound=self.bound,
            ts=Time(now),
        )
        if self.last_delivery_ns:
            info.delivered.last_active = Time(self.last_delivery_ns)
        if self.last_ack_ns:
            info.ack_floor.last_active = Time(self.last_ack_ns)
        if self.paused and self.config.pause_until is not None:
            info.paused = True
            info.pause_remaining = int(self.config.pause_until) - now
        if isinstance(self.mode, Pulling):
            info.num_waiting = self.mode.waiting.num_waiting(now)
            self.mode.tell()
            info.priority_groups = self.mode.waiting.groups.state()
        return info


@lru_cache(maxsize=256)
def account_hash(name: str) -> str:
    """Of an account, as the second form of ack subjects has it."""
    return short_hash(name)


def _sampling(frequency: str) -> int:
    return int(frequency.removesuffix("%")) if frequency else 0
