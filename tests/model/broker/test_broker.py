"""A whole broker with several clients against a naive one that looks at every subscription."""

import re
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.broker.broker import Broker
from millstream.broker.options import BrokerOptions
from millstream.subjects.match import matches
from tests.kits.fake_transport import FakeClient, FakeLoop

SUBJECTS = st.sampled_from([b"a", b"b", b"a.a", b"a.b", b"a.b.c", b"a..b"])
PATTERNS = st.sampled_from([b"a", b"a.a", b"*", b"a.*", b">", b"a.>", b"*.b", b"a.b.c"])
QUEUES = st.sampled_from([b"", b"", b"q", b"r"])
SIDS = st.sampled_from([b"1", b"2", b"3"])
_FRAME = re.compile(rb"MSG (\S+) (\S+) 4\r\n(\d{4})\r\n")


@dataclass(eq=False)
class NaiveSubscription:
    client: int
    sid: bytes
    pattern: bytes
    queue: bytes
    delivered: int = 0
    max: int = 0


@dataclass
class Expected:
    """Expected deliveries of one message: these plain copies, and one of each of these lists."""

    plain: list[NaiveSubscription] = field(default_factory=list)
    groups: dict[bytes, list[NaiveSubscription]] = field(default_factory=dict)


class BrokerMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.loop = FakeLoop()
        self.broker = Broker(BrokerOptions(), server_id="N", loop=self.loop.as_loop(), clock=self.loop.time)
        self.clients: dict[int, FakeClient] = {}
        self.echo: dict[int, bool] = {}
        self.model: list[NaiveSubscription] = []
        self.counter = 0

    def _find(self, client: int, sid: bytes) -> NaiveSubscription | None:
        return next((s for s in self.model if s.client == client and s.sid == sid), None)

    def _pick(self, number: int) -> int:
        return sorted(self.clients)[number % len(self.clients)]

    @precondition(lambda self: len(self.clients) < 4)
    @rule(echo=st.booleans())
    def connect(self, echo: bool) -> None:
        client = FakeClient(self.broker)
        assert client.connect(echo=echo) == b""
        self.clients[client.connection.cid] = client
        self.echo[client.connection.cid] = echo

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 3))
    def disconnect(self, number: int) -> None:
        cid = self._pick(number)
        self.clients.pop(cid).transport.peer_closes()
        self.loop.run_ready()
        self.model = [s for s in self.model if s.client != cid]

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 3), sid=SIDS, pattern=PATTERNS, queue=QUEUES)
    def subscribe(self, number: int, sid: bytes, pattern: bytes, queue: bytes) -> None:
        cid = self._pick(number)
        assert self.clients[cid].say(b"SUB %b %b %b\r\n" % (pattern, queue, sid)) == b""
        if self._find(cid, sid) is None:
            self.model.append(NaiveSubscription(cid, sid, pattern, queue))

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 3), sid=SIDS, most=st.integers(0, 4))
    def unsubscribe(self, number: int, sid: bytes, most: int) -> None:
        cid = self._pick(number)
        line = b"UNSUB %b %d\r\n" % (sid, most) if most else b"UNSUB %b\r\n" % sid
        assert self.clients[cid].say(line) == b""
        known = self._find(cid, sid)
        if known is not None and most > known.delivered:
            known.max = most
        elif known is not None:
            self.model.remove(known)

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 3), subjects=st.lists(SUBJECTS, min_size=1, max_size=4))
    def publish(self, number: int, subjects: list[bytes]) -> None:
        """Several messages in one chunk, so that the route of one is there for the next."""
        cid = self._pick(number)
        numbered = [(subject, self.counter + index) for index, subject in enumerate(subjects)]
        self.counter += len(subjects)
        own = self.clients[cid].say(b"".join(b"PUB %b 4\r\n%04d\r\n" % each for each in numbered))
        heard = {each: client.heard() for each, client in self.clients.items() if each != cid} | {cid: own}
        got = [
            (int(text), client, sid, subject)
            for client, wire in heard.items()
            for subject, sid, text in _FRAME.findall(wire)
        ]
        assert sum(len(_FRAME.sub(b"", wire)) for wire in heard.values()) == 0
        for subject, count in numbered:
            self._check(cid, subject, [entry[1:] for entry in got if entry[0] == count])

    def _check(self, sender: int, subject: bytes, got: list[tuple[int, bytes, bytes]]) -> None:
        expected = self._expected(sender, subject)
        taken = []
        for client, sid, seen_as in got:
            assert seen_as == subject
            subscription = self._find(client, sid)
            assert subscription is not None, "delivered to a subscription that is gone"
            taken.append(subscription)
        for subscription in expected.plain:
            assert taken.count(subscription) == 1
        for members in expected.groups.values():
            assert sum(taken.count(member) for member in members) == 1
        assert len(taken) == len(expected.plain) + len(expected.groups)
        for subscription in taken:
            subscription.delivered += 1
            if subscription.max and subscription.delivered >= subscription.max:
                self.model.remove(subscription)

    def _expected(self, sender: int, subject: bytes) -> Expected:
        expected = Expected()
        if b"" in subject.split(b"."):
            return expected
        for subscription in self.model:
            hears_itself = subscription.client != sender or self.echo[sender]
            if hears_itself and matches(subject, subscription.pattern):
                if subscription.queue:
                    expected.groups.setdefault(subscription.queue, []).append(subscription)
                else:
                    expected.plain.append(subscription)
        return expected

    @invariant()
    def the_broker_knows_as_many_subscriptions_as_the_model(self) -> None:
        assert self.broker.global_account.space.tree.count == len(self.model)
        assert sum(len(c.connection.subscriptions) for c in self.clients.values()) == len(self.model)
        assert sorted(self.broker.connections) == sorted(self.clients)

    def teardown(self) -> None:
        for client in self.clients.values():
            client.transport.peer_closes()
        self.loop.run_ready()
        assert self.broker.connections == {}
        assert self.broker.global_account.space.tree.root.is_empty()
        assert self.loop.pending_timers() == 0


BrokerMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestBroker = BrokerMachine.TestCase
