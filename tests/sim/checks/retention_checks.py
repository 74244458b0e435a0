"""Promises of work queues and of interest: a message stays as long as a consumer needs it, and no longer."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.checks.consumer_view import SETTLES, wants
from tests.sim.checks.stream_view import StreamView
from tests.sim.history import History, Stored
from tests.sim.plans.plan import Plan


def check_kept(plan: Plan, history: History) -> Iterator[str]:
    """Check that nothing stays that all consumers settled; only consumers with recorded lives are known."""
    for name, config in plan.streams.items():
        kind = config.get("retention")
        consumers = [each for each in plan.consumers if each.stream == name]
        if kind not in ("workqueue", "interest") or not all(each.wide for each in consumers):
            continue
        if any(rot.stream == name for rot in history.rot) or name not in history.final:
            continue
        view = StreamView(plan, history, name)
        for stored in view.final.content:
            if not _may_be_needed(view, stored, interest=kind == "interest"):
                yield f"{name}: {stored.seq} is there, and no consumer needs it"


def _may_be_needed(view: StreamView, stored: Stored, *, interest: bool) -> bool:
    lives = [each for each in view.history.wide.lives if each.stream == view.name]
    there = [each for each in lives if each.removing is None]
    if any(each.created is None for each in there) or not lives:
        return True
    wanted = [each for each in there if wants(each.config, stored.subject)]
    if not wanted and not interest:
        return True  # a work queue keeps what nobody has asked for yet
    for life in wanted:
        confirmed = any(
            ack.seq == stored.seq and ack.kind in SETTLES and ack.confirmed_at is not None
            for ack in view.history.acks
            if (ack.stream, ack.consumer) == (view.name, life.consumer) and ack.at >= life.asked
        )
        if not confirmed:
            return True
    return False
