"""Deliberate bugs of pull requests, of who comes and goes, and of infos; ``mutations`` runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.jetstream.consumers import consumer as consumer_module
from millstream.jetstream.consumers import pause, pull_queue
from millstream.jetstream.consumers.ack_sink import Acknowledging
from millstream.jetstream.consumers.consumer import Consumer
from millstream.jetstream.consumers.flow import OriginalPace
from millstream.jetstream.consumers.groups import PriorityGroups
from millstream.jetstream.consumers.inactivity import Inactivity
from millstream.jetstream.consumers.interest import Interest
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.pause import PauseTimer
from millstream.jetstream.consumers.pull_queue import WaitingPulls
from millstream.jetstream.consumers.push_delivery import PushDelivery

Replaced = tuple[Any, str, Any]  # owner, name, and what it is replaced by


# -- pull requests --------------------------------------------------------------------------------


def _asked(change: Callable[[Any, int], None]) -> list[Replaced]:
    original = WaitingPulls.add

    def add(self: Any, request: Any, now_ns: int, num_pending: int, num_redeliveries: int) -> bool:
        change(request, now_ns)
        return original(self, request, now_ns, num_pending, num_redeliveries)

    return [(WaitingPulls, "add", add)]


def _pull_expires_early() -> list[Replaced]:
    def change(request: Any, now_ns: int) -> None:
        if request.expires_ns:
            request.expires_ns = now_ns + (request.expires_ns - now_ns) // 2

    return _asked(change)


def _pull_never_expires() -> list[Replaced]:
    return _asked(lambda request, now_ns: setattr(request, "expires_ns", 0))


def _pull_gets_one_more() -> list[Replaced]:
    def change(request: Any, now_ns: int) -> None:
        request.left += request.left > 2

    return _asked(change)


def _no_wait_waits() -> list[Replaced]:
    return _asked(lambda request, now_ns: setattr(request, "no_wait", False))


def _heartbeats_left_out() -> list[Replaced]:
    return [
        (WaitingPulls, "_beat", lambda self, now_ns, dseq, sseq: None),
        (PushDelivery, "_send_heartbeat", lambda self: None),
    ]


def _max_waiting_ignored() -> list[Replaced]:
    original = WaitingPulls.configure

    def configure(self: Any, config: Any) -> None:
        original(self, config)
        self._max_waiting = 1 << 30

    return [(WaitingPulls, "configure", configure)]


def _waiting_pull_not_served() -> list[Replaced]:
    original = Consumer.await_commit

    def await_commit(self: Any) -> None:
        if self.config.deliver_subject or not self.ledger.pending:
            original(self)

    return [(Consumer, "await_commit", await_commit)]


def _next_not_asked() -> list[Replaced]:
    original = Acknowledging._said

    def said(self: Any, sseq: int, dseq: int, deliveries: int, payload: bytes, reply: bytes) -> None:
        original(self, sseq, dseq, deliveries, b"" if payload.startswith(b"+NXT") else payload, reply)

    return [(Acknowledging, "_said", said)]


def _priority_ignored() -> list[Replaced]:
    return _asked(lambda request, now_ns: setattr(request, "priority", 0))


# -- who pauses, comes and goes -------------------------------------------------------------------


def _pause_ignored() -> list[Replaced]:
    def left(consumer: Any) -> int:
        return 0

    return [(consumer_module, "pause_left_ns", left), (pause, "pause_left_ns", left)]


def _pause_never_ends() -> list[Replaced]:
    return [(PauseTimer, "_ended", lambda self: None)]


def _unused_stays() -> list[Replaced]:
    return [(Inactivity, "_time_passed", lambda self: None)]


def _used_goes() -> list[Replaced]:
    def time_passed(self: Any) -> None:
        self._timer = None
        self._consumer.stream.consumers.remove(self._consumer)

    return [(Inactivity, "_time_passed", time_passed)]


def _full_stays_full() -> list[Replaced]:
    def unblock(self: Any) -> None:
        self.keeper.touch()

    return [(Consumer, "unblock", unblock)]


def _push_waits_for_heartbeat() -> list[Replaced]:
    original = Consumer.await_commit

    def await_commit(self: Any) -> None:
        if self.config.deliver_subject:
            self.world.call_later(8.0, self.wake)
        else:
            original(self)

    return [(Consumer, "await_commit", await_commit)]


def _overflow_serves_all() -> list[Replaced]:
    return [(pull_queue, "is_served", lambda request, num_pending, num_ack_pending: True)]


def _pin_not_kept() -> list[Replaced]:
    original = PriorityGroups.claim

    def claim(self: Any, request: Any, now_ns: int) -> None:
        original(self, request, now_ns)
        self.due_ns = now_ns + 1

    return [(PriorityGroups, "claim", claim)]


def _pin_for_ever() -> list[Replaced]:
    return [(PriorityGroups, "check_timeout", lambda self, now_ns: False)]


def _pace_ignored() -> list[Replaced]:
    return [(OriginalPace, "pause_ns", lambda self, feed, now: 0)]


def _interest_not_given_back() -> list[Replaced]:
    return [(Interest, "given_back", lambda self, held: None)]


# -- what an info says ----------------------------------------------------------------------------


def _told(change: Callable[[Any, Any], None]) -> list[Replaced]:
    original = Consumer.info

    def info(self: Any) -> Any:
        told = original(self)
        change(self, told)
        return told

    return [(Consumer, "info", info)]


def _info_pending_without_filter() -> list[Replaced]:
    def change(consumer: Any, told: Any) -> None:
        told.num_pending = max(consumer.stream.log.last_seq - consumer.ledger.delivered_sseq, 0)

    return _told(change)


def _info_redelivered_never_falls() -> list[Replaced]:
    return [(Ledger, "_forget_count", lambda self, sseq: None)]


def _info_ack_pending_too_low() -> list[Replaced]:
    def change(consumer: Any, told: Any) -> None:
        told.num_ack_pending -= consumer.ledger.waiting_again

    return _told(change)


def _info_waiting_counts_all() -> list[Replaced]:
    def change(consumer: Any, told: Any) -> None:
        told.num_waiting += 1

    return _told(change)


def _floor_stays() -> list[Replaced]:
    original = Ledger._raise_floor

    def raise_floor(self: Any, dseq: int, sseq: int) -> None:
        if sseq % 2:
            original(self, dseq, sseq)

    return [(Ledger, "_raise_floor", raise_floor)]


PULL_MUTATIONS: dict[str, Callable[[], list[Replaced]]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _pull_expires_early,
        _pull_never_expires,
        _pull_gets_one_more,
        _no_wait_waits,
        _heartbeats_left_out,
        _max_waiting_ignored,
        _waiting_pull_not_served,
        _next_not_asked,
        _priority_ignored,
        _pause_ignored,
        _pause_never_ends,
        _unused_stays,
        _used_goes,
        _full_stays_full,
        _push_waits_for_heartbeat,
        _overflow_serves_all,
        _pin_not_kept,
        _pin_for_ever,
        _pace_ignored,
        _interest_not_given_back,
        _info_pending_without_filter,
        _info_redelivered_never_falls,
        _info_ack_pending_too_low,
        _info_waiting_counts_all,
        _floor_stays,
    )
}
