"""Deliberate bugs of consumers; ``mutations`` runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.jetstream.consumers import consumer as consumer_module
from millstream.jetstream.consumers import manager as manager_module
from millstream.jetstream.consumers.ack_sink import Acknowledging
from millstream.jetstream.consumers.consumer import Consumer
from millstream.jetstream.consumers.delivery import Delivery
from millstream.jetstream.consumers.expiry import Expiry
from millstream.jetstream.consumers.feed import Feed
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.start import Start
from millstream.jetstream.consumers.state_saver import Keeper
from millstream.jsapi.enums import DeliverPolicy
from tests.sim.mutations.pulls import PULL_MUTATIONS

Replaced = tuple[Any, str, Any]  # owner, name, and what it is replaced by

_LONG = 3_600_000_000_000


# -- when messages are delivered again ------------------------------------------------------------


def _backoff_ignored() -> list[Replaced]:
    return [
        (Ledger, "_wait_of", lambda self, sseq: self.ack_wait),
        (Ledger, "_common_wait", lambda self: self.ack_wait),
    ]


def _backoff_one_step_ahead() -> list[Replaced]:
    def wait_of(self: Any, sseq: int) -> int:
        if not self.backoff:
            return int(self.ack_wait)
        return int(self.backoff[min(self.deliveries(sseq), len(self.backoff) - 1)])

    return [(Ledger, "_wait_of", wait_of)]


def _nak_delay_ignored() -> list[Replaced]:
    def put_off(self: Any, sseq: int, delay_ns: int) -> None:
        self._ledger.nak(sseq)
        self._consumer.wake()

    return [(Expiry, "put_off", put_off)]


def _nak_delay_too_long() -> list[Replaced]:
    original = Expiry.put_off

    def put_off(self: Any, sseq: int, delay_ns: int) -> None:
        original(self, sseq, 20 * delay_ns)

    return [(Expiry, "put_off", put_off)]


def _nak_waits_for_ack_wait() -> list[Replaced]:
    return [(Ledger, "nak", lambda self, sseq: None)]


def _progress_ignored() -> list[Replaced]:
    return [(Ledger, "progress", lambda self, sseq, now: None)]


def _progress_for_ever() -> list[Replaced]:
    original = Ledger.progress
    return [(Ledger, "progress", lambda self, sseq, now: original(self, sseq, now + _LONG))]


def _redelivered_too_early() -> list[Replaced]:
    return [(Ledger, "_common_wait", lambda self: (self.backoff or (self.ack_wait,))[0] // 2)]


def _redelivered_too_late() -> list[Replaced]:
    return [(Ledger, "_common_wait", lambda self: (self.backoff or (self.ack_wait,))[0] * 4)]


def _second_redelivery_too_late() -> list[Replaced]:
    original = Ledger._wait_of
    return [(Ledger, "_wait_of", lambda self, sseq: original(self, sseq) * 5)]


def _terminated_is_delayed() -> list[Replaced]:
    original = Acknowledging._terminate

    def terminate(self: Any, sseq: int, dseq: int, deliveries: int, reason: str) -> bool:
        if deliveries > 1:
            self._ledger.progress(sseq, self._world.steady_ns())
            return True
        return original(self, sseq, dseq, deliveries, reason)

    return [(Acknowledging, "_terminate", terminate)]


def _given_up_too_early() -> list[Replaced]:
    def spent(self: Any, sseq: int) -> bool:
        return bool(0 < self.max_deliver <= self.deliveries(sseq) + (self.max_deliver > 1))

    return [(Ledger, "spent", spent)]


def _count_of_deliveries_stays() -> list[Replaced]:
    original = Ledger.deliver_again

    def deliver_again(self: Any, sseq: int, now: int) -> None:
        before = self.redelivered.get(sseq)
        original(self, sseq, now)
        if before is not None:
            self.redelivered.put(sseq, before)

    return [(Ledger, "deliver_again", deliver_again)]


def _deliveries_not_counted_again() -> list[Replaced]:
    original = Ledger.deliver_again

    def deliver_again(self: Any, sseq: int, now: int) -> None:
        original(self, sseq, now)
        self.delivered_dseq -= 1

    return [(Ledger, "deliver_again", deliver_again)]


def _changed_wait_not_planned() -> list[Replaced]:
    return [(Expiry, "plan_again", lambda self: None)]


# -- what survives a restart ----------------------------------------------------------------------


def _restored(change: Callable[[dict[str, Any]], None]) -> list[Replaced]:
    original = Ledger.restore

    def restore(self: Any, pending: Any, redelivered: Any, delivered: Any, floor: Any) -> None:
        parts = {"pending": pending, "redelivered": redelivered, "delivered": delivered, "floor": floor}
        change(parts)
        original(self, **parts)

    return [(Ledger, "restore", restore)]


def _counts_lost_at_start() -> list[Replaced]:
    return _restored(lambda parts: parts.update(redelivered={}))


def _pending_lost_at_start() -> list[Replaced]:
    def drop(parts: dict[str, Any]) -> None:
        parts["pending"] = {seq: each for seq, each in parts["pending"].items() if seq % 3}

    return _restored(drop)


def _skips_one_at_start() -> list[Replaced]:
    def skip(parts: dict[str, Any]) -> None:
        dseq, sseq = parts["delivered"]
        parts["delivered"] = (dseq, sseq + (sseq > 0))

    return _restored(skip)


def _waits_anew_at_start() -> list[Replaced]:
    original = Ledger.plan_again

    def plan_again(self: Any, now: int) -> None:
        for sseq in self.pending:
            self.pending.get(sseq).at = now + 20_000_000_000
        original(self, now)

    return [(Ledger, "plan_again", plan_again)]


def _deletion_not_recorded() -> list[Replaced]:
    return [(Keeper, "delete", lambda self: self.abandon())]


def _update_not_recorded() -> list[Replaced]:
    return [(Keeper, "configure", lambda self, config, created_ns: None)]


def _rest_of_lasts_lost_at_start() -> list[Replaced]:
    def find_rest(log: Any, patterns: Any, sseq: int, created_ns: int) -> Start:
        return Start(max(sseq, log.seq_at_time(created_ns + 1) or log.last_seq + 1))

    return [(consumer_module, "find_rest", find_rest)]


def _numbers_used_again() -> list[Replaced]:
    return [(Keeper, "room", lambda self, wake: 1 << 40)]


# -- where a consumer begins ----------------------------------------------------------------------


def _beginning(policy: DeliverPolicy, change: Callable[[int], int]) -> list[Replaced]:
    original = manager_module.find_start

    def find_start(log: Any, config: Any, patterns: Any, **options: Any) -> Start:
        start = original(log, config, patterns, **options)
        if config.deliver_policy is policy:
            return Start(max(change(start.sseq), 1))
        return start

    return [(manager_module, "find_start", find_start)]


def _start_sequence_missed() -> list[Replaced]:
    return _beginning(DeliverPolicy.BY_START_SEQUENCE, lambda sseq: sseq + 1)


def _start_time_too_early() -> list[Replaced]:
    return _beginning(DeliverPolicy.BY_START_TIME, lambda sseq: sseq - 1)


def _last_is_next() -> list[Replaced]:
    return _beginning(DeliverPolicy.LAST, lambda sseq: sseq + 1)


def _new_begins_with_last() -> list[Replaced]:
    return _beginning(DeliverPolicy.NEW, lambda sseq: sseq - 1)


def _last_of_subjects_incomplete() -> list[Replaced]:
    original = manager_module.last_per_subject

    def last_per_subject(lasts: Any) -> Any:
        start = yield from original(lasts)
        if start.singles is not None and len(start.singles) > 1:
            start.singles.pop()
        return start

    return [(manager_module, "last_per_subject", last_per_subject)]


# -- what is delivered ----------------------------------------------------------------------------


def _taken_over(change: Callable[[Any], None]) -> list[Replaced]:
    original = Consumer._take_over

    def take_over(self: Any, config: Any) -> None:
        original(self, config)
        change(self)

    return [(Consumer, "_take_over", take_over)]


def _only_first_filter() -> list[Replaced]:
    return _taken_over(lambda consumer: setattr(consumer, "patterns", consumer.patterns[:1]))


def _payload_in_spite_of_headers_only() -> list[Replaced]:
    return _taken_over(lambda consumer: setattr(consumer.delivery, "headers_only", False))


def _one_more_pending() -> list[Replaced]:
    def change(consumer: Any) -> None:
        consumer.delivery.max_pending += consumer.delivery.max_pending > 0

    return _taken_over(change)


def _told_pending_too_low() -> list[Replaced]:
    original = Delivery._prepare

    def prepare(self: Any, record: Any, deliveries: int, pending: int) -> int:
        return original(self, record, deliveries, max(pending - 1, 0))

    return [(Delivery, "_prepare", prepare)]


def _new_filter_delivers_old() -> list[Replaced]:
    def choose(self: Any, patterns: Any, sifted: Any = None) -> None:
        self.patterns = patterns

    return [(Feed, "choose", choose)]


CONSUMER_MUTATIONS: dict[str, Callable[[], list[Replaced]]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _backoff_ignored,
        _backoff_one_step_ahead,
        _nak_delay_ignored,
        _nak_delay_too_long,
        _nak_waits_for_ack_wait,
        _progress_ignored,
        _progress_for_ever,
        _redelivered_too_early,
        _redelivered_too_late,
        _second_redelivery_too_late,
        _terminated_is_delayed,
        _given_up_too_early,
        _count_of_deliveries_stays,
        _deliveries_not_counted_again,
        _changed_wait_not_planned,
        _counts_lost_at_start,
        _pending_lost_at_start,
        _skips_one_at_start,
        _waits_anew_at_start,
        _deletion_not_recorded,
        _update_not_recorded,
        _rest_of_lasts_lost_at_start,
        _numbers_used_again,
        _start_sequence_missed,
        _start_time_too_early,
        _last_is_next,
        _new_begins_with_last,
        _last_of_subjects_incomplete,
        _only_first_filter,
        _payload_in_spite_of_headers_only,
        _one_more_pending,
        _told_pending_too_low,
        _new_filter_delivers_old,
    )
}
CONSUMER_MUTATIONS |= PULL_MUTATIONS
