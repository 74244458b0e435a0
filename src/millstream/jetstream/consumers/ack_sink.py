"""Handle clients' responses to deliveries: ack, nak, term, in progress, and next.

    ack subjects ─▶ AckSink ─┬─ fast path: an ack ──▶ ledger (`_acks_came`, once for many)
                             └─ slow path ──────────▶ `_said`

A response that asks for a confirmation gets it when its effect is durable.  The confirmations of one turn
wait for the same commit.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from millstream.base import slices
from millstream.base.build import pure_requested
from millstream.base.decimals import read_integer
from millstream.base.slices import Pieces
from millstream.golang.duration import DurationError, parse_duration
from millstream.golang.json import FEW_VALUES
from millstream.jetstream.consumers.ack_reader import ACKED, AckSink
from millstream.jetstream.consumers.state_saver import NoKeeper
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from millstream.jsapi.requests import NakOptions

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.delivery_spans import ConsumerSpans
    from millstream.jetstream.consumers.ledger import Ledger
    from millstream.store.errors import StoreError

_NEXT: Final = "next"
_OUTCOMES: Final = {b"+ACK": ACKED, b"+OK": ACKED, b"+NXT": _NEXT, b"+TERM": "term", b"-NAK": "nak"}
_SETTLED_AT_ONCE: Final = 8  # messages of an ack of all; each may have to leave the stream
_TOLD_AT_ONCE: Final = 32 if pure_requested() else 512  # messages, to the journal


class Acknowledging:
    """The responses to one consumer's deliveries."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ledger: Ledger = consumer.ledger
        self._world = consumer.world
        self._sample_percent = 0
        self._settling = 0  # acks of many messages that are under way
        self._owed: list[bytes] = []  # reply subjects of confirmations that wait for these
        self._seen = 0  # acks on the fast path
        self.sink = AckSink(consumer.ledger, self._said, self._acks_came)

    def configure(self) -> None:
        """Apply a changed configuration of the consumer or its stream."""
        consumer = self._consumer
        frequency = consumer.config.sample_freq
        self._sample_percent = read_integer(frequency.removesuffix("%")) or 0
        self.sink.plain = consumer.config.ack_policy is AckPolicy.EXPLICIT and not self._sample_percent
        keeps_all = consumer.stream.config.retention is RetentionPolicy.LIMITS
        self.sink.release = None if keeps_all else consumer.stream.consumers.interest.settled_one

    def acknowledge_all(self, sseq: int, dseq: int) -> None:
        """Acknowledge everything up to here, but no deliveries that never happened."""
        dseq = min(dseq, self._ledger.delivered_dseq)
        if dseq <= 0 or sseq <= self._ledger.floor_sseq:
            return
        self._consumer.last_ack_ns = self._world.steady_ns()
        slices.begin(self._world, "ack of all", self._settle(sseq, dseq))

    def _settle(self, sseq: int, dseq: int) -> Pieces[None]:
        """Settle everything up to a message; confirmations wait until that is done."""
        consumer, ledger = self._consumer, self._ledger
        interest, resets, looked = consumer.stream.consumers.interest, ledger.resets, 0
        self._settling += 1
        try:
            while True:
                settled = ledger.ack_some(sseq, dseq, _SETTLED_AT_ONCE)
                if not ledger.has_unsettled(sseq):
                    interest.settled((*settled, sseq))
                    break
                interest.settled(settled)
                looked += _SETTLED_AT_ONCE
                if looked >= _TOLD_AT_ONCE:
                    looked = 0
                    while consumer.keeper.write_some():
                        yield _TOLD_AT_ONCE
                yield _SETTLED_AT_ONCE
                if not consumer.running or ledger.resets != resets:
                    break
        finally:
            self._settling -= 1
        if consumer.running:
            consumer.unblock()
            if not self._settling:
                owed, self._owed = self._owed, []
                for reply in owed:
                    self.sink.owe(reply)

    # -- the fast path ----------------------------------------------------------------------------

    def _acks_came(self) -> None:
        """Schedule the follow-up work for the first of several acks on the fast path."""
        self._world.call_soon(self._look_after_acks)

    def _look_after_acks(self) -> None:
        if self._consumer.running:
            if self.sink.taken != self._seen:
                self._seen = self.sink.taken
                self._consumer.last_ack_ns = self._world.steady_ns()
                self._consumer.unblock()
            self.confirm()

    def confirm(self) -> None:
        """Send the confirmations that clients wait for, once everything so far is durable."""
        replies = self.sink.tell_again()
        if not replies:
            return

        def answer(error: StoreError | None) -> None:
            if error is None:
                self._world.confirm(replies)

        keeper, stream = self._consumer.keeper, self._consumer.stream
        if isinstance(keeper, NoKeeper) and stream.config.retention is not RetentionPolicy.LIMITS:
            stream.on_outcome(answer)  # the ack is kept nowhere but in that the message is gone
        else:
            keeper.when_durable(answer)

    # -- the slow path ----------------------------------------------------------------------------

    def _said(self, sseq: int, dseq: int, deliveries: int, payload: bytes, reply: bytes) -> None:
        """Handle everything but a plain ack without a reply subject."""
        spans = self._consumer.spans
        if spans is not None and spans.open:
            self._end_spans(spans, sseq, payload)
        if payload in (b"", b"+ACK", b"+OK"):
            if self._acknowledge(sseq, dseq, deliveries, sample=True):
                self.answer_when_durable(reply)
        elif payload.startswith(b"+NXT"):
            self._acknowledge(sseq, dseq, deliveries, sample=True)
            self._consumer.mode.ask(reply, payload[4:], b"")
        elif payload.startswith(b"+TERM"):
            reason = payload[5:].strip().decode(errors="replace")
            letters = self._consumer.letters
            if letters is not None and letters.terminate(sseq, dseq, deliveries, reason, reply):
                return
            if self._terminate(sseq, dseq, deliveries, reason):
                self.answer_when_durable(reply)
        else:
            if payload.startswith(b"-NAK"):
                self._refuse(sseq, dseq, deliveries, payload[4:])
            elif payload == b"+WPI":
                self._ledger.progress(sseq, self._world.steady_ns())
                self._consumer.keeper.touch()
            if reply and sseq:
                self._world.publish(reply, b"")

    def _end_spans(self, spans: ConsumerSpans, sseq: int, payload: bytes) -> None:
        """End the spans of the deliveries that a response settles."""
        outcome = next((word for start, word in _OUTCOMES.items() if payload.startswith(start)), "")
        if payload and not outcome:
            return
        acks = outcome in ("", ACKED, _NEXT)
        if acks and self._consumer.config.ack_policy is AckPolicy.ALL:
            spans.settled_up_to(sseq, outcome or ACKED)
        else:
            spans.settled(sseq, outcome or ACKED)

    def answer_when_durable(self, reply: bytes) -> None:
        if reply and self._settling:
            self._owed.append(reply)
        elif reply:
            self.sink.owe(reply)

    def _acknowledge(self, sseq: int, dseq: int, deliveries: int, *, sample: bool) -> bool:
        """Acknowledge a message; return False if it cannot have been delivered."""
        consumer, ledger = self._consumer, self._ledger
        if sseq >= consumer.feed.next_sseq and sseq > ledger.delivered_sseq:
            return False
        if consumer.config.ack_policy is AckPolicy.ALL:
            self.acknowledge_all(sseq, dseq)
            return True
        entry = ledger.pending.get(sseq)
        if entry is not None and sample and self._is_sampled():
            consumer.advisories.acked(dseq, sseq, self._world.steady_ns() - entry.at, deliveries)
        consumer.last_ack_ns = self._world.steady_ns()
        ledger.ack(sseq)
        consumer.stream.consumers.interest.settled((sseq,))
        consumer.unblock()
        return True

    def _terminate(self, sseq: int, dseq: int, deliveries: int, reason: str) -> bool:
        accepted = self._acknowledge(sseq, dseq, deliveries, sample=False)
        self._consumer.advisories.terminated(dseq, sseq, deliveries, reason)
        return accepted

    def _refuse(self, sseq: int, dseq: int, deliveries: int, argument: bytes) -> None:
        if not self._ledger.may_nak(sseq, dseq):
            return
        self._consumer.advisories.naked(dseq, sseq, deliveries)
        delay = _delay_of(argument)
        if delay is None:
            self._ledger.nak(sseq)
            self._consumer.wake()
        else:
            self._consumer.expiry.put_off(sseq, delay)

    def _is_sampled(self) -> bool:
        percent = self._sample_percent
        return percent >= 100 or (percent > 0 and random.randrange(100) <= percent)


def _delay_of(argument: bytes) -> int | None:
    """Return the delay in ns of `-NAK {"delay": 5000000000}` or `-NAK 5s`;
    None for a redelivery at once, also if the delay is invalid.
    """
    text = argument.strip()
    if not text:
        return None
    try:
        if text.startswith(b"{"):
            return decode_lenient(text, NakOptions, FEW_VALUES).delay
        return parse_duration(text.decode())
    except (JsonError, DurationError, UnicodeDecodeError):
        return None
