"""A consumer: a position in a stream, what it delivered, and its receivers.

Combines its parts and does what they cannot do without the world: timers, advisories, subjects.

    stream committed ─┐                                    ┌▶ pushing ─┐
    ack, nak, term ───┼▶ consumer ─ feed ─ ledger ─ keeper │           ├▶ outlet
    pull request ─────┘                                    └▶ pulling ─┘

Everything runs on the loop's thread.  Nothing is delivered before it is committed.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.base.build import pure_requested
from millstream.base.freeing import Container, free
from millstream.base.slices import Pieces
from millstream.golang.time import Time
from millstream.jetstream.consumers.ack_sink import Acknowledging
from millstream.jetstream.consumers.config import paused
from millstream.jetstream.consumers.config_rules import filters_of
from millstream.jetstream.consumers.dead_letters import LetterWriter, letters_of
from millstream.jetstream.consumers.delivery import Delivery
from millstream.jetstream.consumers.delivery_mode import ENDED
from millstream.jetstream.consumers.delivery_spans import ConsumerSpans
from millstream.jetstream.consumers.expiry import LONGEST_WAIT_NS, Expiry
from millstream.jetstream.consumers.feed import Feed
from millstream.jetstream.consumers.inactivity import Inactivity
from millstream.jetstream.consumers.key_order import KeyOrder, key_order_of
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.pause import PauseTimer, pause_left_ns
from millstream.jetstream.consumers.pull_delivery import PullDelivery
from millstream.jetstream.consumers.push_delivery import PushDelivery
from millstream.jetstream.consumers.start import Sifted, Start, find_rest, find_start
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo, SequenceInfo
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, RetentionPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.consumers.commit_waiters import AwaitingCommit
    from millstream.jetstream.consumers.delivery_mode import DeliveryMode
    from millstream.jetstream.consumers.state_saver import Keeper, NoKeeper
    from millstream.jetstream.ports import Cancel, World
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_RETRY_S: Final = 1.0  # between tries to read from a disk that failed
_FROM_THE_END: Final = (
    DeliverPolicy.NEW,
    DeliverPolicy.LAST,
    DeliverPolicy.LAST_PER_SUBJECT,
    DeliverPolicy.BY_START_TIME,
)
_SKIPPED = 8 if pure_requested() else 64  # messages that are forgotten at once
_REMOVED: Final = "Unacknowledged message was deleted"


class Consumer:
    """One consumer of one stream."""

    def __init__(self, stream: Stream, name: str, config: ConsumerConfig, created_ns: int) -> None:
        self.stream = stream
        self.world: World = stream.world
        self.name = name
        self.config: ConsumerConfig = config
        self.created_ns = created_ns
        self.started_ns = stream.world.steady_ns()
        self.keeper: Keeper | NoKeeper
        self.advisories = stream.account.advisories.of_consumer(stream.name, name)
        self.ledger: Ledger = Ledger()
        self.delivery = Delivery(self.ledger, stream.account.subjects.acks(stream.name, name))
        self.expiry = Expiry(self)
        self.feed = Feed(
            stream.log,
            self.ledger,
            self.delivery,
            told=stream.consumers.told,
            given_up=self.expiry.give_up,
            missing=self.message_removed,
        )
        self.is_told = False  # of removed messages, see ``ConsumerManager.tell_gone``
        self.acknowledging = Acknowledging(self)
        self.spans: ConsumerSpans | None = None
        if self.world.spans is not None:
            self.spans = self.delivery.spans = self.acknowledging.sink.spans = ConsumerSpans(
                self, self.world.spans
            )
            self.acknowledging.sink.open_spans = self.spans.open
        self.letters: LetterWriter | None = None
        self.pauses = PauseTimer(self)
        self.inactivity = Inactivity(self)
        self.last_delivery_ns = 0
        self.last_ack_ns = 0
        self._awaiting_commit: AwaitingCommit = stream.awaiting_commit
        self._handles: list[object] = []
        self._reserved = 0  # deliveries up to this number may go out before the keeper is asked
        self._read_again: Cancel | None = None  # the disk did not give a message
        self._full = False  # nothing goes out before something is settled
        self._awake = False  # a pump is planned
        self._pumping = False
        self.running = False
        self.released = 0  # without acks: what a stream that keeps what is of interest was told about
        self._take_over(config)
        self.mode: DeliveryMode = PushDelivery(self) if config.deliver_subject else PullDelivery(self)

    def _take_over(self, config: ConsumerConfig) -> None:
        self.config = config
        self.patterns = tuple(subject.encode() for subject in filters_of(config))
        ledger, delivery = self.ledger, self.delivery
        ledger.ack_wait = min(config.ack_wait, LONGEST_WAIT_NS)
        ledger.backoff = tuple(min(wait, LONGEST_WAIT_NS) for wait in config.backoff)
        ledger.max_deliver = max(config.max_deliver, 0)
        limit, token = key_order_of(config)
        if self.feed.keys is not None:
            self.feed.keys.set_limit(limit)
        elif limit:
            patterns = self.patterns or tuple(subject.encode() for subject in self.stream.config.subjects)
            self.feed.keys = KeyOrder(self.stream.log, ledger, limit, token, patterns)
            ledger.freed = []
        self.letters = letters_of(self, self.letters)
        ledger.keeps_spent = self.letters is not None
        delivery.settles = config.ack_policy is AckPolicy.NONE
        delivery.headers_only = config.headers_only
        delivery.max_pending = max(config.max_ack_pending, 0) if not delivery.settles else 0
        self.acknowledging.configure()

    # -- life -------------------------------------------------------------------------------------

    def begin(self, start: Start | None = None) -> None:
        """Set the start of a new consumer; find it unless it is given."""
        if start is None:
            start = find_start(
                self.stream.log, self.config, self.patterns, one_per_subject=self._keeps_one_per_subject
            )
        self.feed.begin(start, self.patterns)
        self.ledger.reset(start.sseq)
        self.released = self.ledger.floor_sseq

    def go_on(self) -> None:
        """Resume a restored consumer: continue after its last delivery and redeliver what is pending."""
        ledger, log = self.ledger, self.stream.log
        refills = log.losses.reach > log.last_seq
        if not self.stream.sync or self.config.deliver_policy in _FROM_THE_END or refills:
            # A crash can cost messages that were delivered, or that it was to begin behind.  Messages that
            # an origin sends again are delivered again.
            ledger.forget_above(max(log.last_seq, self.config.opt_start_seq - 1))
        for sseq in ledger.remove_below(log.first_seq):
            ledger.remove(sseq)
        for sseq in [sseq for sseq in ledger.pending if not log.has(sseq)]:
            ledger.remove(sseq)
        ledger.plan_again(self.world.steady_ns())
        self._begin_at(max(ledger.delivered_sseq + 1, log.first_seq))
        self.feed.restore_keys()
        self.released = ledger.floor_sseq

    def _begin_at(self, sseq: int) -> None:
        """Deliver from `sseq` on what was not settled before."""
        start = Start(sseq)
        if self.config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT and not self._keeps_one_per_subject:
            start = find_rest(self.stream.log, self.patterns, sseq, self.created_ns)
        self.feed.begin(start, self.patterns)
        self.stream.consumers.will_tell(self)

    @property
    def _keeps_one_per_subject(self) -> bool:
        return self.stream.config.max_msgs_per_subject == 1

    def start(self) -> None:
        """Subscribe and deliver."""
        self.running = True
        world, stream, name = self.world, self.stream.name.encode(), self.name.encode()
        if self.config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
            acks = self.stream.account.subjects.all_acks(self.stream.name, self.name)
            self._handles += [
                world.capture(each, self.acknowledging.sink, from_clients=True) for each in acks
            ]
        self._handles.append(
            world.serve(
                b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (stream, name),
                lambda request: self.mode.ask(request.reply, request.payload, request.headers),
            )
        )
        self.pauses.start()
        self.mode.start()
        self.expiry.plan(world.steady_ns())
        self.inactivity.start()

    def stop(self) -> None:
        """Stop receiving and sending."""
        self.running = False
        self.acknowledging.confirm()
        for handle in self._handles:
            self.world.release(handle)
        self._handles.clear()
        if self._read_again is not None:
            self._read_again.cancel()
            self._read_again = None
        self.expiry.stop()
        self.pauses.stop()
        self.mode.stop()
        self.inactivity.stop()
        self.rest()
        self.feed.release()
        if self.spans is not None:
            self.spans.stop()

    def let_go(self) -> None:
        """Separate the consumer, which has ended for good, from its parts, which refer to it.

        Otherwise they would stay until the garbage collector finds the cycle.  Its info can still be read,
        without the messages that it waited for.
        """
        self._free(self.ledger.clear())
        self.feed.let_go()
        self.acknowledging.sink.let_go()
        self.delivery.spans = self.spans = self.letters = None
        self.mode = ENDED
        self.expiry = self.acknowledging = self.pauses = self.inactivity = None  # type: ignore[assignment]

    # -- delivering -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Schedule a delivery, because there may be messages."""
        if not self._awake and self.running:
            self._awake = True
            self.world.call_soon(self._wake_up)

    def _wake_up(self) -> None:
        self._awake = False
        self.pump()

    def pump(self) -> None:
        """Deliver the messages that exist and may be sent."""
        if not self.running or self._read_again is not None:
            return
        if self.config.pause_until is not None and self.paused:
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

    def _try_again(self) -> None:
        self._read_again = None
        self.pump()

    def room(self) -> int:
        """Return how many messages may be delivered; if none, the consumer is woken when that changes."""
        if self.feed.passes_removed():
            if not self.stream.consumers.may_pass_removed(self):
                return 0
            self.feed.may_pass()
        delivered = self.ledger.delivered_dseq
        if delivered >= self._reserved:
            self._reserved = delivered + self.keeper.room(self.wake)
        return self._reserved - delivered

    def await_commit(self) -> None:
        """Mark the consumer as awaiting commit: everything is delivered."""
        self._awaiting_commit.add(self)

    def rest(self) -> None:
        """Stop awaiting commits: no client wants messages now."""
        self._awaiting_commit.discard(self)

    def fill(self) -> None:
        """Stop delivering, because `max_ack_pending` is reached."""
        self._full = True
        self.rest()

    def delivered(self, now: int) -> None:
        """Update the state after the feed sent messages."""
        self.last_delivery_ns = now
        self.keeper.touch()
        if not self.is_told:
            self.stream.consumers.will_tell(self)
        if self.delivery.settles:
            if self.stream.config.retention is not RetentionPolicy.LIMITS:
                self.stream.consumers.interest.settled_up_to(self)
        else:
            self.expiry.plan(now)

    def unblock(self) -> None:
        """Continue delivering after a message was settled."""
        self.keeper.touch()
        if self._full or self.feed.is_freed():
            self._full = False
            self.wake()

    # -- what the stream says ---------------------------------------------------------------------

    def message_removed(self, sseq: int) -> None:
        """Settle a message that the stream removed although it was not acknowledged."""
        entry = self.ledger.pending.get(sseq)
        deliveries = max(self.ledger.deliveries(sseq) - 1, 1)  # as nats-server counts here
        self.ledger.remove(sseq)
        if entry is not None:
            self.last_ack_ns = self.world.steady_ns()
            self.advisories.terminated(entry.dseq, sseq, deliveries, _REMOVED)
            self.unblock()

    def lost(self, sseqs: set[int]) -> Pieces[None]:
        """Settle messages that no longer exist, without advisories."""
        for number, sseq in enumerate(sseqs, 1):
            if self.ledger.remove(sseq):
                self.last_ack_ns = self.world.steady_ns()
            if number % _SKIPPED == 0:
                yield _SKIPPED

    def purged(self, sseq: int) -> Pieces[None]:
        """Settle everything below `sseq` after a purge, without advisories."""
        ledger, resets, pending = self.ledger, self.ledger.resets, len(self.ledger.pending)
        ledger.begin_skip(sseq)
        self.feed.skip_to(sseq)
        while ledger.resets == resets and (skipped := ledger.skip_some(sseq, _SKIPPED)):
            yield skipped
        if len(ledger.pending) < pending:
            self.last_ack_ns = self.world.steady_ns()
        self.unblock()

    # -- what administrators say ------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        return pause_left_ns(self) > 0

    def pause(self, until: Time | None) -> None:
        """Pause deliveries until that time; None resumes them."""
        self.stream.consumers.update(self, paused(self.config, until))

    def delete(self) -> None:
        self.stream.consumers.remove(self)

    def sift(self, config: ConsumerConfig, sifted: Sifted | None) -> Pieces[Sifted] | None:
        """Return long work that comes before ``update``; None if there is none, or `sifted` is its result."""
        patterns = tuple(subject.encode() for subject in filters_of(config))
        if patterns == self.patterns or not self.feed.takes_long_to_sift(patterns, sifted):
            return None
        return self.feed.sift(patterns)

    def update(self, config: ConsumerConfig, sifted: Sifted | None = None) -> None:
        """Apply another checked configuration; `sifted` is the result of ``sift``."""
        before = self.config
        patterns = self.patterns
        self._take_over(config)
        if patterns != self.patterns:
            self.feed.choose(self.patterns, sifted)
            interest = self.stream.consumers.interest
            interest.refiltered(self, patterns)
            interest.given_back(interest.held_by(self))
        self.mode.configure(before)
        if before.pause_until != config.pause_until:
            self.pauses.changed()
        if (before.ack_wait, before.backoff) != (config.ack_wait, config.backoff):
            self.expiry.plan_again()
        if before.inactive_threshold != config.inactive_threshold:
            self.inactivity.stop()
            self.inactivity.check()
        self._full = False
        self.wake()

    def reset(self, sseq: int | None) -> int:
        """Restart at `sseq`, or at the first message that is not settled; return the sequence."""
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
        self._free(self.ledger.reset(sseq))
        self.released = self.ledger.floor_sseq
        self._begin_at(sseq)
        self.last_delivery_ns = self.last_ack_ns = 0
        self.keeper.reset()
        self._reserved = 0
        interest.given_back(held)
        self._full = False
        self.wake()
        return sseq

    def _free(self, containers: list[Container]) -> None:
        """Free `containers` and the order by key, whose messages the ledger has forgotten."""
        if self.feed.keys is not None:
            containers += self.feed.keys.clear()
        free(self.world, containers)

    def unpin(self, group: str) -> None:
        """End the pin of a group, so that another client is served."""
        self.mode.unpin(group)

    @property
    def bound(self) -> bool:
        """Return True if the deliver subject has a subscriber."""
        return self.mode.active

    def largest_message(self) -> int:
        """Return the size that may always be sent at once, whatever the rate."""
        return max(self.stream.config.max_msg_size, 0) or self.world.limits.payload

    # -- what it is like --------------------------------------------------------------------------

    def info(self) -> ConsumerInfo:
        ledger, now = self.ledger, self.world.steady_ns()
        was_set = self.world.now_ns() - now  # by how much the clock was set since the start
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
            ts=Time(now + was_set),
        )
        if self.last_delivery_ns:
            info.delivered.last_active = Time(self.last_delivery_ns + was_set)
        if self.last_ack_ns:
            info.ack_floor.last_active = Time(self.last_ack_ns + was_set)
        if left := pause_left_ns(self):
            info.paused = True
            info.pause_remaining = left
        if self.letters is not None:
            info.dead_letters = self.letters.info()
        self.mode.describe(info)
        return info
