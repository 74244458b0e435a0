"""More faults of the disk, and moments in which they matter, at the end of some plans."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.plans.moments import ended, publish_args
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Fault, Op, Plan

_OFTEN = 0.4  # of the plans


def faulted(plan: Plan, random: Random) -> Plan:
    """Let some plans end with one more moment of the disk."""
    if random.random() >= _OFTEN:
        return plan
    moments = (_scattered, _steady, _doubtful, _refused, _damaged, _cut_again_and_again, _partly_unreadable)
    (moment,) = random.choices(moments, weights=(6, 4, 3, 2, 5, 1, 1))
    quiet = plan.without(ops=tuple(op for op in plan.ops if op.kind != "update"))
    at = max((*(op.at for op in plan.ops), *(fault.at for fault in plan.faults)), default=0.0) + 12.0
    return moment(quiet, random, at)


def _machine(**values: Any) -> Fault:
    return Fault(0.0, "machine", values)


def _cut(at: float, random: Random, **more: Any) -> Fault:
    args = {"operations": random.choice((1, 2, 3, 5, 9)), "again": random.choice((0, 0, 1, 3))}
    return Fault(at, "power", args | more)


def _scattered(plan: Plan, random: Random, at: float) -> Plan:
    """Remove messages here and there in many small files, which are erased and compacted meanwhile.

    In waves, so that files that tell of removals in others are compacted and dropped themselves.
    """
    streams = plan.streams | {"W": {"subjects": ["w.>"], "retention": "workqueue"}}
    streams["K"] = {"subjects": ["k.>"], "max_msgs_per_subject": random.choice((1, 3)), "allow_direct": True}
    if random.random() < 0.2:
        streams["S"] = streams["S"] | {"compression": "s2"}
    erased = random.random() < 0.5
    size, waves = random.choice((60, 150)), random.choice((1, 2, 4))
    ops: list[Op] = []
    faults = [fault for fault in plan.faults if fault.kind != "rot"]
    for number in range(waves):
        ops += _wave(random, at + 8.0 * number, size, 24 // waves)
    end = at + 8.0 * waves
    ops.append(Op("pS", end, "publish", publish_args("S", size) | {"count": 3}))
    sizes = {"segment_size": random.choice((600, 1_500)), "erase_within_s": 3.0 if erased else 120.0}
    faults.append(_machine(**sizes, journals=random.random() < 0.5))
    if erased:
        faults.append(Fault(at, "look at disk"))
    if random.random() < 0.5:
        faults.append(Fault(at + 1.0 + random.random() * 4.0, "slow", {"for": 3.0}))
    for _ in range(random.choice((0, 1, 2, 3))):
        moment = at + 1.0 + random.random() * (end - at)
        within = random.choice(({}, {"within": ".new", "torn": False}, {"within": ".sum", "torn": True}))
        faults.append(random.choice((_cut(moment, random, **within), Fault(moment, "kill"))))
    config = {"durable_name": "w8", "ack_policy": "explicit"}
    has_reader = any(each.stream == "W" for each in plan.consumers)
    consumers = plan.consumers if has_reader else (*plan.consumers, ConsumerPlan("W", "w8", config))
    return ended(plan.without(faults=()), ops, faults, streams=streams, consumers=consumers)


def _wave(random: Random, at: float, size: int, count: int) -> list[Op]:
    """Publish messages, and remove up to `count` old and new ones, most of them side by side."""
    ops = []
    for stream in ("S", "S", "W", "K"):
        for subject in (1, 2, 3):
            args = publish_args(stream, size) | {"subject": f"{stream.lower()}.{subject}"}
            ops.append(Op(f"p{stream}", at, "publish", args | {"count": random.randint(0, 4)}))
    band = random.random() * 0.7
    for number in range(random.randint(count // 2, count)):
        which = band + random.random() * 0.3 if random.random() < 0.7 else random.random()
        args = {"stream": random.choice(("S", "S", "S", "W")), "subject": "s.1"}
        args |= {"which": which, "no_erase": random.random() < 0.7}
        ops.append(Op(f"d{number % 4}", at + 0.1 + random.random() * 7.0, "delete", args))
    if random.random() < 0.6:
        way = {"stream": "S", "subject": "s.1", "which": random.random() * 0.6, "keep": 4, "no_erase": True}
        way |= {"way": random.choice(("filter", "seq", "seq")), "filter": f"s.{random.randint(1, 3)}"}
        ops.append(Op("d0", at + 1.0 + random.random() * 6.0, "purge", way))
    return ops


def _steady(plan: Plan, random: Random, at: float) -> Plan:
    """Publish one message after another, through the commit journal; nothing unsynced survives.

    Or the file system cannot be synced once, and all streams but one are quiet until power goes.
    """
    length = random.choice((4.0, 12.0, 25.0))
    streams = {
        "W": {"subjects": ["w.>"], "retention": "workqueue"},
        "L": {"subjects": ["l.>"], "max_msgs": 9},
    }
    streams = streams | plan.streams
    fails = random.random() < 0.5
    faults = [_machine(journals=True, erase_within_s=random.choice((3.0, 30.0)))]
    ops = []
    for actor in ("p7", "p8", "p9"):
        for _ in range(random.randint(4, 12)):
            when = at + random.random() * length
            quiet = fails and when > at + length / 2
            stream = "S" if quiet else random.choice(("S", "W", "L"))
            args = publish_args(stream, random.choice((10, 40, 300))) | {"count": random.choice((1, 1, 2))}
            ops.append(Op(actor, when, "publish", args))
    if fails:
        error = {"kind": "sync", "within": random.choice(("all", "all", "/log/")), "for": 5.0, "once": True}
        faults.append(Fault(at + length / 2 - random.random() * 2.0, "error", error))
        faults.append(_cut(at + length * random.choice((0.6, 0.75, 0.9)), random, keep="nothing"))
    for _ in range(random.choice((0, 1) if fails else (1, 2, 3))):
        faults.append(_cut(at + random.random() * length, random, keep="nothing"))
    if random.random() < 0.3:
        faults.append(Fault(at + random.random() * length, "slow", {"for": 2.0}))
    return ended(plan, ops, faults, streams=streams)


def _doubtful(plan: Plan, random: Random, at: float) -> Plan:
    """A sync fails once, or a few times; the next succeeds, and then everything unsynced is lost."""
    size = random.choice((30, 300, 900))
    ops = [
        Op("p9", at + wait, "publish", publish_args("S", size) | {"count": random.randint(1, 6), "ids": True})
        for wait in (0.0, 0.4, 1.6, 3.0)
    ]
    fails_at = at + random.choice((-0.01, 0.35))
    error = {"kind": random.choice(("sync", "sync", "write")), "within": "/S/log/"}
    error |= {"for": random.choice((0.3, 1.5)), "once": random.random() < 0.7}
    faults = [Fault(fails_at, "error", error)]
    if random.random() < 0.6:
        faults.append(
            Fault(fails_at + random.choice((0.2, 0.6, 1.3)), random.choice(("kill", "kill", "stop")))
        )
    faults.append(_cut(at + 2.0 + random.random() * 4.0, random, keep="nothing"))
    if random.random() < 0.5:  # files that have no zeros ahead, of which a start writes little again
        faults.append(_machine(segment_size=100_000, most_in_doubt=500, most_ahead=0, journals=True))
    return ended(plan, ops, faults)


def _refused(plan: Plan, random: Random, at: float) -> Plan:
    """The disk refuses to open, list, rename, remove or sync something, while it runs or at a start."""
    streams = plan.streams | {"L": {"subjects": ["l.>"], "max_msgs": 4}, "D": {"subjects": ["d.>"]}}
    ops = []
    for wait in (0.0, 1.0, 2.5, 6.0, 9.0):
        stream = random.choice(("S", "L", "D"))
        args = publish_args(stream, random.choice((30, 200))) | {"count": random.randint(2, 6)}
        ops.append(Op("p9", at + wait, "publish", args))
    ops.append(
        Op("p8", at + 2.0, "update", {"stream": "L", "subject": "", "max_msgs": random.choice((2, 9))})
    )
    ops.append(
        Op("p8", at + 2.2, "update", {"stream": "L", "subject": "", "max_msgs": random.choice((3, 7))})
    )
    recreate = {"stream": "D", "subject": "d.1", "config": streams["D"]}
    ops.append(Op("p7", at + 3.0, "recreate", recreate))
    faults = [_machine(segment_size=600)]
    for _ in range(random.choice((1, 2, 3))):
        moment = at + random.random() * 8.0
        within = random.choice(("", "/log/", "/consumers/", "/deleted", ".sum", "meta.json", "staging"))
        kind = random.choice(
            ("open", "list", "rename", "remove", "create", "truncate", "overwrite", "sync_folder")
        )
        args = {
            "kind": kind,
            "within": within,
            "for": random.choice((0.5, 2.5)),
            "once": random.random() < 0.6,
        }
        faults.append(Fault(moment, "error", args))
        if random.random() < 0.6:
            then = moment + 0.01 + random.random()
            faults.append(
                random.choice((Fault(then, "kill"), _cut(then, random), _cut(then, random, keep="nothing")))
            )
    return ended(plan, ops, faults, streams=streams)


def _damaged(plan: Plan, random: Random, at: float) -> Plan:
    """Damage one or two places of some kind of file, while the server runs or is down, and read on."""
    faults = [fault for fault in plan.faults if fault.kind != "rot"]
    streams = dict(plan.streams)
    if random.random() < 0.4:
        streams["M"] = {"mirror": {"name": "S"}}
    rot: dict[str, Any] = {"at_rest": random.random() < 0.6, "places": random.choice((1, 1, 2))}
    rot["within"] = random.choice(
        ("/S/log/", "/S/log/", "/S/", "/consumers/", "meta.json", ".ids", ".sum", "/M/")
    )
    rot["sector"] = rot["within"] in ("meta.json", ".ids", ".sum") and random.random() < 0.5
    if rot["within"] == "meta.json" and rot["sector"]:
        rot["places"] = 1  # each copy may be in a sector
    ops = [
        Op("p9", at + wait, "publish", publish_args("S", random.choice((20, 90))) | {"count": 6, "ids": True})
        for wait in (0.0, 3.0, 6.0)
    ]
    ops += [
        Op(each.path, at + wait, "fetch", {"batch": 5, "acks": ["+ACK!", "+ACK!", ""]})
        for each in plan.consumers
        if each.stream == "S" and not each.push
        for wait in (1.0, 5.0)
    ]
    faults += [
        _machine(segment_size=random.choice((600, 600, 100_000))),
        Fault(at + random.choice((1.5, 4.0)), "rot", rot),
    ]
    if random.random() < 0.5:
        faults.append(random.choice((Fault(at + 4.5, "kill"), _cut(at + 4.5, random))))
    return ended(plan.without(faults=()), ops, faults, streams=streams)


def _cut_again_and_again(plan: Plan, random: Random, at: float) -> Plan:
    """Power goes in one start after the other."""
    ops = [
        Op("p9", at, "batch", {"stream": "S", "subject": "s.1", "size": 200, "count": 6}),
        Op("p8", at, "publish", publish_args("S", 300) | {"count": 5}),
        Op("p8", at + 40.0, "publish", publish_args("S", 30) | {"count": 2}),
    ]
    faults = [_cut(at + random.choice((0.0, 0.01, 0.3)), random) for _ in range(1)]
    faults[0].args["again"] = random.choice((6, 12))
    if random.random() < 0.5:
        faults.append(_machine(journals=True, segment_size=600))
    return ended(plan, ops, faults)


def _partly_unreadable(plan: Plan, random: Random, at: float) -> Plan:
    """Some files cannot be read for a while, which may begin before a start."""
    config = {"durable_name": "s7", "ack_policy": "explicit", "ack_wait": SECOND_NS}
    reader = ConsumerPlan("S", "s7", config)
    within = random.choice(
        ("/S/log/", "/S/consumers/", ".sum", "meta.json", ".ids", ".journal", "000001.log")
    )
    ops = [
        Op("p9", at + wait, "publish", publish_args("S", 90) | {"count": 5, "ids": True, "again": wait > 0})
        for wait in (0.0, 2.0, 5.0)
    ]
    ops += [Op(reader.path, at + wait, "fetch", {"batch": 6, "acks": ["+ACK!", ""]}) for wait in (1.0, 3.0)]
    faults = [
        _machine(segment_size=600),
        Fault(
            at + 1.5 + random.random() * 2.0,
            "unreadable",
            {"for": random.choice((1.0, 4.0)), "within": within},
        ),
    ]
    if random.random() < 0.6:
        faults.append(Fault(at + 2.0 + random.random() * 2.0, "kill"))
    return ended(plan, ops, faults, consumers=(*plan.consumers, reader))
