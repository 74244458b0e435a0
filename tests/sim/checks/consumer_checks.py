"""Promises of a consumer: every message is delivered until it is settled, and never after."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.checks.consumer_view import FOREVER, SETTLES, ConsumerView, wants
from tests.sim.checks.delivery_checks import check_deliveries, unfinished
from tests.sim.checks.look_checks import check_end, check_looks
from tests.sim.checks.pull_checks import check_pulls
from tests.sim.checks.stream_view import StreamView
from tests.sim.checks.timing_checks import check_timing
from tests.sim.history import AckSent, Delivery, Stored
from tests.sim.plans.plan import ConsumerPlan


def check_consumer(view: StreamView, consumer: ConsumerPlan) -> Iterator[str]:
    if consumer.wide:
        yield from _check_lives(view, consumer)
        return
    deliveries = [each for each in view.deliveries if each.consumer == consumer.name]
    acks = [
        each
        for each in view.history.acks
        if (each.stream, each.consumer) == (consumer.stream, consumer.name) and each.kind in SETTLES
    ]
    yield from _not_after_ack(deliveries, acks, consumer)
    yield from _not_too_often(deliveries, consumer)
    yield from _delivered_all(view, consumer, deliveries)
    yield from _floors(view, consumer, deliveries, acks)
    yield from _settled_in_the_end(view, consumer, acks)


def check_damaged(view: StreamView, consumer: ConsumerPlan) -> Iterator[str]:
    """Check what holds although a byte of the stream changed, or of what its consumers have on disk.

    The damage may cost a message, or bring back one that was removed; of a consumer's state, it costs
    redeliveries, or the consumer itself, which then has no info.
    """
    if not view.plain or consumer.wide or _may_give_up(view, consumer):
        return
    looks = [each for each in view.history.looks if each.stream == view.name]
    if not any(each.consumer == consumer.name and each.at > view.history.rot[-1].at for each in looks):
        return
    deliveries = [each for each in view.deliveries if each.consumer == consumer.name]
    acks = [
        each
        for each in view.history.acks
        if (each.stream, each.consumer) == (consumer.stream, consumer.name) and each.kind in SETTLES
    ]
    yield from _delivered_all(view, consumer, deliveries)
    if all(rot.of_messages for rot in view.history.rot if rot.stream == view.name):
        meant = {each.seq: each.uid for each in deliveries if each.at < view.history.rot[0].at}
        same = [each for each in deliveries if meant.get(each.seq, each.uid) == each.uid]
        yield from _not_after_ack(same, acks, consumer)


def _check_lives(view: StreamView, consumer: ConsumerPlan) -> Iterator[str]:
    """Check a consumer that was deleted and created again, one life after the other."""
    lives = [
        life
        for life in view.history.wide.lives
        if (life.stream, life.consumer) == (consumer.stream, consumer.name)
    ]
    for number, life in enumerate(lives):
        until = lives[number + 1].asked if number + 1 < len(lives) else view.history.wide.ended
        found = ConsumerView(view, consumer, life, until)
        acks = [each for each in found.acks if each.kind in SETTLES]
        yield from _not_after_ack(found.deliveries, acks, consumer)
        for each in found.deliveries:
            if found.limit("max_deliver", 0.0, FOREVER) < each.count:
                most = max(config.get("max_deliver", -1) for config in found.configs)
                if most < each.count:
                    yield f"{each.seq} is delivered for time {each.count} of {most}"
            if life.removed is not None and each.at > life.removed:
                yield f"{each.seq} is delivered at {each.at:.3f}, and it was deleted at {life.removed:.3f}"
        yield from check_deliveries(found)
        yield from check_timing(found)
        yield from check_pulls(found)
        yield from check_looks(found)
        if life is lives[-1] and life.removing is None and not consumer.left:
            yield from unfinished(found)
            yield from check_end(found)


def _matching(view: StreamView, consumer: ConsumerPlan) -> Iterator[Stored]:
    return (each for each in view.final.content if wants(consumer.config, each.subject))


def _may_give_up(view: StreamView, consumer: ConsumerPlan) -> bool:
    """Return True if a delivery that a fault swallowed may have been the last one."""
    return consumer.config.get("max_deliver", -1) > 0 and view.history.faults > 0


def _not_after_ack(deliveries: list[Delivery], acks: list[AckSent], consumer: ConsumerPlan) -> Iterator[str]:
    """Check that no message is delivered again after it was confirmed as settled."""
    settled: dict[int, float] = {}
    for each in acks:
        if each.confirmed_at is not None:
            settled[each.seq] = min(each.confirmed_at, settled.get(each.seq, each.confirmed_at))
    for delivery in deliveries:
        end = settled.get(delivery.seq)
        if end is not None and delivery.at > end:
            yield f"{delivery.seq} was settled at {end:.3f} and is delivered at {delivery.at:.3f}"


def _not_too_often(deliveries: list[Delivery], consumer: ConsumerPlan) -> Iterator[str]:
    most = consumer.config.get("max_deliver", -1)
    for each in deliveries:
        if 0 < most < each.count:
            yield f"{each.seq} is delivered for time {each.count} of {most}"


def _delivered_all(view: StreamView, consumer: ConsumerPlan, deliveries: list[Delivery]) -> Iterator[str]:
    """Every message reaches the consumer; work queues and interest then drop it."""
    got = {each.seq for each in deliveries}
    if _may_give_up(view, consumer):
        return
    # A delivery that the network lost is settled with a later one, if an ack is for all before it.
    kinds = [
        each for each in view.history.acks if each.stream == view.name and each.consumer == consumer.name
    ]
    settled_below = max((each.seq for each in kinds if each.kind in SETTLES), default=0)
    settles_all = consumer.config["ack_policy"] == "all" and view.history.faults > 0
    for stored in _matching(view, consumer):
        if stored.seq not in got and not (settles_all and stored.seq < settled_below):
            yield f"{stored.seq} (message {stored.uid}) was never delivered"
    if not view.plain:
        for each in view.acked:
            if each.seq not in got and not view.may_be_removed(each.seq, each.subject, each.at):
                yield f"{each.seq} (message {each.uid}) was acknowledged to its publisher and never delivered"
        settled = {
            each.seq
            for each in view.history.acks
            if each.stream == view.name and each.consumer == consumer.name and each.kind in SETTLES
        }
        for stored in view.final.content:
            if stored.seq in settled and _confirmed_by_all(view, stored.seq):
                yield f"{stored.seq} is settled by all consumers and still there"


def _confirmed_by_all(view: StreamView, seq: int) -> bool:
    names = {look.consumer for look in view.history.looks if look.stream == view.name}
    return bool(names) and all(
        any(
            each.seq == seq
            and each.consumer == name
            and each.confirmed_at is not None
            and each.kind in SETTLES
            for each in view.history.acks
            if each.stream == view.name
        )
        for name in names
    )


def _floors(
    view: StreamView, consumer: ConsumerPlan, deliveries: list[Delivery], acks: list[AckSent]
) -> Iterator[str]:
    """The ack floor passes no message that nobody settled."""
    if not view.plain or _may_give_up(view, consumer):
        return
    first: dict[int, float] = {}
    for each in sorted(acks, key=lambda each: each.at):
        first.setdefault(each.seq, each.at)
    most = consumer.config.get("max_deliver", -1)
    all_below = consumer.config["ack_policy"] == "all"
    often = {each.seq for each in deliveries if 0 < most <= each.count}
    for look in view.history.looks:
        if (look.stream, look.consumer) != (consumer.stream, consumer.name):
            continue
        floor = look.info["ack_floor"].get("stream_seq", 0)
        for stored in _matching(view, consumer):
            if stored.seq > floor or stored.seq in often:
                continue
            if all_below:
                settled = any(seq >= stored.seq and at <= look.at for seq, at in first.items())
            else:
                settled = first.get(stored.seq, look.at + 1) <= look.at
            if not settled:
                yield f"the ack floor is {floor} at {look.at:.3f}, and {stored.seq} is not settled"
                break


def _settled_in_the_end(view: StreamView, consumer: ConsumerPlan, acks: list[AckSent]) -> Iterator[str]:
    """After the last start, only what nobody confirmed may be open."""
    looks = [
        look
        for look in view.history.looks
        if (look.stream, look.consumer) == (consumer.stream, consumer.name)
    ]
    if not looks:
        yield "there is no info"
        return
    info = looks[-1].info
    confirmed = {each.seq for each in acks if each.confirmed_at is not None}
    if consumer.config["ack_policy"] == "all" and confirmed:
        confirmed |= set(range(1, max(confirmed) + 1))
    unsure = sum(each.seq not in confirmed for each in _matching(view, consumer))
    left = info["num_pending"] + info["num_ack_pending"]
    if left > unsure:
        yield f"{left} messages are open after the last start, and {unsure} are not confirmed"
