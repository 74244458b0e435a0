"""A consumer under random interleavings of deliveries, acks, time, restarts and power cuts.

Whatever happens: a message that was not settled comes again; one whose ack was answered never does; no
more is in flight than may be; nothing is delivered more often than it may be; numbers and floors do
not go back.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.jetstream.consumers.consumer import Consumer
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.fake_world import Delivered, FakeWorld

SECOND = 1_000_000_000
ACK_WAIT_S = 10
INBOX = b"_INBOX.me"
ANSWER = b"_INBOX.answer"
ASK = b"$JS.API.CONSUMER.MSG.NEXT.S.C"


class Got(NamedTuple):
    sseq: int
    dseq: int
    deliveries: int
    reply: bytes


def parse(message: Delivered) -> Got:
    _, _, stream, consumer, deliveries, sseq, dseq, _, _ = message.reply.decode().split(".")
    assert (stream, consumer) == ("S", "C")
    return Got(int(sseq), int(dseq), int(deliveries), message.reply)


class ConsumerMachine(RuleBasedStateMachine):
    """One pull consumer with explicit acks, and a client that behaves as it likes."""

    @initialize(
        max_deliver=st.sampled_from([-1, 3]),
        max_ack_pending=st.sampled_from([3, 1000]),
        retention=st.sampled_from(RetentionPolicy),
        backoff=st.booleans(),
        filtered=st.booleans(),
    )
    def begin(
        self,
        max_deliver: int,
        max_ack_pending: int,
        retention: RetentionPolicy,
        backoff: bool,
        filtered: bool,
    ) -> None:
        self.fs = CrashFileSystem()
        self.max_deliver, self.max_ack_pending = max_deliver, max_ack_pending
        self.published: set[int] = set()  # that the consumer wants
        self.answered: set[int] = set()  # settled for good
        self.settled: set[int] = set()  # acknowledged: may come again after a power cut, or not
        self.counts: Counter[int] = Counter()  # deliveries since the last power cut
        self.got: list[Got] = []
        self.last_dseq = 0
        self.floor = 0
        self.filtered = filtered
        self._open()
        stream = self.account.add(
            StreamConfig(
                name="S",
                subjects=["a", "b"],
                retention=retention,
                max_msgs=-1,
                max_bytes=-1,
                max_msgs_per_subject=-1,
                max_msg_size=-1,
                max_consumers=-1,
                duplicate_window=120 * SECOND,
            )
        )
        config = ConsumerConfig(
            durable_name="C",
            name="C",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S * SECOND,
            backoff=[ACK_WAIT_S * SECOND, 2 * ACK_WAIT_S * SECOND] if backoff else [],
            max_deliver=max_deliver,
            max_ack_pending=max_ack_pending,
            max_waiting=512,
            filter_subject="a" if filtered else "",
        )
        stream.consumers.add(config, "C")
        self.world.settle()

    def _open(self) -> None:
        time_ns = self.world.time_ns if hasattr(self, "world") else 1_700_000_000 * SECOND
        self.world = FakeWorld(time_ns)
        self.account = self.world.account(fs=self.fs)
        self.account.recover()
        self.world.settle()

    @property
    def consumer(self) -> Consumer:
        return self.account.streams["S"].consumers["C"]

    def _take(self) -> list[Got]:
        """Return the deliveries, after checking that none of them is forbidden."""
        came = [parse(message) for message in self.world.delivered]
        self.world.delivered.clear()
        self.world.published.clear()
        for each in came:
            assert each.sseq in self.published
            assert each.sseq not in self.answered, "its ack was answered"
            assert each.dseq > self.last_dseq
            self.last_dseq = each.dseq
            self.counts[each.sseq] += 1
            assert each.deliveries >= 1
            if self.max_deliver > 0:
                assert self.counts[each.sseq] <= self.max_deliver
        self.got += came
        return came

    def _say(self, got: Got, word: bytes, reply: bytes = b"") -> None:
        self.world.send(got.reply, word, reply=reply)
        self.world.settle()
        self._take()

    # -- what can happen --------------------------------------------------------------------------

    @rule(subjects=st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=6))
    def publish(self, subjects: list[bytes]) -> None:
        for subject in subjects:
            self.world.send(subject, b"x", reply=ANSWER)
            sseq = self.account.streams["S"].log.last_seq
            stored = self.account.streams["S"].log.has(sseq)
            if stored and (subject == b"a" or not self.filtered):
                self.published.add(sseq)
        self.world.settle()
        self._take()

    @rule(batch=st.integers(1, 5), no_wait=st.booleans())
    def fetch(self, batch: int, no_wait: bool) -> None:
        body = b'{"batch":%d,"no_wait":%b,"expires":1000000000}' % (batch, b"true" if no_wait else b"false")
        self.world.send(ASK, body, reply=INBOX)
        self.world.settle()
        assert len(self._take()) <= batch + 512

    @precondition(lambda self: self.got)
    @rule(data=st.data(), word=st.sampled_from([b"+ACK", b"", b"+TERM", b"-NAK", b"-NAK 3s", b"+WPI"]))
    def say(self, data: st.DataObject, word: bytes) -> None:
        got = data.draw(st.sampled_from(self.got))
        if word in (b"+ACK", b"", b"+TERM") and got.sseq < self.consumer.feed.next_sseq:
            self.settled.add(got.sseq)
        self._say(got, word)

    @precondition(lambda self: self.got)
    @rule(data=st.data())
    def ack_for_sure(self, data: st.DataObject) -> None:
        got = data.draw(st.sampled_from(self.got))
        self.world.published.clear()
        self.world.send(got.reply, b"+ACK", reply=ANSWER)
        self.world.settle()
        answers = [each for each in self.world.published if each.subject == ANSWER]
        assert [each.payload for each in answers] in ([b""], [])
        if answers:
            self.settled.add(got.sseq)
            self.answered.add(got.sseq)
        else:  # delivered before a power cut, and not since
            assert got.sseq >= self.consumer.feed.next_sseq
        self._take()

    @rule(seconds=st.sampled_from([0.3, 1.5, 4.0, 11.0, 25.0]))
    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)
        self._take()

    @rule()
    def restart(self) -> None:
        self.account.stop()
        self.world.settle()
        self._take()
        self._open()

    @rule(keep=st.sampled_from(Keep), seed=st.integers(0, 2**16))
    def lose_power(self, keep: Keep, seed: int) -> None:
        self.fs = self.fs.crash(keep, Random(seed))
        self._open()
        self.counts.clear()  # how often was not promised to anybody
        self.floor = 0
        assert "C" in self.account.streams["S"].consumers

    # -- what is always true ----------------------------------------------------------------------

    @invariant()
    def no_more_in_flight_than_allowed(self) -> None:
        if hasattr(self, "account"):
            ledger = self.consumer.ledger
            assert len(ledger.pending) <= self.max_ack_pending
            assert ledger.floor_sseq >= self.floor
            self.floor = ledger.floor_sseq
            assert ledger.floor_sseq <= ledger.delivered_sseq
            assert all(sseq > ledger.floor_sseq for sseq in ledger.pending)
            info: Any = self.consumer.info()
            assert info.num_ack_pending == len(ledger.pending)

    def teardown(self) -> None:
        """Nothing that was not settled stays away."""
        if not hasattr(self, "account"):
            return
        for _ in range(200):
            self.world.advance(2 * ACK_WAIT_S + 1)
            self.world.send(ASK, b'{"batch":100,"no_wait":true}', reply=INBOX)
            self.world.settle()
            for got in self._take():
                self.world.send(got.reply, b"+ACK")
                self.settled.add(got.sseq)
            self.world.settle()
            if not self.consumer.ledger.pending and not self.consumer.feed.has_more():
                break
        missed = self.published - self.settled
        if self.max_deliver > 0:
            missed = {sseq for sseq in missed if sseq not in self.consumer.ledger.redelivered}
        assert missed == set()


TestConsumer = ConsumerMachine.TestCase
TestConsumer.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
