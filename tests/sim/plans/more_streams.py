"""Plans of the second generation: buckets, full streams, other subjects, and more ways to follow."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.plans.moments import ended
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Fault, Op, Plan

SHARE = 0.2  # of the plans get something from here

Config = dict[str, Any]


def with_more_streams(plan: Plan, random: Random) -> Plan:
    """Add one or two kinds of streams to some plans, with clients that use them at the same times."""
    if random.random() >= SHARE:
        return plan
    length = max((op.at for op in plan.ops), default=3.0)
    before = plan
    for scene in random.sample(_SCENES, random.choice((1, 1, 1, 2))):
        plan = scene(plan, random, length)
    return _cut(plan, random, before)


def _cut(plan: Plan, random: Random, before: Plan) -> Plan:
    """Have power go, in half of the plans, in a write of a stream that was added."""
    moments = sorted({op.at for op in plan.ops} - {op.at for op in before.ops})
    names = [name for name in plan.streams if name not in before.streams] or ["S"]
    if not moments or random.random() < 0.5:
        return plan
    cut: Config = {"operations": random.choice((1, 1, 2, 3)), "again": random.choice((0, 0, 1))}
    cut |= {"within": f"/{random.choice(names)}/", "torn": random.random() < 0.5}
    at = max(0.0, random.choice(moments) + random.choice((-0.01, 0.0, 0.001)))
    return ended(plan, [], [Fault(at, "power", cut)])


def _times(random: Random, length: float, count: int) -> list[float]:
    return sorted(random.random() * length for _ in range(count))


def _bucket(plan: Plan, random: Random, length: float) -> Plan:
    """Add a key-value bucket, with clients that compare and set at the same time."""
    config: Config = {
        "subjects": ["kv.>"],
        "max_msgs_per_subject": random.choice((1, 1, 2, 4)),
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    }
    marks = random.random() < 0.3
    if marks and random.random() < 0.5:
        config |= {"allow_msg_ttl": True, "max_msgs_per_subject": 1}
        config["subject_delete_marker_ttl"] = 300 * SECOND_NS
    elif marks:
        config |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": 2 * SECOND_NS}
        config["max_age"] = random.choice((0, 30)) * SECOND_NS
    ops = []
    removes = random.random() < 0.4
    for number in range(random.choice((1, 2, 3))):
        for at in _times(random, length, random.randint(3, 10)):
            args: Config = {"stream": "KV", "subject": f"kv.{random.choice('aab')}"}
            chance = random.random()
            if chance < 0.3:
                args |= {"how": "last", "which": 0.0, "direct": random.random() < 0.5}
                ops.append(Op(f"k{number}", at, "read", args))
            elif chance < 0.4 and removes:
                ops.append(Op(f"k{number}", at, "purge", args | _purge(random, args["subject"])))
            else:
                way = random.choice(("put", "update", "update", "update", "delete", "purge"))
                args["ttl_s"] = random.choice((0, 2, 10)) if marks else 0
                ops.append(Op(f"k{number}", at, "key", args | {"way": way}))
    return ended(plan, ops, [], streams=plan.streams | {"KV": config})


def _purge(random: Random, subject: str) -> Config:
    way = random.choice(("all", "filter", "keep", "seq", "filter keep", "filter seq"))
    return {"which": random.random(), "way": way, "filter": subject, "keep": random.choice((1, 2, 4))}


def _purged(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream of which one client removes what it has just published."""
    ops = []
    at = random.random() * length
    for _ in range(random.choice((1, 2, 3))):
        for number in range(random.randint(3, 6)):
            args: Config = {"stream": "E", "subject": f"e.{random.choice('ab')}", "size": 30}
            ops.append(Op("v0", at + 0.001 * number, "send", args))
        subject = random.choice(("e.a", "e.b"))
        if random.random() < 0.75:
            ops.append(Op("v0", at + 0.01, "purge", {"stream": "E"} | _purge(random, subject)))
        else:
            which: Config = {"which": random.random(), "no_erase": random.random() < 0.5}
            ops.append(Op("v0", at + 0.01, "delete", {"stream": "E"} | which))
        ops.append(Op("v0", at + 0.02, "look", {"stream": "E", "subject": ""}))
        at += random.random() * 5.0
    return ended(plan, ops, [], streams=plan.streams | {"E": {"subjects": ["e.>"], "allow_direct": True}})


def _full(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream that refuses messages when it is full."""
    config: Config = {"subjects": ["f.>"], "discard": "new", "allow_direct": True}
    limit = random.choice(("max_msgs", "max_bytes", "of_subject", "max_msg_size"))
    if limit == "of_subject":
        config |= {"max_msgs_per_subject": random.choice((1, 3)), "discard_new_per_subject": True}
    else:
        config[limit] = {"max_msgs": random.choice((2, 6)), "max_bytes": 600, "max_msg_size": 100}[limit]
    if random.random() < 0.3:
        config["storage"] = "memory"
    ops = []
    for number in range(random.choice((1, 2))):
        for at in _times(random, length, random.randint(4, 10)):
            args: Config = {"stream": "F", "subject": f"f.{random.choice('ab')}"}
            if random.random() < 0.15:
                ops.append(Op(f"f{number}", at, "purge", args | _purge(random, args["subject"])))
                continue
            args["size"] = random.choice((10, 50, 150))
            if random.random() < 0.2:
                args["headers"] = {"X": "y"}
            ops.append(Op(f"f{number}", at, "send", args))
    return ended(plan, ops, [], streams=plan.streams | {"F": config})


def _changed(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream that gets other configurations."""
    config: Config = {"subjects": ["u.>"], "allow_direct": True, "allow_msg_ttl": random.random() < 0.5}
    ops = [Op("u0", 0.0, "look", {"stream": "U", "subject": ""})]
    for at in _times(random, length, random.randint(4, 14)):
        args: Config = {"stream": "U", "subject": f"u.{random.choice('abc')}", "size": random.choice((9, 90))}
        if config["allow_msg_ttl"] and random.random() < 0.3:
            args["headers"] = {"Nats-TTL": random.choice(("5s", "never"))}
        ops.append(Op("u0", at, "send", args))
    if random.random() < 0.5:
        for at in _times(random, 2 * length, random.randint(3, 8)):
            args = {"stream": "U", "subject": "u.a", "which": random.random()}
            ops.append(Op("u2", at, "repeat", args))
    for at in _times(random, length, 3):
        ops.append(Op("u1", at, "look", {"stream": "U", "subject": ""}))
    current = config
    times = _times(random, length, random.randint(1, 4))
    for at in times:
        current = current | random.choice(
            (
                {"max_msgs": random.choice((2, 5, -1))},
                {"max_bytes": random.choice((300, 2_000, -1))},
                {"max_age": random.choice((0, 8, 60)) * SECOND_NS},
                {"max_msgs_per_subject": random.choice((1, 3, -1))},
                {"subjects": ["u.>", "v.>"]},
                {"compression": random.choice(("s2", "none"))},
                {"duplicate_window": SECOND_NS},
                {"description": f"at {at:.3f}", "metadata": {"at": f"{at:.3f}"}},
                {"max_msg_size": random.choice((60, -1))},
            )
        )
        if 0 < current.get("max_age", 0) < 120 * SECOND_NS:
            current = current | {"duplicate_window": SECOND_NS}
        ops.append(Op("u1", at, "change", {"stream": "U", "config": dict(current)}))
    if random.random() < 0.25:
        ops.append(Op("u1", length, "change", {"stream": "U", "config": dict(current) | {"sealed": True}}))
        ops.append(Op("u0", length + 1.0, "send", {"stream": "U", "subject": "u.a", "size": 9}))
        ops.append(Op("u1", length + 1.5, "send", {"stream": "U", "subject": "u.b", "size": 9}))
    return ended(plan, ops, [], streams=plan.streams | {"U": config})


def _renamed(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream that stores messages under other subjects, and republishes them."""
    config: Config = {
        "subjects": ["t.>"],
        "subject_transform": {"src": "t.*", "dest": "x.{{wildcard(1)}}"},
        "duplicate_window": random.choice((2, 120)) * SECOND_NS,
    }
    if random.random() < 0.6:
        config["republish"] = {"src": ">", "dest": "rep.>"}
    ops = [Op("t1", 0.0, "follow_copies", {"stream": "T", "subject": "rep.>"})]
    for at in _times(random, length, random.randint(3, 8)):
        letter = random.choice("abc")
        args: Config = {"stream": "T", "subject": f"t.{letter}", "size": 20, "to": f"x.{letter}"}
        if random.random() < 0.5:
            args["headers"] = {"X": "y", "Trace": str(round(at))}
        ops.append(Op("t0", at, "send", args))
        if random.random() < 0.3:
            read: Config = {"stream": "T", "how": random.choice(("seq", "next", "last")), "subject": "x.*"}
            ops.append(Op("t1", at + 0.2, "read", read | {"which": random.random(), "direct": False}))
    return ended(plan, ops, [], streams=plan.streams | {"T": config})


def _mirrored(plan: Plan, random: Random, length: float) -> Plan:
    """Add a mirror with a filter, with other subjects, or one that begins later."""
    mirror: Config = {"name": "S"}
    way = random.choice(("filter", "rename", "start", "memory"))
    config: Config = {"mirror": mirror}
    if way == "filter":
        mirror["filter_subject"] = random.choice(("s.1", "s.2"))
    elif way == "rename":
        mirror["subject_transforms"] = [
            {"src": "s.1", "dest": "m.one"},
            {"src": "s.2", "dest": "m.two"},
        ]
    elif way == "start":
        mirror["opt_start_seq"] = random.choice((2, 5))
    else:
        config["storage"] = "memory"
    return plan.without(streams=plan.streams | {"MF": config})


def _promoted(plan: Plan, random: Random, length: float) -> Plan:
    """Add a mirror that becomes a stream of its own."""
    at = random.random() * length
    config: Config = {"subjects": ["mp.>"], "allow_direct": True}
    ops = [Op("m0", at, "change", {"stream": "MP", "config": config})]
    for number in range(random.randint(1, 4)):
        args = {"stream": "MP", "subject": f"mp.{number % 2}", "size": 30}
        ops.append(Op("m0", at + 0.01 + number * random.choice((0.0, 0.5)), "send", args))
    return ended(plan, ops, [], streams=plan.streams | {"MP": {"mirror": {"name": "S"}}})


def _gathered(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream with several sources, and subjects of its own."""
    first: Config = {"name": "S"}
    if random.random() < 0.5:
        first["filter_subject"] = "s.1"
    else:
        first["subject_transforms"] = [{"src": "s.*", "dest": "g.{{wildcard(1)}}"}]
    second: Config = {"name": "O"}
    if random.random() < 0.3:
        second["opt_start_seq"] = 2
    config: Config = {"subjects": ["gg.>"], "sources": [first, second], "allow_direct": True}
    ops = []
    for at in _times(random, length, random.randint(4, 10)):
        args: Config = {
            "stream": "O",
            "subject": f"o.{random.choice('ab')}",
            "size": random.choice((10, 200)),
        }
        if random.random() < 0.3:
            args["headers"] = {"X": "y"}
        if random.random() < 0.3:
            args |= {"stream": "GG", "subject": "gg.a"}
        ops.append(Op("g0", at, "send", args))
    removes, most = random.random() < 0.4, random.random() < 0.3
    if most:
        config["max_msgs"] = random.choice((1, 3, 6))
    for at in _times(random, length, random.choice((0, 4))):
        args = {"stream": "GG", "subject": ">", "how": "last", "which": 0.0, "direct": False}
        ops.append(Op("g2", at, "read", args))
        if removes and random.random() < 0.5:
            ops.append(Op("g2", at, "purge", {"stream": "GG"} | _purge(random, "g.1")))
    if random.random() < 0.3:
        third = {"name": "S", "filter_subject": "s.3"}
        changed = config | {"sources": [first, second, third]}
        ops.append(Op("g1", random.random() * length, "change", {"stream": "GG", "config": changed}))
    streams = plan.streams | {"O": {"subjects": ["o.>"]}, "GG": config}
    return ended(plan, ops, [], streams=streams)


def _renewed(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream with a source that is deleted and created again."""
    origin: Config = {"subjects": ["z.>"]}
    args: Config = {"stream": "Z", "subject": "z.1", "size": 60, "ids": False, "again": False}
    at = random.random() * length
    ops = []
    for _ in range(random.choice((1, 2))):
        ops.append(Op("z0", at, "publish", args | {"count": random.randint(1, 6)}))
        again = {"stream": "Z", "subject": "z.1", "config": origin}
        ops.append(Op("z0", at + random.choice((0.02, 1.0, 12.0)), "recreate", again))
        at += random.choice((13.0, 25.0))
    ops.append(Op("z0", at, "publish", args | {"count": random.randint(1, 6)}))
    streams = plan.streams | {"Z": origin, "GZ": {"sources": [{"name": "Z"}]}}
    return ended(plan, ops, [], streams=streams)


def _drained(plan: Plan, random: Random, length: float) -> Plan:
    """Add a work queue, or a stream that keeps what is wanted, with a source."""
    retention = random.choice(("workqueue", "interest", "interest"))
    streams = plan.streams | {
        "O": {"subjects": ["o.>"]},
        "GW": {"sources": [{"name": "O"}], "retention": retention},
    }
    config: Config = {"durable_name": "g1", "ack_policy": "explicit", "ack_wait": 3 * SECOND_NS}
    if random.random() < 0.6:
        config["filter_subject"] = "o.a"
    reader = ConsumerPlan("GW", "g1", config)
    ops = []
    for at in _times(random, length, random.randint(4, 8)):
        args = {
            "stream": "O",
            "subject": f"o.{random.choice('ab')}",
            "size": 60,
            "count": random.randint(1, 4),
        }
        ops.append(Op("g0", at, "publish", args | {"ids": False, "again": False}))
        if random.random() < 0.5:
            fetch: Config = {"batch": 4, "acks": [random.choice(("+ACK!", "+ACK!", "-NAK", ""))]}
            ops.append(Op(reader.path, at + random.choice((0.0, 0.1, 1.0)), "fetch", fetch))
    return ended(plan, ops, [], streams=streams, consumers=(*plan.consumers, reader))


def _expecting(plan: Plan, random: Random, length: float) -> Plan:
    """Have clients expect ids, and batches expect sequences, of S."""
    ops = []
    for at in _times(random, length, random.randint(3, 8)):
        args: Config = {"stream": "S", "subject": f"s.{random.randint(1, 3)}", "stale": random.random() < 0.2}
        kind = random.choice(("expect_id", "checked_batch", "cas", "repeat"))
        if kind == "repeat":
            args |= {"which": random.random()}
            del args["stale"]
        if kind == "checked_batch":
            args["count"] = random.randint(1, 4)
        ops.append(Op(f"e{random.randint(0, 1)}", at, kind, args))
    return ended(plan, ops, [])


def _reading(plan: Plan, random: Random, length: float) -> Plan:
    """Have clients read S while it changes."""
    ops = []
    for at in _times(random, length, random.randint(6, 16)):
        how = random.choice(("last", "last", "seq", "next", "batch"))
        args: Config = {"stream": "S", "how": how, "subject": f"s.{random.randint(1, 3)}"}
        args |= {"which": random.random(), "direct": random.random() < 0.5}
        ops.append(Op(f"e{random.randint(2, 3)}", at, "read", args))
        if random.random() < 0.4:
            ops.append(Op("e4", at, "look", {"stream": "S", "subject": ""}))
    return ended(plan, ops, [])


def _copied(plan: Plan, random: Random, length: float) -> Plan:
    """Copy a stream with its consumers, after messages at its end were deleted."""
    config = {"durable_name": "b1", "ack_policy": "explicit", "ack_wait": 30 * SECOND_NS}
    reader = ConsumerPlan("B", "b1", config)
    args: Config = {"stream": "B", "subject": "b.1", "ids": True, "again": False, "size": 30}
    at = random.random() * length
    ops = [
        Op("b0", at, "publish", args | {"count": random.randint(3, 8)}),
        Op(reader.path, at + 0.3, "fetch", {"batch": random.randint(1, 4), "acks": ["+ACK!", "", "+ACK!"]}),
        Op("b0", at + 2.0, "delete", {"stream": "B", "which": random.choice((0.3, 0.99)), "no_erase": True}),
        Op("b0", at + 6.0, "snapshot", {"stream": "B", "subject": "", "copy": "RB", "consumers": True}),
    ]
    streams = plan.streams | {"B": {"subjects": ["b.>"], "allow_direct": True}}
    return ended(plan, ops, [], streams=streams, consumers=(*plan.consumers, reader))


def _archived(plan: Plan, random: Random, length: float) -> Plan:
    """Copy streams with limits, ages and keys, and one that was just purged."""
    plan = random.choice((_bucket, _changed, _purged))(plan, random, length)
    names = [name for name in ("K", "L", "A", "KV", "U", "E") if name in plan.streams]
    ops = []
    for number, at in enumerate(_times(random, length, random.choice((1, 2)))):
        args: Config = {"stream": random.choice(names), "subject": "", "copy": f"RA{number}"}
        if args["stream"] == "E":
            at = max(op.at for op in plan.ops if op.actor == "v0") + 0.5
        ops.append(Op("a0", at, "snapshot", args))
    return ended(plan, ops, [])


def _forgetful(plan: Plan, random: Random, length: float) -> Plan:
    """Add a stream in memory, and one with ids that is deleted and created again."""
    config: Config = {"subjects": ["y.>"], "storage": "memory", "allow_direct": True}
    if random.random() < 0.5:
        config["max_msgs"] = 4
    ops = []
    for at in _times(random, length, random.randint(3, 8)):
        args: Config = {"stream": "Y", "subject": f"y.{random.choice('ab')}"}
        if random.random() < 0.3:
            args |= {"how": "last", "which": 0.0, "direct": random.random() < 0.5}
            ops.append(Op("y0", at, "read", args))
        else:
            ops.append(Op("y0", at, "send", args | {"size": random.choice((10, 100))}))
    return ended(plan, ops, [], streams=plan.streams | {"Y": config})


_SCENES = (
    _bucket,
    _bucket,
    _purged,
    _full,
    _changed,
    _changed,
    _renamed,
    _mirrored,
    _promoted,
    _gathered,
    _gathered,
    _drained,
    _renewed,
    _expecting,
    _reading,
    _copied,
    _archived,
    _forgetful,
)
