"""Promises of a delivery: the right messages, as they were published, in order, and counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.sim.checks.consumer_view import FOREVER, ConsumerView, wants
from tests.sim.history import Delivery
from tests.sim.plans.plan import SECOND_NS

_REMEMBERED_S = 3.0  # the number of deliveries is on disk after that


def check_deliveries(view: ConsumerView) -> Iterator[str]:
    sent = {}
    for publish in view.view.publishes:
        sent.setdefault(publish.uid, publish)
    for each in view.deliveries:
        publish = sent.get(each.uid)
        if publish is None:
            yield f"{each.seq} is delivered as message {each.uid}, and nobody sent that"
            continue
        if each.subject != publish.subject:
            yield f"{each.seq} is delivered as {each.subject}, and was sent to {publish.subject}"
        if each.seq in view.never or not any(wants(config, each.subject) for config in view.configs):
            yield f"{each.seq} is delivered, and the consumer begins behind it or has other subjects"
        if publish.msg_id and each.headers.get("Nats-Msg-Id") != publish.msg_id:
            yield f"{each.seq} is delivered with the headers {each.headers}"
        size = publish.size + len(f"{publish.uid} ")
        if view.life.config.get("headers_only"):
            if each.size or each.headers.get("Nats-Msg-Size") != str(size):
                yield f"{each.seq} has {each.size} bytes and {each.headers}, and only headers are wanted"
        elif each.size != size:
            yield f"{each.seq} is delivered with {each.size} bytes of {size}"
    yield from _filters_changed(view)
    yield from _numbers(view)
    yield from _counts(view)
    yield from _pending(view)
    yield from _original_pace(view)
    if view.explicit:
        yield from _not_too_many(view)


def _filters_changed(view: ConsumerView) -> Iterator[str]:
    """New messages match the filters that were confirmed last."""
    for each in view.deliveries:
        if each.count == 1 and view.tidy(each.at):
            configs = view.configs_at(each.at, each.at)
            if not any(wants(config, each.subject) for config in configs):
                yield f"{each.seq} is delivered at {each.at:.3f}, and its subject is no longer wanted"


def _numbers(view: ConsumerView) -> Iterator[str]:
    """Deliveries are numbered from one on, and first deliveries have rising sequences."""
    for number, (one, two) in enumerate(itertools.pairwise([None, *view.deliveries])):
        assert two is not None
        tidy = view.tidy(two.at)
        if tidy and two.dseq != number + 1:
            yield f"delivery {number + 1} at {two.at:.3f} has the number {two.dseq}"
            return
        if one is not None and one.at > view.created and two.dseq <= one.dseq:
            yield f"delivery {two.dseq} at {two.at:.3f} comes after {one.dseq}"
    first: list[Delivery] = [each for each in view.deliveries if each.count == 1 and view.tidy(each.at)]
    for before, after in itertools.pairwise(first):
        if after.seq <= before.seq:
            yield f"{after.seq} is delivered for the first time at {after.at:.3f}, after {before.seq}"


def _counts(view: ConsumerView) -> Iterator[str]:
    """Each delivery counts the earlier ones, also those before a restart."""
    for seq, deliveries in view.by_seq.items():
        if view.tidy(deliveries[0].at) and deliveries[0].count != 1:
            yield f"{seq} is delivered for the first time with count {deliveries[0].count}"
        for one, two in itertools.pairwise(deliveries):
            kept = one.at + _REMEMBERED_S
            remembers = view.wide.quiet(one.at, kept) and two.at > kept
            expected = two.count == one.count + 1 if view.tidy(two.at) else two.count > one.count
            if not expected and (remembers or view.tidy(two.at)):
                yield f"{seq} is delivered at {two.at:.3f} for time {two.count}, after {one.count}"


def _pending(view: ConsumerView) -> Iterator[str]:
    """A delivery tells how many messages follow that were never delivered."""
    if view.life.changes or not view.view.plain:
        return
    for number, each in enumerate(view.deliveries):
        if not view.tidy(each.at):
            return
        then = each.pull.at if each.pull is not None else each.at - view.slack
        before = {other.seq for other in view.deliveries[: number + 1]}
        least = sum(seq not in before and view.known[seq].certain < then for seq in view.must)
        most = sum(
            seq not in before and known.sent < each.at and seq not in view.never
            for seq, known in view.known.items()
        )
        if not least <= each.pending <= most:
            yield f"{each.seq} at {each.at:.3f} tells of {each.pending} more, not {least} to {most}"
            return


def _not_too_many(view: ConsumerView) -> Iterator[str]:
    """No more messages wait for acks than `max_ack_pending` allows when another one is sent."""
    most_often = view.limit("max_deliver", 0.0, FOREVER)
    pending: dict[int, int] = {}  # the count of the last delivery
    for each in view.deliveries:
        if not view.tidy(each.at):
            return
        pending[each.seq] = each.count
        if each.count > 1:
            continue
        most = max(
            config.get("max_ack_pending", -1) for config in view.configs_at(each.at - view.slack, each.at)
        )
        open_now = sum(
            count < most_often and not view.settled_by(seq, each.at) for seq, count in pending.items()
        )
        if 0 < most < open_now:
            yield f"{open_now} messages wait for acks at {each.at:.3f}, and {most} may"
            return


def _original_pace(view: ConsumerView) -> Iterator[str]:
    """Check `replay_policy: original`: earlier messages come as slowly as they were stored."""
    if view.life.config.get("replay_policy") != "original":
        return
    first = [each for each in view.deliveries if each.count == 1 and view.tidy(each.at)]
    for one, two in itertools.pairwise(first):
        known = view.known.get(two.seq)
        if known is not None and known.certain < view.life.asked:
            pause = (two.stamp_ns - one.stamp_ns) / SECOND_NS
            if two.at - one.at < pause - view.slack:
                yield f"{two.seq} comes {two.at - one.at:.3f} s after {one.seq}, not {pause:.3f} s"


def unfinished(view: ConsumerView) -> Iterator[str]:
    """Yield messages that never came although the consumer was read to its end."""
    if view.limit("max_deliver", 0.0, FOREVER) < 1 << 40 and not view.tidy(view.until):
        return
    everything = not view.explicit and view.life.config["ack_policy"] == "all"
    acked = max((ack.seq for ack in view.acks), default=0) if everything else 0
    for seq in sorted(view.must):
        if seq not in view.by_seq and seq >= acked:
            if view.life.config["ack_policy"] == "none" and not view.tidy(view.until):
                continue  # lost on its way to the client
            yield f"{seq} was never delivered"
