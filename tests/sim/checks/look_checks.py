"""Promises of a consumer's info: its numbers are those of the history."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tests.sim.checks.consumer_view import FOREVER, ConsumerView, wants
from tests.sim.history import ConsumerLook
from tests.sim.plans.plan import SECOND_NS

_NOT_FOUND = 10014
_JITTER_S = 2.0


def check_looks(view: ConsumerView) -> Iterator[str]:
    for look in view.looks:
        if "error" in look.info:
            if look.info["error"].get("err_code") == _NOT_FOUND:
                yield from _gone(view, look)
            continue
        yield from _there(view, look)
        yield from _config(view, look)
        yield from _floor(view, look)
        if view.tidy(look.at) and look.connection:
            yield from _numbers(view, look)
            yield from _waiting(view, look)
        elif not view.life.changes:
            yield from _left(view, look)


# -- existence ------------------------------------------------------------------------------------


def _last_use(view: ConsumerView, at: float) -> float:
    uses = [view.created if view.life.created is not None else view.life.asked]
    uses += [min(pull.last, at) for pull in view.pulls if pull.at < at]
    uses += [ack.at for ack in view.acks if ack.at < at]
    return max(uses)


def _gone(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    """A consumer that was created exists until it is deleted, or was not used for long."""
    if view.life.created is None or not view.created < look.asked or look.at >= view.life.end:
        return
    unused = view.life.config.get("inactive_threshold", 0) / SECOND_NS
    last = _last_use(view, look.at)
    if view.life.config.get("mem_storage") and not view.tidy(look.at):
        return
    if not unused:
        yield f"it is gone at {look.at:.3f}"
    elif look.at < last + unused - view.slack and view.quiet(view.created, look.at):
        yield f"it is gone at {look.at:.3f}, and was used at {last:.3f}"


def _there(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    if view.life.removed is not None and view.life.removed < look.asked and look.at < view.until:
        yield f"it was deleted at {view.life.removed:.3f} and is there at {look.at:.3f}"
    unused = view.life.config.get("inactive_threshold", 0) / SECOND_NS
    if unused and not view.plan.push:
        last = _last_use(view, look.asked)
        latest = last + 2 * (unused + _JITTER_S) + view.slack
        if look.asked > latest and view.wide.quiet(view.created, look.at):
            yield f"it is there at {look.at:.3f}, and was last used at {last:.3f}"


def _config(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    """A confirmed configuration stays, also over restarts."""
    told = look.info.get("config", {})
    configs = view.configs_at(look.asked, look.at)
    compared = {key for one in configs for key, value in one.items() if value} - {"opt_start_time"}
    if not any(all(told.get(key) == one.get(key) for key in compared) for one in configs):
        yield f"the configuration at {look.at:.3f} is {told}"


# -- numbers --------------------------------------------------------------------------------------


def _numbers(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    """Check that everything before the request is counted, and nothing after the answer."""
    info, at = look.info, look.at
    before = {each.seq: each.count for each in view.deliveries if each.at <= look.asked}
    until = {each.seq: each.count for each in view.deliveries if each.at <= at}
    least = sum(each.at <= look.asked for each in view.deliveries)
    most = sum(each.at <= at for each in view.deliveries)
    if not least <= info["delivered"]["consumer_seq"] <= most:
        yield f"{info['delivered']} at {at:.3f}, and {least} to {most} deliveries came"
    if before and not max(before) <= info["delivered"]["stream_seq"] <= max(until):
        yield f"{info['delivered']} at {at:.3f}, and {max(before)} to {max(until)} was delivered"
    yield from _open(view, look, before.keys(), until.keys())
    if view.explicit:
        yield from _unsettled(view, look, before, until)
        yield from _exact_floor(view, look, before, until)
    elif view.life.config["ack_policy"] == "none" and info["num_ack_pending"]:
        yield f"{info['num_ack_pending']} wait for acks at {at:.3f}, and none is wanted"


def _open(view: ConsumerView, look: ConsumerLook, before: Set[int], until: Set[int]) -> Iterator[str]:
    if any(change.asked < look.at for change in view.life.changes) or not view.view.plain:
        return
    told = look.info["num_pending"]
    least = sum(seq not in until and view.known[seq].certain < look.asked for seq in view.must)
    most = sum(
        seq not in before and known.sent < look.at and seq not in view.never
        for seq, known in view.known.items()
    )
    if not least <= told <= most:
        yield f"{told} messages are pending at {look.at:.3f}, not {least} to {most}"


def _unsettled(
    view: ConsumerView, look: ConsumerLook, before: dict[int, int], until: dict[int, int]
) -> Iterator[str]:
    """The numbers of messages that wait for an ack, and of those delivered more than once."""
    info, at = look.info, look.at
    most_often = view.limit("max_deliver", 0.0, FOREVER)
    surely = {seq: count for seq, count in before.items() if not view.settled_by(seq, at)}
    # An ack may be on its way through the server when it answers.
    perhaps = {
        seq: count for seq, count in until.items() if not view.settled_by(seq, look.asked - view.slack)
    }
    least = sum(until[seq] < most_often for seq in surely)
    if not least <= info["num_ack_pending"] <= len(perhaps):
        yield f"{info['num_ack_pending']} wait for acks at {at:.3f}, not {least} to {len(perhaps)}"
    least = sum(count > 1 for count in surely.values())
    most = sum(count > 1 for count in perhaps.values())
    if most_often != 1 and not least <= info["num_redelivered"] <= most:
        yield f"{info['num_redelivered']} are redelivered at {at:.3f}, not {least} to {most}"


def _exact_floor(
    view: ConsumerView, look: ConsumerLook, before: dict[int, int], until: dict[int, int]
) -> Iterator[str]:
    """The ack floor is below the first message that is not settled, and not below others."""
    floor, at, most_often = look.info["ack_floor"], look.at, view.limit("max_deliver", 0.0, FOREVER)
    surely = [seq for seq in before if not view.settled_by(seq, at) and until[seq] < most_often]
    perhaps = [seq for seq in until if not view.settled_by(seq, look.asked)]
    if not perhaps and before and not _same(floor, look.info["delivered"]):
        yield f"the ack floor is {floor} at {at:.3f}, and {look.info['delivered']} is settled"
    if surely and floor["stream_seq"] >= min(surely):
        yield f"the ack floor is {floor} at {at:.3f}, and {min(surely)} is not settled"
    settled = [seq for seq in before if seq < min(perhaps, default=0)]
    if settled and floor["stream_seq"] < max(settled):
        yield f"the ack floor is {floor} at {at:.3f}, and everything up to {max(settled)} is settled"


def _same(one: dict[str, int], two: dict[str, int]) -> bool:
    return all(one[key] == two[key] for key in ("consumer_seq", "stream_seq"))


def _floor(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    """The floor passes no message that nobody settled, whatever happened before."""
    policy = view.life.config["ack_policy"]
    if not view.view.plain or policy == "none" or view.limit("max_deliver", 0.0, FOREVER) < 1 << 40:
        return
    floor = look.info["ack_floor"]["stream_seq"]
    acked = max((ack.seq for ack in view.acks if ack.at <= look.at), default=0) if policy == "all" else 0
    for seq in sorted(view.must):
        if acked < seq <= floor and not view.settled_by(seq, look.at):
            yield f"the ack floor is {floor} at {look.at:.3f}, and {seq} is not settled"
            return


def check_end(view: ConsumerView) -> Iterator[str]:
    """After the last start, only what nobody confirmed may be open."""
    if view.life.config.get("mem_storage"):
        return
    look = view.looks[-1] if view.looks else None
    if look is None or "error" in look.info:
        yield f"there is no info in the end: {look and look.info}"
        return
    confirmed = {ack.seq for ack in view.acks if ack.confirmed_at is not None}
    if view.life.config["ack_policy"] == "all" and confirmed:
        confirmed |= set(range(1, max(confirmed) + 1))
    unsure = view.known.keys() - confirmed - view.never
    left = look.info["num_pending"] + look.info["num_ack_pending"]
    if left > len(unsure):
        yield f"{left} messages are open after the last start, and {len(unsure)} are not confirmed"


def _left(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    """Everything behind the last delivery is pending, whatever happened before."""
    config = view.life.config
    if not view.view.plain or config.get("deliver_policy") == "last_per_subject":
        return
    behind = look.info["delivered"]["stream_seq"]
    least = sum(seq > behind and view.known[seq].certain < look.asked for seq in view.must)
    most = sum(
        seq > behind and known.sent < look.at and wants(config, known.subject)
        for seq, known in view.known.items()
    )
    if not least <= look.info["num_pending"] <= most:
        told = look.info["num_pending"]
        yield f"{told} are pending behind {behind} at {look.at:.3f}, not {least} to {most}"


def _waiting(view: ConsumerView, look: ConsumerLook) -> Iterator[str]:
    """The requests that wait are counted."""
    if view.plan.push or not view.quiet(look.asked - 3 * view.slack, look.at + view.slack):
        return
    before = [pull for pull in view.pulls if pull.at < look.asked]
    least = sum(
        pull.ended is not None
        and pull.ended > look.at
        and not pull.status.startswith("409")
        and pull.last_due > look.at + view.slack
        for pull in before
    )
    most = sum(pull.at < look.at and pull.last + view.slack >= look.asked for pull in view.pulls)
    if not least <= look.info["num_waiting"] <= most:
        yield f"{look.info['num_waiting']} requests wait at {look.at:.3f}, not {least} to {most}"
