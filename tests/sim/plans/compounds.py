"""Moments in which two unlikely things come together, added to the end of a plan on purpose."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.plans.moments import ended, publish_args
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Fault, Op, Plan


def compounded(plan: Plan, random: Random) -> Plan:
    """End with a moment in which two unlikely things come together.

    Power tears an atomic batch in its middle.  Or it tears what a mirror gets, and the disk does not take the
    note of how far the mirror was.  Or it tears the very first commit of a stream with sources.  Or one ack
    settles messages, some of which were delivered again in another order.
    """
    moments = (_batch_with_hole, _reach_refused, _first_commit_torn, _acks_of_all_cross)
    (moment,) = random.choices(moments, weights=(2, 2, 3, 5))  # the last ones succeed least often
    at = max((op.at for op in plan.ops), default=0.0) + 1.0
    return moment(plan, random, at)


def _batch_with_hole(plan: Plan, random: Random, at: float) -> Plan:
    size, count = random.choice((150, 300)), random.randint(6, 12)
    args = {"stream": "S", "subject": "s.1", "size": size, "count": count}
    times = _again(at)
    ops = [Op("p9", at, "batch", args) for at in times]
    return ended(plan, ops, [_torn("S", random, at) for at in times])


def _reach_refused(plan: Plan, random: Random, at: float) -> Plan:
    streams = plan.streams | {"M": {"mirror": {"name": "S"}}}
    args = publish_args("S", random.choice((150, 300))) | {"count": random.randint(5, 10)}
    error = {"kind": random.choice(("create", "write", "sync")), "within": "/M/log/reach", "for": 5.0}
    times = _again(at)
    faults = [fault for at in times for fault in (_torn("M", random, at), Fault(at, "error", error))]
    return ended(plan, [Op("p9", at, "publish", args) for at in times], faults, streams=streams)


def _first_commit_torn(plan: Plan, random: Random, at: float) -> Plan:
    """Give a stream its first messages of its source all at once."""
    streams = plan.streams | {"G": {"sources": [{"name": "S"}]}}
    ops = [op for op in plan.ops if op.args.get("stream") != "S"]
    args = publish_args("S", 150) | {"count": 30}
    quiet = plan.without(ops=tuple(ops), faults=())
    return ended(quiet, [Op("p9", at, "publish", args)], [_torn("G", random, at)], streams=streams)


def _again(at: float) -> tuple[float, ...]:
    """Return times far enough apart that the server is up again at each."""
    return tuple(at + 20.0 * number for number in range(5))


def _torn(stream: str, random: Random, at: float) -> Fault:
    """Return a power cut in the next write or sync of this stream's messages, of which sectors are lost."""
    cut: dict[str, Any] = {"operations": random.choice((2, 3)), "again": 0}
    return Fault(at, "power", cut | {"within": f"/{stream}/log/", "torn": True})


def _acks_of_all_cross(plan: Plan, random: Random, at: float) -> Plan:
    config = {
        "durable_name": "s9",
        "ack_policy": "all",
        "ack_wait": random.choice((1, 3)) * SECOND_NS,
        "max_ack_pending": random.choice((2, 3)),
        "max_deliver": 2,
        "deliver_subject": "push.s9",
    }
    reader = ConsumerPlan("S", "s9", config, push=True)
    acks = ["+WPI", "+TERM!", "-NAK"]
    random.shuffle(acks)
    args = publish_args("S", 10)
    ops = [
        Op("p9", at + random.random() * 10.0, "publish", args | {"count": random.choice((1, 2, 3))})
        for _ in range(8)
    ]
    kills = [Fault(at + random.random() * 10.0, "kill") for _ in range(3)]
    ops.append(Op(reader.path, 0.0, "listen", {"acks": acks}))
    return ended(plan, ops, kills, consumers=(*plan.consumers, reader))
