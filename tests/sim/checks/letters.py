"""Dead letters in a simulation: what a plan gets so that there are some, and what is promised of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tests.sim.checks.stream_view import StreamView
from tests.sim.history import History, Stored
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Fault, Op, Plan

STREAM = "X"  # has the letters of all consumers
_KEY = "millstream.dead_letter"


def lettered(plan: Plan, random: Random) -> Plan:
    """Give consumers of S and W dead letters in one stream, and end with a power cut in storing them."""
    queue = {"subjects": ["w.>"], "retention": "workqueue"}
    streams = plan.streams | {"W": queue, STREAM: {"subjects": ["dlq.>"]}}
    at = max((op.at for op in plan.ops), default=0.0) + 1.0
    config = {"ack_policy": "explicit", "ack_wait": SECOND_NS}
    readers = [
        _with_letters(ConsumerPlan(stream, name, config | {"durable_name": name}), random)
        for stream, name in (("S", "s8"), ("W", "w8"))
    ]
    others = [_with_letters(each, random) for each in plan.consumers if each.stream != "W"]
    ops = [op for op in plan.ops if not op.actor.startswith("W.")]
    for reader in readers:
        args: dict[str, Any] = {"stream": reader.stream, "subject": f"{reader.stream.lower()}.1"}
        args |= {"count": random.randint(2, 6), "size": random.choice((10, 150, 400))}
        ops.append(Op(f"p{reader.name}", at, "publish", args | {"ids": False, "again": False}))
        acks = random.choice((["+TERM!"], ["+TERM!", ""], ["+TERM", "-NAK"], [""]))
        ops += [
            Op(reader.path, at + 0.5 + wait, "fetch", {"batch": 8, "acks": acks})
            for wait in random.choice(((0.0,), (0.0, 1.0, 3.0)))
        ]
    cut = {"operations": random.choice((1, 2, 3, 5)), "again": random.choice((0, 1, 2))}
    cut |= {"within": random.choice((f"/{STREAM}/log/", "/consumers/")), "torn": random.random() < 0.7}
    fault = Fault(at + 0.4 + random.choice((0.0, 0.5, 1.5, 4.0)), "power", cut)
    return plan.without(
        streams=streams,
        consumers=(*others, *readers),
        ops=tuple(sorted(ops, key=lambda op: op.at)),
        faults=tuple(sorted((*plan.faults, fault), key=lambda fault: fault.at)),
    )


def _with_letters(consumer: ConsumerPlan, random: Random) -> ConsumerPlan:
    """Return the consumer with dead letters, if it can have some."""
    if consumer.stream not in ("S", "W") or consumer.config["ack_policy"] != "explicit":
        return consumer
    more = {
        "metadata": {_KEY: "dlq.{stream}.{consumer}"},
        "max_deliver": random.randint(1, 3),
    }
    return replace(consumer, config=consumer.config | more)


def has_letters(consumer: ConsumerPlan) -> bool:
    return _KEY in consumer.config.get("metadata", {})


def check_letters(plan: Plan, history: History) -> Iterator[str]:
    """Check that a message has one letter if its consumer has settled it without an ack, and one at most."""
    if STREAM not in history.final or any(rot.stream for rot in history.rot):
        return
    letters = Counter(_origin(each) for each in history.final[STREAM].content)
    for origin, count in letters.items():
        if count > 1:
            yield f"message {origin} has {count} letters"
    for consumer in plan.consumers:
        if has_letters(consumer):
            view = StreamView(plan, history, consumer.stream)
            for seq in _given_up(view, consumer):
                if not letters[consumer.stream, consumer.name, seq]:
                    yield f"{consumer.path}: {seq} was not acknowledged, and it has no letter"


def _origin(letter: Stored) -> tuple[str, str, int]:
    found = letter.headers
    seq = int(found["Millstream-Orig-Seq"])
    return found["Millstream-Orig-Stream"], found["Millstream-Dlq-Consumer"], seq


def _given_up(view: StreamView, consumer: ConsumerPlan) -> Iterator[int]:
    """Yield the messages that the consumer, which has nothing left, got no ack of."""
    acked = {
        each.seq
        for each in view.history.acks
        if (each.stream, each.consumer, each.kind) == (consumer.stream, consumer.name, "+ACK")
    }
    wanted = consumer.config.get("filter_subject")
    known = {each.seq: (each.subject, each.at) for each in view.acked}
    for stored in view.final.content:
        known.setdefault(stored.seq, (stored.subject, 0.0))
    for seq, (subject, at) in sorted(known.items()):
        if seq not in acked and wanted in (None, subject) and not view.may_be_removed(seq, subject, at):
            yield seq
