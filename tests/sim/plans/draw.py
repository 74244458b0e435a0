"""Draw a plan from a seed; ``moments`` adds what would be rare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from tests.sim.checks.letters import lettered
from tests.sim.plans.compounds import compounded
from tests.sim.plans.enrichment import enriched
from tests.sim.plans.moments import cut_short, doubted, pressed
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Fault, Op, Plan

GENERATION = 2  # of plans


def _streams(random: Random) -> dict[str, dict[str, Any]]:
    window = random.choice((1, 5, 120)) * SECOND_NS
    streams: dict[str, dict[str, Any]] = {
        "S": {
            "subjects": ["s.>"],
            "duplicate_window": window,
            "allow_atomic": True,
            "allow_batched": True,
            "allow_direct": True,
        }
    }
    if random.random() < 0.5:
        streams["W"] = {"subjects": ["w.>"], "retention": "workqueue"}
    if random.random() < 0.4:
        streams["I"] = {"subjects": ["i.>"], "retention": "interest"}
    if random.random() < 0.5:
        streams["K"] = {
            "subjects": ["k.>"],
            "max_msgs_per_subject": random.choice((1, 1, 3)),
            "allow_direct": True,
            "allow_rollup_hdrs": True,
        }
    if random.random() < 0.4:
        streams["L"] = {"subjects": ["l.>"], "max_msgs": random.choice((1, 5, 12))}
    if random.random() < 0.25:
        age_s = random.choice((10, 40, 100))
        streams["A"] = {"subjects": ["a.>"], "max_age": age_s * SECOND_NS, "allow_msg_ttl": True}
    if random.random() < 0.25:
        streams["D"] = {"subjects": ["d.>"]}
    if random.random() < 0.5:
        streams["M"] = {"mirror": {"name": "S"}}
    if random.random() < 0.3:
        streams["G"] = {"sources": [{"name": "S"}]}
    if random.random() < 0.2:
        for config in streams.values():
            config["compression"] = "s2"
    return streams


def _consumer(random: Random, stream: str, name: str, push: bool) -> ConsumerPlan:
    config: dict[str, Any] = {
        "durable_name": name,
        "ack_policy": "all" if stream == "S" and random.random() < 0.15 else "explicit",
        "ack_wait": random.choice((1, 3)) * SECOND_NS,
        "max_ack_pending": random.choice((2, 10, 1000)),
    }
    if stream == "S" and random.random() < 0.2:
        config["max_deliver"] = random.choice((1, 2, 4))
    if stream == "S" and random.random() < 0.3:
        config["filter_subject"] = "s.1"
    if push:
        config["deliver_subject"] = f"push.{name}"
    return ConsumerPlan(stream, name, config, push)


def _ack_kinds(random: Random) -> list[str]:
    kinds = ("+ACK", "+ACK!", "+ACK!", "-NAK", "+WPI", "+TERM!", "")
    return [random.choice(kinds) for _ in range(random.randint(1, 4))]


def make_plan(seed: int, generation: int = GENERATION) -> Plan:
    """Draw a plan.  What it may have has grown; a seed that found a bug keeps the generation of then."""
    plan = _first_plan(seed)
    return plan if generation < 2 else enriched(plan, Random(f"enriched {seed}"))


def _first_plan(seed: int) -> Plan:
    """Draw a plan of the first generation.

    A third of them is widened, most others end with a rare moment or with dead letters.  Seeds from 1,000 to
    60,000, and some up to 400,000, found bugs before there were all these moments, and keep what they had.
    """
    plan = _make_plan(seed)
    if seed % 12 == 0 and not 1_000 <= seed < 400_000:
        return compounded(plan, Random(f"compounded {seed}"))
    if seed % 12 == 6 and not 1_000 <= seed < 60_000:
        return lettered(plan, Random(f"lettered {seed}"))
    if seed % 6 in (1, 2):
        return _widened(plan, Random(f"wide {seed}"))
    if seed % 6 == 3 and not 1_000 <= seed < 60_000:
        return pressed(plan, Random(f"pressed {seed}"))
    if seed % 6 == 4 and not 1_000 <= seed < 60_000:
        return cut_short(plan, Random(f"cut short {seed}"))
    if seed % 6 == 5 and not 1_000 <= seed < 60_000:
        return doubted(plan, Random(f"doubted {seed}"))
    return plan


def _widened(plan: Plan, random: Random) -> Plan:
    """Add counters, schedules, a mirror of the mirror, and priorities of pull requests."""
    streams, ops = dict(plan.streams), list(plan.ops)
    length = max((op.at for op in ops), default=3.0)
    if random.random() < 0.6:
        streams["C"] = {"subjects": ["c.>"], "allow_msg_counter": True, "allow_direct": True}
        for number in range(random.choice((1, 3))):
            for _ in range(random.randint(2, 10)):
                args = {"stream": "C", "subject": f"c.{random.randint(1, 2)}", "by": random.randint(1, 9)}
                ops.append(Op(f"counter{number}", random.random() * length, "count", args))
    if random.random() < 0.4:
        streams["P"] = {"subjects": ["p.>"], "allow_msg_schedules": True}
        for number in range(random.randint(1, 5)):
            args = {"stream": "P", "subject": f"p.in.{number}", "after_s": random.choice((1, 3, 20))}
            ops.append(Op("scheduler", random.random() * length, "schedule", args))
    if "M" in streams and random.random() < 0.6:
        streams["MM"] = {"mirror": {"name": "M"}}
    consumers = tuple(
        _prioritized(each) if not each.push and random.random() < 0.3 else each for each in plan.consumers
    )
    ops.sort(key=lambda op: op.at)
    return plan.without(streams=streams, ops=tuple(ops), consumers=consumers)


def _prioritized(consumer: ConsumerPlan) -> ConsumerPlan:
    config = consumer.config | {"priority_groups": ["g"], "priority_policy": "prioritized"}
    return replace(consumer, config=config)


def _make_plan(seed: int) -> Plan:
    random = Random(f"plan {seed}")
    streams = _streams(random)
    consumers = []
    for stream in streams:
        if stream in ("S", "W", "I", "L"):
            for number in range(random.choice((1, 2)) if stream in ("S", "I") else 1):
                name = f"{stream.lower()}{number}"
                consumers.append(_consumer(random, stream, name, random.random() < 0.4))
    ordered = ("S",) if random.random() < 0.4 else ()
    length = random.choice((3.0, 20.0, 90.0))
    ops = []
    publishers = random.randint(1, 3)
    targets = [name for name in streams if name not in ("M", "G")]
    removes = random.random() < 0.4
    for actor in range(publishers):
        for _ in range(random.randint(2, 14)):
            at = random.random() * length
            ops.append(_operation(random, f"p{actor}", at, random.choice(targets), removes))
    if random.random() < 0.15:
        for number in range(random.choice((1, 2))):
            args = {"stream": "S", "subject": "", "copy": f"R{number}"}
            ops.append(Op("archivist", random.random() * length, "snapshot", args))
    for consumer in consumers:
        if not consumer.push:
            for _ in range(random.randint(0, 6)):
                if random.random() < 0.1:
                    args = {"max_ack_pending": random.choice((1, 5, 100)), "ack_wait": 2 * SECOND_NS}
                    ops.append(Op(consumer.path, random.random() * length, "reconfigure", args))
                args = {"batch": random.randint(1, 8), "acks": _ack_kinds(random)}
                ops.append(Op(consumer.path, random.random() * length, "fetch", args))
        else:
            args = {"acks": _ack_kinds(random)}
            ops.append(Op(consumer.path, 0.0, "listen", args))
    return Plan(
        seed,
        streams,
        tuple(consumers),
        ordered,
        tuple(sorted(ops, key=lambda op: op.at)),
        _faults(random, length, ops),
        random.random() < 0.5,
    )


def _operation(random: Random, actor: str, at: float, stream: str, removes: bool) -> Op:
    subject = f"{stream.lower()}.{random.randint(1, 3)}"
    args: dict[str, Any] = {"stream": stream, "subject": subject}
    chance = random.random()
    if stream == "K":
        return Op(actor, at, "cas" if chance < 0.8 else "put", args | {"stale": random.random() < 0.15})
    if stream == "S" and chance < 0.05:
        return Op(actor, at, "fast", args | {"count": random.randint(1, 9), "size": random.randint(0, 600)})
    if stream == "S" and chance < 0.17:
        size = random.choice((0, 100, 300, 700))
        return Op(actor, at, "batch", args | {"count": random.randint(1, 6), "size": size})
    if stream == "D" and chance < 0.15:
        return Op(actor, at, "recreate", args | {"config": {"subjects": ["d.>"]}})
    if stream == "S" and chance < 0.26:
        expects = random.choice(("stream", "subject"))
        return Op(actor, at, "expect", args | {"expects": expects, "stale": random.random() < 0.3})
    if removes and chance < 0.36 and stream in ("S", "W"):
        return Op(actor, at, random.choice(("delete", "purge")), args | _removal(random, subject))
    if stream == "L" and chance < 0.3:
        return Op(actor, at, "update", args | {"max_msgs": random.choice((1, 3, 8, 20))})
    if chance < 0.4:
        return Op(actor, at, "look", args)
    size = random.choice((0, 10, 100, 1_000, 70_000 if random.random() < 0.1 else 300))
    ids = stream == "S" and random.random() < 0.6
    count = 1 if size > 1_000 else random.choice((1, 1, 3, 10))
    args |= {"count": count, "size": size, "ids": ids}
    args["again"] = ids and random.random() < 0.4  # sent once more although it is acknowledged
    if stream == "A" and random.random() < 0.5:
        args["ttl_s"] = random.choice((2, 15, 200))
    return Op(actor, at, "publish", args)


def _removal(random: Random, subject: str) -> dict[str, Any]:
    way = random.choice(("all", "filter", "keep", "seq"))
    return {
        "which": random.random(),
        "no_erase": random.random() < 0.5,
        "way": way,
        "filter": subject,
        "keep": random.randint(0, 5),
    }


def _faults(random: Random, length: float, ops: Sequence[Op]) -> tuple[Fault, ...]:
    """Draw faults, most of them at a time when somebody does something."""
    faults: list[Fault] = []
    moments = [op.at for op in ops]
    kinds = random.choice((_USUAL, _USUAL, _USUAL, _DISK, _STRANGE))
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        at = random.random() * length
        if moments and random.random() < 0.7:
            at = max(0.0, random.choice(moments) + random.choice((-0.5, 0.0, 0.0, 0.01, 0.3)))
        kind = random.choice(kinds)
        args: dict[str, Any] = {}
        if kind == "power":
            args = {"operations": random.choice((1, 2, 3, 5, 8, 20)), "again": random.choice((0, 0, 1, 2))}
        elif kind == "link":
            args = {"client": random.randint(0, 9)}
        elif kind == "clock":
            args = {"by": random.choice((-3_600.0, -5.0, 5.0, 3_600.0))}
        elif kind == "rot":
            if any(fault.kind == "rot" for fault in faults):
                continue
            args = {"at_rest": random.random() < 0.7}
        elif kind in _LASTING:
            args = {"for": random.choice((0.5, 2.0, 8.0)) * random.random()}
            if kind == "error":
                args["kind"] = random.choice(("write", "sync", "sync", "sync_folder", "create"))
            elif kind == "full":
                args["left"] = random.randint(0, 2_000)
            if random.random() < 0.7:
                cut = {"operations": random.choice((1, 2, 5, 9)), "again": 0}
                faults.append(Fault(at + args["for"] * random.random() * 1.5, "power", cut))
        faults.append(Fault(at, kind, args))
    return tuple(sorted(faults, key=lambda fault: fault.at))


_LASTING = ("error", "full", "unreadable", "slow")  # faults that last for a while
_USUAL = ("power", "power", "power", "power", "kill", "stop", "link", "link", "error", "full")
_DISK = ("error", "error", "full", "slow", "unreadable", "power", "rot")
_STRANGE = ("clock", "clock", "rot", "power", "link", "kill", "slow")
