"""Promises of pull requests: as many messages as asked for, and a status in time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.sim.checks.consumer_view import ConsumerView
from tests.sim.consumer_history import Pull
from tests.sim.plans.plan import SECOND_NS

_TINY_S = 0.002


def check_pulls(view: ConsumerView) -> Iterator[str]:
    most = view.life.config.get("max_waiting", 512)
    for pull in view.pulls:
        yield from _one(view, pull, may_be_refused=most < 512)
    yield from _not_too_many(view, most)
    yield from _overflow(view)
    yield from _pins(view)


def _one(view: ConsumerView, pull: Pull, *, may_be_refused: bool) -> Iterator[str]:
    what = f"the request of {pull.at:.3f} for {pull.batch}"
    if len(pull.got) > pull.batch:
        yield f"{what} got {len(pull.got)} messages"
    if pull.status.startswith("408") and pull.ended is not None and pull.ended < pull.last_due - _TINY_S:
        yield f"{what} timed out at {pull.ended:.3f}, before {pull.last_due:.3f}"
    end = pull.at + view.slack if pull.no_wait else pull.last_due + view.slack
    if end >= view.life.end or not view.quiet(pull.at - view.slack, end):
        return
    waits = view.has_choice or view.life.config.get("replay_policy") == "original"
    if pull.no_wait and (waits or view.may_be_full(pull.at - view.slack, end)):
        return  # it waits for messages that there are
    silent = may_be_refused and pull.heartbeat > 0  # and it is refused without a word
    if not silent and (pull.ended is None or pull.ended > end):
        yield f"{what} has no end at {end:.3f}"
    if pull.heartbeat and not silent:
        events = sorted((pull.at, *pull.got, *pull.beats, pull.last))
        for one, two in itertools.pairwise(events):
            if two - one > pull.heartbeat + view.slack:
                yield f"{what} has no heartbeat between {one:.3f} and {two:.3f}"
    yield from _empty(view, pull, what)


def _empty(view: ConsumerView, pull: Pull, what: str) -> Iterator[str]:
    """Check that a request that does not wait ends without messages only if there are none."""
    if not pull.no_wait or pull.ended is None or not pull.status.startswith("404") or view.has_choice:
        return
    if any(each is not pull and each.at <= pull.ended and each.last >= pull.at for each in view.pulls):
        return
    if view.may_be_full(pull.at, pull.ended) or view.after_pauses(pull.at) != pull.at:
        return
    for seq in sorted(view.must):
        if view.known[seq].certain < pull.at and view.first(seq) > pull.ended:
            yield f"{what} ends without {seq}"
            return


def _not_too_many(view: ConsumerView, most: int) -> Iterator[str]:
    """No more requests wait than `max_waiting` allows; one that is refused without a word does not count."""
    waiting = [pull for pull in view.pulls if pull.got or pull.status.startswith("408")]
    for pull in waiting:
        at = pull.at + view.slack
        open_then = sum(
            each.at + view.slack <= at < each.last and each.connection == pull.connection for each in waiting
        )
        if open_then > most and view.quiet(pull.at - 2 * view.slack, at):
            yield f"{open_then} requests wait at {at:.3f}, and {most} may"
            return


def _overflow(view: ConsumerView) -> Iterator[str]:
    """A request that is for an overflow gets messages only if so many are pending.

    The message at hand counts, and so does a redelivery that turns out to be one too many.
    """
    for each in view.deliveries:
        if each.pull is not None and each.count == 1 and each.pending + 2 < each.pull.least:
            yield f"{each.seq} comes with {each.pending} more, and {each.pull.least} must be pending"


def _pins(view: ConsumerView) -> Iterator[str]:
    """Only the pinned client gets messages, until it asked for none for so long."""
    timeout = view.life.config.get("priority_timeout", 0) / SECOND_NS
    pin, claimed = "", 0.0
    for each in view.deliveries if timeout else ():
        now = each.headers.get("Nats-Pin-Id", "")
        if not now:
            yield f"{each.seq} is delivered without a pin"
        if pin not in ("", now) and view.wide.quiet(claimed - view.slack, each.at):
            last = _last_asked(view, pin, claimed, timeout)
            if each.at < last + timeout:
                yield f"{each.seq} goes to {now} at {each.at:.3f}, and {pin} asked at {last:.3f}"
        if now != pin and each.pull is not None:
            claimed = each.pull.at
        pin = now


def _last_asked(view: ConsumerView, pin: str, claimed: float, timeout: float) -> float:
    """Return when a pinned client asked for the last time before its pin may have timed out."""
    last = claimed
    for pull in view.pulls:
        if pull.pin == pin and pull.at > last:
            if pull.at + view.slack >= last + timeout:
                break
            last = pull.at
    return last
