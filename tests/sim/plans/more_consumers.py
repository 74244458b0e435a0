"""Consumers with every option, each with a reader that creates, changes, pauses and deletes it."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.plans.moments import publish_args
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Fault, Op, Plan

_HOW_OFTEN = 0.33
_LENGTH_S = 24.0
_SUBJECTS = 3  # of a stream
# Stream, and its configuration.  All of them have one subject for each number.
_STREAMS: dict[str, dict[str, Any]] = {
    "Q": {"subjects": ["q.>"]},
    "V": {"subjects": ["v.>"], "retention": "workqueue"},
    "J": {"subjects": ["j.>"], "retention": "interest"},
}
_ACKS = (
    "+ACK",
    "+ACK!",
    "+ACK!",
    "",
    "late 1 +ACK",
    "late 1.5 +WPI",
    "late 0.5 -NAK",
    "-NAK",
    "-NAK 2.5",
    "-NAK 0.8",
    "+TERM!",
    "+WPI",
)


def with_more_consumers(plan: Plan, random: Random) -> Plan:
    """Add one or two consumers to the end of some plans, most of them while nothing else happens."""
    if random.random() >= _HOW_OFTEN:
        return plan
    last_op = max((op.at for op in plan.ops), default=0.0)
    last_fault = max((fault.at + fault.args.get("for", 0.0) for fault in plan.faults), default=-20.0)
    at = max(last_op + 1.0, last_fault + 20.0)
    calm = random.random() < 0.7
    disturbed = random.random() < 0.4
    stream = random.choices(list(_STREAMS), weights=(6, 1, 1))[0]
    streams = plan.streams | {stream: _STREAMS[stream]}
    ops, consumers, faults = list(plan.ops), list(plan.consumers), list(plan.faults)
    if random.random() < 0.12:
        consumer, added = _unused(stream, random, at)
        consumers.append(consumer)
        ops += added
    else:
        for number in range(1 if stream == "V" else random.choice((1, 1, 2))):
            consumer = _consumer(stream, f"{stream.lower()}{number}", random)
            if not disturbed and not plan.faults and random.random() < 0.3:  # else it may end with the server
                consumer.config["mem_storage"] = True
            consumers.append(consumer)
            ops += _work(consumer, random, at, pauses=not any(fault.kind == "clock" for fault in faults))
    ops += _published(stream, random, at)
    if disturbed:
        faults += _restarts(random, at)
    return plan.without(
        streams=streams,
        consumers=tuple(consumers),
        ops=tuple(sorted(ops, key=lambda op: op.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        calm=calm,
    )


def _published(stream: str, random: Random, at: float) -> list[Op]:
    ops = []
    for moment in (0.0, *(random.random() * _LENGTH_S * 0.8 for _ in range(random.randint(1, 4)))):
        args = publish_args(stream, random.choice((0, 10, 200))) | {"ids": True}
        args["subject"] = f"{stream.lower()}.{random.randint(1, _SUBJECTS)}"
        ops.append(Op("pq", at + moment, "publish", args | {"count": random.choice((1, 2, 4))}))
    for number in range(1, _SUBJECTS + 1):
        args = publish_args(stream, 10) | {"ids": True, "count": 1}
        ops.append(Op("pq", at + 0.1, "publish", args | {"subject": f"{stream.lower()}.{number}"}))
    return ops


def _restarts(random: Random, at: float) -> list[Fault]:
    faults = []
    for _ in range(random.choice((1, 1, 2))):
        kind = random.choice(("kill", "kill", "stop", "power", "link"))
        args: dict[str, Any] = {}
        if kind == "power":
            args = {"operations": random.choice((1, 2, 5)), "again": random.choice((0, 0, 1))}
        elif kind == "link":
            args = {"client": random.randint(0, 9)}
        faults.append(Fault(at + 2.0 + random.random() * _LENGTH_S * 0.7, kind, args))
    return faults


def _consumer(stream: str, name: str, random: Random) -> ConsumerPlan:
    one = stream.lower()
    config: dict[str, Any] = {
        "durable_name": name,
        "ack_policy": "explicit",
        "ack_wait": random.choice((3, 5)) * SECOND_NS,
        "max_ack_pending": random.choice((1, 3, 1000, 1000)),
    }
    if stream == "Q":
        config["ack_policy"] = random.choice(("explicit",) * 8 + ("all", "none"))
        policies = ("all", "all", "new", "last", "last_per_subject", "by_start_sequence", "by_start_time")
        config["deliver_policy"] = random.choice(policies)
    if config["ack_policy"] == "none":
        del config["max_ack_pending"], config["ack_wait"]
    filters = ([], [], [f"{one}.1"], [f"{one}.1", f"{one}.3"], [f"{one}.2", f"{one}.3"], [f"{one}.*"])
    subjects = random.choice(filters)
    if config.get("deliver_policy") == "last_per_subject" and not subjects:
        subjects = [f"{one}.>"]
    if len(subjects) == 1 and random.random() < 0.5:
        config["filter_subject"] = subjects[0]
    elif subjects:
        config["filter_subjects"] = subjects
    if config["ack_policy"] == "explicit":
        config["max_deliver"] = random.choice((-1, -1, 2, 3, 5))
        if random.random() < 0.35:
            config["backoff"] = [
                seconds * SECOND_NS for seconds in random.choice(((1, 4), (3, 1), (2, 4, 6)))
            ]
            config["max_deliver"] = random.choice((-1, 4))
            del config["ack_wait"]
    if random.random() < 0.15:
        config["headers_only"] = True
    if config.get("deliver_policy") == "all" and random.random() < 0.1:
        config["replay_policy"] = "original"
    push = random.random() < 0.4 and stream == "Q"
    if push:
        config["deliver_subject"] = f"push.{name}"
        if random.random() < 0.6:
            config["idle_heartbeat"] = 2 * SECOND_NS
            config["flow_control"] = random.random() < 0.5
    else:
        config["max_waiting"] = random.choice((512, 512, 2))
        if random.random() < 0.3:
            policy = random.choice(("prioritized", "overflow", "pinned_client"))
            config |= {"priority_groups": ["g"], "priority_policy": policy}
            if policy == "pinned_client":
                config["priority_timeout"] = 3 * SECOND_NS
    return ConsumerPlan(stream, name, config, push, wide=True, left=random.random() < 0.4)


def _work(consumer: ConsumerPlan, random: Random, at: float, *, pauses: bool) -> list[Op]:
    """Return what the reader does: it creates the consumer, reads, looks, and sometimes changes it."""
    path, early = consumer.path, consumer.stream == "J"

    def op(kind: str, after: float, **args: Any) -> Op:
        return Op(path, at + after, kind, args)

    made = -0.5 if early else random.choice((-0.5, 0.5, 4.0, 8.0))
    start = {"from_seq": random.randint(1, 8), "since_s": random.choice((0.2, 1.0, 4.0))}
    ops = [op("make", made, **start)]
    acks = [random.choice(_ACKS) for _ in range(random.randint(1, 5))]
    if consumer.push:
        ops.append(op("listen", made, acks=acks))
    else:
        moment = max(made, 0.0) + 0.2
        while moment < _LENGTH_S:
            expires = random.choice((0.0, 1.0, 4.0, 4.0, 8.0, 8.0))
            beats = 1.0 if expires > 2.0 and random.random() < 0.4 else 0.0
            args = {"batch": random.choice((1, 2, 5, 20)), "expires": expires, "heartbeat": beats}
            ops.append(op("pull", moment, acks=_with_next(acks, random), no_wait=not expires, **args))
            moment += random.choice((0.1, 1.0, 2.0, 5.0))
    ops += [op("inspect", random.random() * _LENGTH_S) for _ in range(random.randint(1, 4))]
    chance = random.random()
    when = max(made, 0.0) + 2.0 + random.random() * _LENGTH_S / 2
    if chance < 0.2 and pauses:
        ops.append(op("pause", when, for_s=random.choice((3.0, 6.0))))
        if random.random() < 0.3:
            ops.append(op("pause", when + 2.0, for_s=-1.0))
        args = publish_args(consumer.stream, 10) | {"ids": True, "count": 1}
        for number in range(1, _SUBJECTS + 1):
            subject = f"{consumer.stream.lower()}.{number}"
            ops.append(Op("pq", at + when + 0.5, "publish", args | {"subject": subject}))
        if not consumer.push:
            ops.append(op("pull", when + 0.3, batch=20, expires=8.0, acks=acks))
    elif chance < 0.4:
        ops.append(op("change", when, **_other_config(consumer, random)))
        ops.append(op("inspect", when + 0.5))
    elif chance < 0.55:
        ops += [op("remove", when), op("inspect", when + 0.1), op("inspect", when + 7.0)]
        if random.random() < 0.6 and not early:
            ops.append(op("make", when + random.choice((0.3, 7.5)), **start))
    return ops


def _with_next(acks: list[str], random: Random) -> list[str]:
    return [*acks, "+NXT"] if random.random() < 0.2 else acks


def _other_config(consumer: ConsumerPlan, random: Random) -> dict[str, Any]:
    """Return what an update changes."""
    choices: list[dict[str, Any]] = [{"description": "another"}]
    if consumer.config["ack_policy"] != "none":
        choices += [{"max_ack_pending": 2}, {"max_ack_pending": 1000}]
    if "backoff" not in consumer.config and "ack_wait" in consumer.config:
        choices += [{"ack_wait": 2 * SECOND_NS}, {"ack_wait": 8 * SECOND_NS}]
    if consumer.config.get("max_deliver", 0) > 0 and "backoff" not in consumer.config:
        choices.append({"max_deliver": 6})
    if "filter_subjects" in consumer.config and consumer.stream == "Q":
        choices += [{"filter_subjects": [f"{consumer.stream.lower()}.2"]}] * 3
    return random.choice(choices)


def _unused(stream: str, random: Random, at: float) -> tuple[ConsumerPlan, list[Op]]:
    """Return a consumer that is deleted when it was not used for four seconds."""
    name = f"{stream.lower()}8"
    config = {
        "durable_name": name,
        "ack_policy": "explicit",
        "inactive_threshold": 4 * SECOND_NS,
    }
    consumer = ConsumerPlan(stream, name, config, wide=True, left=True)
    ops = [Op(consumer.path, at, "make")]
    moment = at
    for _ in range(random.randint(1, 5)):
        moment += random.choice((1.0, 2.5, 3.2))
        expires = random.choice((0.5, 0.5, 3.0, 6.0))
        args = {"batch": 20, "expires": expires, "acks": ["+ACK"]}
        ops += [Op(consumer.path, moment, "pull", args), Op(consumer.path, moment + 0.3, "inspect")]
    ops += [Op(consumer.path, moment + wait, "inspect") for wait in (3.0, 13.0)]
    return consumer, ops
