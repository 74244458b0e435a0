"""Random lives of a queue of pull requests, beside a naive one that keeps a list and looks at all of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.jsapi.enums import PriorityPolicy
from tests.kits.jetstream.pulls import SECOND, START, Desk

MAX_WAITING = 4
SIZE = 10


class NaiveRequest:
    def __init__(self, inbox: str, now: int, fields: dict[str, Any]) -> None:
        self.inbox = inbox
        self.left: int = fields["batch"]
        self.bytes_left: int = fields.get("max_bytes", 0)
        self.expires = now + fields["expires"] if "expires" in fields else None
        self.heartbeat: int = fields.get("idle_heartbeat", 0)
        self.beats_at = now + self.heartbeat if self.heartbeat else None
        self.no_wait: bool = fields.get("no_wait", False)
        self.min_pending: int = fields.get("min_pending", 0)
        self.priority: int = fields.get("priority", 0)
        self.delivered = 0

    @property
    def counts(self) -> str:
        return f"Nats-Pending-Messages: {self.left} Nats-Pending-Bytes: {self.bytes_left}"


class NaiveQueue:
    """A queue that follows the rules literally, and slowly."""

    def __init__(self, policy: PriorityPolicy) -> None:
        self.policy = policy
        self.queue: list[NaiveRequest] = []
        self.told: list[tuple[str, str]] = []

    def ask(self, inbox: str, now: int, pending: int, fields: dict[str, Any]) -> None:
        request = NaiveRequest(inbox, now, fields)
        if request.no_wait and pending == 0 and request.expires is None:
            self.told.append((inbox, "404 No Messages"))
            return
        if request.no_wait and pending > 0:
            self.end_late(now)
            if pending < sum(each.left for each in self.queue):
                self.told.append((inbox, "408 Requests Pending"))
                return
        if len(self.queue) == MAX_WAITING:
            if not request.heartbeat:
                self.told.append((inbox, "409 Exceeded MaxWaiting"))
            return
        self.put(request)

    def put(self, request: NaiveRequest) -> None:
        self.queue.append(request)
        if self.policy is PriorityPolicy.PRIORITIZED:
            self.queue.sort(key=lambda each: each.priority)

    def end_late(self, now: int) -> None:
        for request in list(self.queue):
            if request.expires is not None and now >= request.expires:
                self.told.append((request.inbox, f"408 Request Timeout {request.counts}"))
                self.queue.remove(request)

    def deliver(self, now: int, pending: int) -> list[str]:
        got: list[str] = []
        passed_over = 0
        while pending and self.queue and passed_over < len(self.queue):
            request = self.queue.pop(0)
            if request.expires is not None and now >= request.expires:
                self.told.append((request.inbox, f"408 Request Timeout {request.counts}"))
            elif request.min_pending > pending:
                self.queue.append(request)
                passed_over += 1
            elif 0 < request.bytes_left < SIZE:
                self.told.append((request.inbox, f"409 Message Size Exceeds MaxBytes {request.counts}"))
            else:
                pending -= 1
                passed_over = 0
                got.append(request.inbox)
                self.serve(request, now)
        return got

    def serve(self, request: NaiveRequest, now: int) -> None:
        request.left -= 1
        request.delivered += 1
        if request.bytes_left:
            request.bytes_left -= SIZE
            if not request.bytes_left:
                return
        if request.left <= 0:
            if request.bytes_left:
                self.told.append((request.inbox, f"409 Batch Completed {request.counts}"))
            return
        if request.heartbeat:
            request.beats_at = now + request.heartbeat
        self.put(request)

    def end(self, now: int, dseq: int) -> None:
        for request in list(self.queue):
            if request.expires is not None and now >= request.expires:
                self.told.append((request.inbox, f"408 Request Timeout {request.counts}"))
                self.queue.remove(request)
            elif request.no_wait and (request.expires is None or request.delivered):
                self.told.append((request.inbox, "404 No Messages"))
                self.queue.remove(request)
        for request in self.queue:
            if request.beats_at is not None and now >= request.beats_at:
                place = f"Nats-Last-Consumer: {dseq} Nats-Last-Stream: {dseq + 100}"
                self.told.append((request.inbox, f"100 Idle Heartbeat {place}"))
                request.beats_at = now + request.heartbeat

    def due(self) -> int | None:
        times = [time for each in self.queue for time in (each.expires, each.beats_at) if time is not None]
        return min(times, default=None)


def bodies(policy: PriorityPolicy) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "expires": st.integers(1, 9).map(lambda each: each * SECOND),
        "max_bytes": st.sampled_from([5, 20, 25, 1000]),
        "no_wait": st.booleans(),
    }
    if policy is PriorityPolicy.OVERFLOW:
        optional["min_pending"] = st.integers(1, 4)
    if policy is PriorityPolicy.PRIORITIZED:
        optional["priority"] = st.integers(0, 3)
    group = {} if policy is PriorityPolicy.NONE else {"group": st.just("A")}
    return st.fixed_dictionaries({"batch": st.integers(1, 5), **group}, optional=optional).flatmap(
        _with_heartbeat
    )


def _with_heartbeat(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "expires" not in fields:
        return st.just(fields)
    return st.sampled_from([fields, {**fields, "idle_heartbeat": fields["expires"] // 3}])


@st.composite
def lives(draw: st.DrawFn) -> tuple[PriorityPolicy, list[tuple[str, Any]]]:
    policy = draw(st.sampled_from([PriorityPolicy.NONE, PriorityPolicy.OVERFLOW, PriorityPolicy.PRIORITIZED]))
    step = st.one_of(
        st.tuples(st.just("ask"), bodies(policy)),
        st.tuples(st.just("publish"), st.integers(1, 6)),
        st.tuples(st.just("wait"), st.integers(1, 3 * SECOND)),
    )
    return policy, draw(st.lists(step, max_size=25))


@settings(max_examples=300, deadline=None)
@given(lives())
def test_the_queue_does_what_the_rules_say(life: tuple[PriorityPolicy, list[tuple[str, Any]]]) -> None:
    policy, steps = life
    desk = Desk(max_waiting=MAX_WAITING, priority_policy=policy)
    naive = NaiveQueue(policy)
    # The queue may look for room only once a second; the model never has to.
    desk.pulls.num_waiting(START)
    for number, (what, value) in enumerate(steps):
        if what == "ask":
            naive.end_late(desk.now)
            desk.pulls.num_waiting(desk.now)
            naive.ask(str(number), desk.now, desk.pending, value)
            desk.ask(str(number), **value)
        elif what == "publish":
            desk.pending += value
        else:
            desk.now += value
        due = naive.due()
        if due is not None:
            assert 0 < desk.pulls.due() <= due
        before = desk.pending
        expected = naive.deliver(desk.now, before)
        assert desk.deliver() == expected
        assert desk.pending == before - len(expected)
        naive.end(desk.now, desk.dseq)
        desk.exhausted()
        assert desk.pulls.count == len(naive.queue)
        assert desk.statuses() == naive.told
        naive.told.clear()
