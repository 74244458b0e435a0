"""Accepted deliveries: the next one of the right consumer, and nothing after a gap."""

from __future__ import annotations

import pytest

from millstream.jetstream.sourcing.intake import MirrorIntake, OriginIntake, SourceIntake
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol.parser import make_frame
from millstream.store.record import Record
from millstream.subjects.transform import SubjectTransform
from tests.kits.fake_world import FakeWorld

TIME = 1_600_000_000_000_000_000


class Table:
    """An intake, and what it told."""

    def __init__(self, kind: type[OriginIntake], **config: object) -> None:
        self.world = FakeWorld()
        account = self.world.account()
        self.stream: Stream = account.add(StreamConfig(name="S", **config))  # type: ignore[arg-type]
        self.stored: list[tuple[bytes, bytes, bytes, int, int]] = []
        self.refuses = False
        self.intake = kind(self.stream, self.stream.log, self.stream.ingest, self.store)
        self.gaps = self.signs = 0
        self.control: list[tuple[bytes, bytes]] = []
        self.intake.on_gap = self.gap
        self.intake.on_sign = self.sign
        self.intake.on_control = lambda block, reply: self.control.append((block, reply))
        if isinstance(self.intake, SourceIntake):
            self.intake.describe(b"Nats-Stream-Source: O ", b" > > ", b" id")
        self.intake.open(b"c")

    def gap(self) -> None:
        self.gaps += 1

    def sign(self) -> None:
        self.signs += 1

    def store(self, subject: bytes, block: bytes, payload: bytes, seq: int, timestamp: int) -> bool:
        self.stored.append((subject, block, payload, seq, timestamp))
        return not self.refuses

    def deliver(
        self,
        sseq: int,
        dseq: int,
        *,
        consumer: str = "c",
        pending: int = 0,
        deliveries: int = 1,
        headers: bytes | None = None,
        subject: bytes = b"o.1",
    ) -> None:
        reply = f"$JS.ACK.O.{consumer}.{deliveries}.{sseq}.{dseq}.{TIME + sseq}.{pending}".encode()
        self.intake.take(subject, make_frame(reply, headers, b"m%d" % sseq))

    def contents(self) -> list[tuple[int, bytes, bytes, bytes, int]]:
        self.world.settle()
        log, record = self.stream.log, Record()
        found = []
        for seq in log.sequences(1, log.last_seq):
            assert log.get(seq, record)
            found.append((seq, record.subject(), record.headers(), record.payload(), record.timestamp))
        return found


def test_a_mirror_keeps_sequences_and_times_and_skips_what_is_not_there() -> None:
    table = Table(MirrorIntake)
    table.deliver(3, 1, pending=7)
    table.deliver(4, 2, headers=b"NATS/1.0\r\nA: b\r\n\r\n", pending=0)
    assert table.contents() == [
        (3, b"o.1", b"", b"m3", TIME + 3),
        (4, b"o.1", b"NATS/1.0\r\nA: b\r\n\r\n", b"m4", TIME + 4),
    ]
    assert (table.intake.sseq, table.intake.dseq, table.intake.lag) == (4, 2, 0)


def test_a_source_adds_its_header() -> None:
    table = Table(SourceIntake)
    table.deliver(3, 1, pending=7)
    assert table.intake.lag == 6
    table.deliver(9, 2, headers=b"NATS/1.0\r\nA: b\r\n\r\n")
    now = table.world.time_ns
    assert table.contents() == [
        (1, b"o.1", b"NATS/1.0\r\nNats-Stream-Source: O 3 > > o.1 id\r\n\r\n", b"m3", now),
        (2, b"o.1", b"NATS/1.0\r\nA: b\r\nNats-Stream-Source: O 9 > > o.1 id\r\n\r\n", b"m9", now),
    ]


@pytest.mark.parametrize("kind", [MirrorIntake, SourceIntake])
class TestBoth:
    def test_a_gap_closes_the_intake(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        table.deliver(1, 1)
        table.deliver(3, 3)
        table.deliver(2, 2)
        table.deliver(4, 4)
        assert table.gaps == 1
        assert [payload for _, _, _, payload, _ in table.contents()] == [b"m1"]
        table.intake.open(b"d")
        table.deliver(2, 1, consumer="d")
        assert [payload for _, _, _, payload, _ in table.contents()] == [b"m1", b"m2"]

    def test_deliveries_of_another_consumer_are_not_looked_at(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        table.deliver(1, 1, consumer="old")
        table.deliver(7, 9, consumer="c-old")
        assert table.contents() == []
        assert table.gaps == 0

    def test_what_is_known_is_counted_and_not_stored(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        table.intake.sseq = 5
        table.deliver(4, 1)
        table.deliver(5, 2)
        assert table.contents() == []
        assert table.intake.dseq == 2
        table.deliver(6, 3)
        assert [payload for _, _, _, payload, _ in table.contents()] == [b"m6"]
        assert table.gaps == 0

    def test_a_redelivery_is_not_taken(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        table.deliver(1, 1, deliveries=2)
        assert table.contents() == []

    @pytest.mark.parametrize(
        "reply",
        [
            b"",
            b"$JS.ACK.O.c.1.1.1.1",
            b"$JS.ACK.O.c.1.1.x.1.0",
            b"$JS.ACK.O.c.1..1.1.0",
            b"$JS.ACK.O.c.1.99999999999999999999.1.1.0",
            b"$JS.ACK.O.c.1.1.1.1.",
            b"else.ACK.O.c.1.1.1.1.0",
        ],
    )
    def test_nonsense_is_not_taken(self, kind: type[OriginIntake], reply: bytes) -> None:
        table = Table(kind)
        table.intake.take(b"o.1", make_frame(reply, None, b"x"))
        assert table.contents() == []

    def test_the_second_form_of_replies(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        for seq in (1, 2):
            reply = f"$JS.ACK._.hash.O.c.1.{seq}.{seq}.{TIME}.0.random".encode()
            table.intake.take(b"o.1", make_frame(reply, None, b"m%d" % seq))
        assert [payload for _, _, _, payload, _ in table.contents()] == [b"m1", b"m2"]

    def test_headers_that_mean_something_take_the_long_way(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        block = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"
        table.deliver(1, 1, headers=block)
        assert table.stored == [(b"o.1", block, b"m1", 1, TIME + 1)]

    def test_so_does_everything_on_a_stream_with_rules(self, kind: type[OriginIntake]) -> None:
        table = Table(kind, max_msg_size=100)
        table.deliver(1, 1)
        assert table.stored == [(b"o.1", b"", b"m1", 1, TIME + 1)]

    def test_a_message_that_is_refused_is_the_next_one_still(self, kind: type[OriginIntake]) -> None:
        table = Table(kind, max_msg_size=100)
        table.refuses = True
        table.deliver(1, 1)
        assert (table.gaps, table.intake.sseq) == (1, 0)

    def test_subjects_are_renamed(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        table.intake.rename([SubjectTransform("o.*", "s.$1")])
        table.deliver(1, 1)
        table.deliver(2, 2, subject=b"else")
        assert [subject for _, subject, _, _, _ in table.contents()] == [b"s.1", b"else"]

    def test_heartbeats_and_questions_are_passed_on(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        block = b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"
        table.intake.take(b"x", make_frame(b"back", block, b""))
        assert table.control == [(block, b"back")]

    def test_a_sign_of_life_is_told_once(self, kind: type[OriginIntake]) -> None:
        table = Table(kind)
        table.deliver(1, 1)
        table.deliver(2, 2)
        assert table.signs == 1
        table.intake.watch()
        table.deliver(3, 3)
        assert table.signs == 2


def test_a_mirror_notices_that_its_sequence_was_used_up() -> None:
    table = Table(MirrorIntake)
    table.stream.log.skip_to(5, TIME)
    table.deliver(3, 1)
    assert (table.gaps, table.intake.sseq) == (1, 5)
