"""Cached routes against looking at every subscription for every message."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from millstream.broker.router import SubjectSpace
from millstream.broker.routes import SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.parser import Frame, make_frame
from millstream.subjects.match import matches

SUBJECTS = st.sampled_from([b"a", b"b", b"a.a", b"a.b", b"b.a", b"a.b.c", b"a..b", b""])
PATTERNS = st.sampled_from(
    [b"a", b"b", b"a.a", b"a.b", b"*", b"*.a", b"a.*", b">", b"a.>", b"*.*.c", b"a.b.c"]
)
QUEUES = st.sampled_from([None, None, b"q", b"r"])


class Receiver(Subscriber):
    def __init__(self, log: list[Subscription]) -> None:
        self.log = log

    def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
        self.log.append(target.subscription)
        return True


class RouterMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**31 - 1))
    def start(self, seed: int) -> None:
        self.space = SubjectSpace("A", seed)
        self.live: list[Subscription] = []
        self.log: list[Subscription] = []
        self.held: dict[bytes, SubjectRoute] = {}  # as a connection keeps its last route

    def wanted(self, subject: bytes) -> tuple[list[Subscription], dict[bytes, list[Subscription]]]:
        plain: list[Subscription] = []
        groups: dict[bytes, list[Subscription]] = {}
        if b"" not in subject.split(b"."):
            for subscription in self.live:
                if matches(subject, subscription.subject):
                    queue = subscription.queue
                    (plain if queue is None else groups.setdefault(queue, [])).append(subscription)
        return plain, groups

    @rule(pattern=PATTERNS, queue=QUEUES)
    def subscribe(self, pattern: bytes, queue: bytes | None) -> None:
        subscription = Subscription(Receiver(self.log), pattern, queue, b"1")
        self.space.subscribe(subscription)
        self.live.append(subscription)

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        if self.live:
            gone = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
            self.space.unsubscribe(gone)

    @rule()
    def drop_everything(self) -> None:
        self.space.drop_all_routes()

    @rule(subject=SUBJECTS)
    def publish(self, subject: bytes) -> None:
        route = self.held.get(subject)
        if route is None or not route.valid:
            route = self.held[subject] = self.space.route(subject)
        self.log.clear()
        taken = self.space.deliver(route, make_frame(b"", None, b""), None)
        plain, groups = self.wanted(subject)
        assert taken == len(self.log) == len(plain) + len(groups)
        for subscription in plain:
            assert self.log.count(subscription) == 1
        for members in groups.values():
            assert sum(self.log.count(member) for member in members) == 1

    @invariant()
    def a_route_that_calls_itself_valid_is_true(self) -> None:
        for subject, route in {**self.held, **self.space.routes}.items():
            if route.valid:
                plain, groups = self.wanted(subject)
                assert {id(target.subscription) for target in route.plain} == {id(each) for each in plain}
                seen = [{id(target.subscription) for target in members} for members in route.queues]
                assert sorted(map(sorted, seen)) == sorted(
                    sorted(id(each) for each in members) for members in groups.values()
                )

    @invariant()
    def every_cached_route_is_valid(self) -> None:
        assert all(route.valid for route in self.space.routes.values())


RouterMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestRouter = RouterMachine.TestCase
