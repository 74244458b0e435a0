"""Moments that are rare in a plan, added to its end on purpose."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.sim.plans.plan import ConsumerPlan, Fault, Op, Plan


def pressed(plan: Plan, random: Random) -> Plan:
    """End with a moment that is rare otherwise, in a stream with a limit or in a work queue.

    Either a commit that displaces messages fails, while a consumer waits and its state can be written, and
    power goes.  Or a queue is read to its end, and then the header of its file is damaged.
    """
    name, subject = random.choice((("L", "l.1"), ("W", "w.1")))
    streams = dict(plan.streams)
    if name == "L":
        streams["L"] = {"subjects": ["l.>"], "max_msgs": random.choice((2, 4))}
    else:
        streams.setdefault("W", {"subjects": ["w.>"], "retention": "workqueue"})
    readers = [each for each in plan.consumers if each.stream == name]
    config = {"durable_name": f"{name.lower()}9", "ack_policy": "explicit"}
    added = [] if readers else [ConsumerPlan(name, f"{name.lower()}9", config)]
    ops, faults = [op for op in plan.ops if op.kind != "update"], list(plan.faults)
    at = max((op.at for op in ops), default=0.0) + 1.0
    args = {
        "stream": name,
        "subject": subject,
        "size": random.choice((30, 200)),
        "ids": False,
        "again": False,
    }
    ops.append(Op("p9", at, "publish", args | {"count": random.randint(3, 5)}))
    fetches = [Op(each.path, at, "fetch", {"batch": 8, "acks": ["+ACK!"]}) for each in (*readers, *added)]
    fetches = [op for op, each in zip(fetches, (*readers, *added), strict=True) if not each.push]
    if name == "L":
        ops += [replace(op, at=at + 1.2) for op in fetches]
        ops.append(Op("p9", at + 1.1, "publish", args | {"count": random.randint(1, 2)}))
        error = {"kind": random.choice(("write", "sync")), "within": "/L/log/", "for": 3.0}
        faults.append(Fault(at + random.choice((0.9, 1.05)), "error", error))
        cut = {"operations": random.choice((1, 3)), "again": 0}
        faults.append(Fault(at + 1.3 + random.random() * 2.0, "power", cut))
    else:
        ops += [replace(op, at=at + 0.5) for op in fetches]
        ops.append(Op("p9", at + 20.0, "publish", args | {"count": 2}))
        if not any(fault.kind == "rot" for fault in faults):
            faults.append(Fault(at + random.choice((2.0, 12.0)), "rot", {"at_rest": True, "header_of": "W"}))
    return plan.without(
        streams=streams,
        consumers=(*plan.consumers, *added),
        ops=tuple(sorted(ops, key=lambda op: op.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def cut_short(plan: Plan, random: Random) -> Plan:
    """End with a power cut in what takes several writes.

    A batch, messages of a fast ingest, messages that mirrors and sourcing streams get at once, or the
    deletion of a stream.
    """
    streams = dict(plan.streams)
    at = max((op.at for op in plan.ops), default=0.0) + 1.0
    what = random.choice(("batch", "fast", "publish", "recreate"))
    args: dict[str, Any] = {"stream": "S", "subject": "s.1", "size": random.choice((60, 150, 300, 700))}
    args["count"] = random.randint(4, 12)
    ops = list(plan.ops)
    cut: dict[str, Any] = {"operations": random.choice((1, 2, 2, 3)), "again": 0}
    cut |= {"within": "/S/log/", "torn": random.random() < 0.5}
    if what == "publish":
        follower = random.choice((("M", {"mirror": {"name": "S"}}), ("G", {"sources": [{"name": "S"}]})))
        streams.setdefault(*follower)
        args |= {"ids": False, "again": False}
        cut["within"] = f"/{follower[0]}/log/"
    elif what == "recreate":
        config = streams.setdefault("D", {"subjects": ["d.>"]})
        args = {"stream": "D", "subject": "d.1"}
        more = {"size": 10, "count": 3, "ids": False, "again": False}
        ops.append(Op("p9", at - 0.9, "publish", args | more))
        args["config"] = config
        cut = {"operations": random.choice((1, 2, 3, 4)), "again": 0}
    ops.append(Op("p9", at, what, args))
    fault = Fault(at + random.choice((0.0, 0.0, 0.001, 0.01)), "power", cut)
    return plan.without(
        streams=streams,
        ops=tuple(sorted(ops, key=lambda op: op.at)),
        faults=tuple(sorted((*plan.faults, fault), key=lambda fault: fault.at)),
    )


def doubted(plan: Plan, random: Random) -> Plan:
    """End with a moment after which it is doubtful what is on disk.

    The server is killed in the call of a sync that fails.  Or the sync of a deletion fails.  Or power goes in
    the second of two commits of which the first ends while a consumer waits.  Or it tears the first commit of
    a queue's file, and the header of that file is damaged when the others are gone.
    """
    moment = random.choice((_killed_in_sync, _failed_deletion, _second_commit_cut, _only_header_left))
    at = max((op.at for op in plan.ops), default=0.0) + 1.0
    return moment(plan.without(ops=tuple(op for op in plan.ops if op.kind != "update")), random, at)


def publish_args(stream: str, size: int) -> dict[str, Any]:
    """Return arguments of an operation that publishes."""
    subject = f"{stream.lower()}.1"
    return {"stream": stream, "subject": subject, "size": size, "ids": False, "again": False}


def ended(plan: Plan, ops: list[Op], faults: list[Fault], **parts: Any) -> Plan:
    """Return the plan with more operations and faults."""
    return plan.without(
        ops=tuple(sorted((*plan.ops, *ops), key=lambda op: op.at)),
        faults=tuple(sorted((*plan.faults, *faults), key=lambda fault: fault.at)),
        **parts,
    )


def _killed_in_sync(plan: Plan, random: Random, at: float) -> Plan:
    args = publish_args("S", random.choice((10, 300, 2_000))) | {"ids": True, "again": True}
    ops = [
        Op("p9", at, "publish", args | {"count": random.randint(1, 6)}),
        Op("p9", at + 0.1, "publish", args | {"count": random.randint(1, 6)}),
    ]
    ops += [
        Op(each.path, at + 1.0, "fetch", {"batch": 8, "acks": ["+ACK!"]})
        for each in plan.consumers
        if each.stream == "S" and not each.push
    ]
    error = {"kind": "sync", "within": "/S/log/", "for": 0.3, "kills": True}
    cut = {"operations": random.choice((1, 2, 5)), "again": 0}
    faults = [
        Fault(at + random.choice((-0.01, 0.05)), "error", error),
        Fault(at + random.choice((0.6, 1.5, 7.0)), "power", cut),
    ]
    return ended(plan, ops, faults)


def _failed_deletion(plan: Plan, random: Random, at: float) -> Plan:
    streams = dict(plan.streams)
    config = streams.setdefault("D", {"subjects": ["d.>"]})
    args = publish_args("D", 10) | {"count": 3}
    ops = [
        Op("p9", at - 0.9, "publish", args),
        Op("p9", at, "recreate", {"stream": "D", "subject": "d.1", "config": config}),
        Op("p9", at + 0.1, "publish", args),
    ]
    error = {"kind": "sync_folder", "within": "/streams", "for": random.choice((0.05, 0.5, 1.5))}
    cut = {"operations": random.choice((1, 2, 3, 5)), "again": 0}
    faults = [
        Fault(at - 0.01, "error", error),
        Fault(at + random.choice((0.001, 0.1, 0.6, 1.6)), "power", cut),
    ]
    return ended(plan, ops, faults, streams=streams)


def _second_commit_cut(plan: Plan, random: Random, at: float) -> Plan:
    streams = dict(plan.streams)
    streams["L"] = {"subjects": ["l.>"], "max_msgs": 3}
    config = {"durable_name": "l9", "ack_policy": "explicit", "ack_wait": 30_000_000_000}
    reader = ConsumerPlan("L", "l9", config)
    args = publish_args("L", random.choice((30, 200)))
    ops = [
        Op("p9", at, "publish", args | {"count": 3}),
        Op(reader.path, at + 0.5, "fetch", {"batch": 3, "acks": [""]}),
        Op("p9", at + 2.0, "publish", args | {"count": 1}),
        Op("p8", at + 2.0 + random.choice((0.001, 0.02, 0.3)), "publish", args | {"count": 2}),
    ]
    cut = {"operations": random.choice((3, 3, 4)), "again": 0, "within": "/L/log/"}
    faults = [
        Fault(at + 1.9, "slow", {"for": random.choice((0.3, 4.0))}),
        Fault(at + 1.95, "power", cut | {"torn": random.random() < 0.5}),
    ]
    return ended(plan, ops, faults, streams=streams, consumers=(*plan.consumers, reader))


def _only_header_left(plan: Plan, random: Random, at: float) -> Plan:
    streams = dict(plan.streams)
    streams.setdefault("W", {"subjects": ["w.>"], "retention": "workqueue"})
    readers = [each for each in plan.consumers if each.stream == "W"]
    added = [] if readers else [ConsumerPlan("W", "w9", {"durable_name": "w9", "ack_policy": "explicit"})]
    args = publish_args("W", 700)
    ops = [
        Op("p9", at, "publish", args | {"count": random.randint(1, 3)}),
        Op("p9", at + 5.0, "publish", args | {"count": 1}),
        Op("p9", at + 150.0, "publish", args | {"count": 2}),
    ]
    ops += [
        Op(each.path, at + 0.5, "fetch", {"batch": 20, "acks": ["+ACK!"]})
        for each in (*readers, *added)
        if not each.push
    ]
    cut = {"operations": random.choice((2, 3, 3, 4)), "again": 0, "within": "/W/log/", "torn": True}
    faults = [fault for fault in plan.faults if fault.kind != "rot"]
    faults += [
        Fault(at + 4.9, "power", cut),
        Fault(at + random.choice((20.0, 130.0)), "rot", {"at_rest": True, "header_of": "W"}),
    ]
    return ended(plan.without(faults=()), ops, faults, streams=streams, consumers=(*plan.consumers, *added))
