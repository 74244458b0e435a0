"""Promises of time: what is due is delivered while nothing is disturbed, and nothing before its time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.sim.checks.consumer_view import FOREVER, SETTLES, ConsumerView
from tests.sim.history import AckSent, Delivery
from tests.sim.plans.plan import SECOND_NS

_TINY_S = 0.002


def check_timing(view: ConsumerView) -> Iterator[str]:
    if view.view.history.clock_set and view.life.pauses:
        return
    yield from _first_deliveries(view)
    if view.explicit:
        yield from _not_too_early(view)
        yield from _not_too_late(view)
    yield from _pauses(view)
    yield from _push_heartbeats(view)


# -- first deliveries -----------------------------------------------------------------------------


def _first_deliveries(view: ConsumerView) -> Iterator[str]:
    """A message is delivered soon after it is stored, if somebody waits for it and may have it."""
    for seq in sorted(view.must):
        known = view.known[seq]
        if known.certain == FOREVER:
            continue
        due = view.after_pauses(max(known.certain, view.created))
        first = view.first(seq)
        for since in _moments(view, due):
            end = since + view.slack
            if first <= end:
                break
            if not view.quiet(since - view.slack, end) or end >= view.life.end:
                continue
            served = view.after_pauses(since) == since and view.is_ready(since, end)
            if served and not view.may_be_full(since, end):
                yield f"{seq} was there at {due:.3f}, and is not delivered at {end:.3f}"
                break


def _moments(view: ConsumerView, due: float) -> list[float]:
    """Return times from which on something that is due may be delivered: requests came, or acks."""
    moments = {due}
    moments.update(pull.at for pull in view.pulls if pull.at > due)
    moments.update(ack.at + view.slack for ack in view.acks if ack.at + view.slack > due)
    return sorted(moments)


# -- redeliveries ---------------------------------------------------------------------------------


def _waits(view: ConsumerView, count: int, since: float, until: float) -> tuple[float, float]:
    """Return how long to wait for the ack of a delivery, at least and at most."""
    found = []
    for config in view.configs_at(since, until):
        steps = config.get("backoff") or [config.get("ack_wait", 30 * SECOND_NS)]
        found.append(steps[min(count, len(steps)) - 1] / SECOND_NS)
    return min(found), max(found)


def _not_too_early(view: ConsumerView) -> Iterator[str]:
    """A message is not delivered again before the ack wait, the delay of a negative ack, or at all."""
    slack = view.slack
    for seq, deliveries in view.by_seq.items():
        for one, two in itertools.pairwise(deliveries):
            if two.count != one.count + 1 or not view.wide.quiet(one.at - slack, two.at):
                continue
            wait, most = _waits(view, one.count, one.at - slack, two.at)
            due = one.at - slack + wait
            for ack in view.acks_of(seq):
                if one.at - slack <= ack.at < two.at:
                    due = _earliest(due, ack, wait, slack, before=ack.at < one.at)
                    if ack.delay_s:
                        due -= most - wait  # as of every pending message, if the ack wait is changed
            if two.at < due - _TINY_S and two.at > one.at:
                when = "never" if due == FOREVER else f"at {due:.3f} at the earliest"
                yield f"{seq} is delivered again at {two.at:.3f}, after {one.at:.3f}, and is due {when}"


def _earliest(due: float, ack: AckSent, wait: float, slack: float, *, before: bool) -> float:
    """Return when a message is due at the earliest after another response."""
    then = ack.at + ack.delay_s
    if ack.kind in SETTLES:
        then = FOREVER
    elif ack.kind == "+WPI":
        then = ack.at + wait
    return then if ack.at + slack < due and not before else min(due, then)


def _not_too_late(view: ConsumerView) -> Iterator[str]:
    """A message that nobody settled is delivered again soon after it is due."""
    for seq, deliveries in view.by_seq.items():
        if seq in view.known and view.known[seq].certain == FOREVER:
            continue
        for number, one in enumerate(deliveries):
            following = deliveries[number + 1].at if number + 1 < len(deliveries) else FOREVER
            due = _latest(view, one, min(following, view.until))
            if due is None or 0 < view.limit("max_deliver", one.at, due) <= one.count:
                continue
            due = view.after_pauses(due)
            for since in (due, *(pull.at for pull in view.pulls if pull.at > due)):
                end = since + view.slack
                if following <= end:
                    break
                if not view.quiet(one.at - view.slack, end) or end >= view.life.end:
                    break
                if view.after_pauses(since) == since and view.is_ready(since, end):
                    yield f"{seq}, delivered at {one.at:.3f}, is due at {due:.3f}, and not there at {end:.3f}"
                    break


def _latest(view: ConsumerView, one: Delivery, until: float) -> float | None:
    """Return when a message is due at the latest; None if it is settled."""
    slack = view.slack
    least, most = _waits(view, one.count, one.at - slack, one.at)
    early, late = one.at - slack + least, one.at + most
    for change, config in zip(view.life.changes, view.configs[1:], strict=True):
        if one.at - slack <= (change.confirmed or FOREVER) and change.asked <= late + slack:
            steps = config.get("backoff") or [config.get("ack_wait", 30 * SECOND_NS)]
            wait = steps[min(one.count, len(steps)) - 1] / SECOND_NS
            other = max(one.at + wait, change.confirmed or FOREVER)
            late = other if change.asked + slack < early else max(late, other)
            least, most = min(least, wait), max(most, wait)
            early = min(early, one.at - slack + wait)
    for ack in view.acks_of(one.seq):
        if not one.at - slack <= ack.at < until:
            continue
        if ack.kind in SETTLES:
            return None
        then = ack.at + (most if ack.kind == "+WPI" else ack.delay_s)
        if ack.at + slack < early and ack.at >= one.at:
            early, late = ack.at + (least if ack.kind == "+WPI" else ack.delay_s), then
        else:
            late = max(late, then)
        if ack.delay_s:
            wait, most = _waits(view, one.count, one.at, late + slack)
            late += most - wait  # it is moved with the ack wait, if that is changed
    return late


# -- pauses and heartbeats ------------------------------------------------------------------------


def _pauses(view: ConsumerView) -> Iterator[str]:
    """Nothing is delivered after a pause was confirmed, and before it ends."""
    if view.view.history.clock_set:
        return
    for number, pause in enumerate(view.life.pauses):
        if pause.confirmed is None:
            continue
        following = view.life.pauses[number + 1].asked if number + 1 < len(view.life.pauses) else FOREVER
        for each in view.deliveries:
            if pause.confirmed < each.at < min(pause.until, following):
                yield f"{each.seq} is delivered at {each.at:.3f}, and it is paused until {pause.until:.0f}"


def _push_heartbeats(view: ConsumerView) -> Iterator[str]:
    interval = view.life.config.get("idle_heartbeat", 0) / SECOND_NS
    if not interval or view.life.created is None:
        return
    events = [view.created]
    events += [each.at for each in view.deliveries]
    events += [each.at for each in view.wide.beats if each.consumer == view.plan.path]
    end = min(view.life.end, max((look.asked for look in view.looks), default=view.created))
    events = sorted(each for each in (*events, end) if view.created <= each <= end)
    for one, two in itertools.pairwise(events):
        if two - one > interval + view.slack and view.quiet(one - view.slack, two):
            yield f"there is no heartbeat between {one:.3f} and {two:.3f}"
