"""The compiled part of direct gets: how an answer looks, and how a batch of them stops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.golang.time import format_time
from millstream.jetstream.read import answers as stops
from millstream.jetstream.read.answers import DirectBatch, DirectSending
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol.outlet import LONG, Outlet
from millstream.protocol.parser import Frame
from millstream.store.cursor import Cursor
from millstream.store.log import Log
from millstream.store.record import WHOLE, Kind, Record, RecordBuffer
from tests.kits.fake_world import FakeWorld

LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Ear(Outlet):
    """Keeps what is sent; after `patience` messages nobody listens."""

    def __init__(self, patience: int = 1_000_000) -> None:
        self.patience = patience
        self.heard: list[tuple[bytes, bytes, bytes]] = []

    def send(self, subject: bytes, frame: Frame) -> int:
        if len(self.heard) >= self.patience:
            return 0
        assert frame.buf.endswith(b"\r\n")
        assert frame.body_start + frame.body_size + 2 == len(frame.buf)
        self.heard.append((subject, frame.headers(), frame.payload()))
        return 1


def record_of(subject: bytes, seq: int, timestamp: int, block: bytes, payload: bytes) -> Record:
    buffer = RecordBuffer()
    body = block + payload
    buffer.add(int(Kind.MESSAGE), seq, timestamp, subject, body, 0, len(block), len(body))
    buffer.seal()
    data = buffer.take()
    record = Record()
    assert record.read(data, 0, len(data), True) == WHOLE
    return record


def make_log(count: int, subjects: int = 1) -> Log:
    world = FakeWorld()
    stream = world.account().add(StreamConfig(name="S", subjects=["s.>"]))
    for number in range(count):
        world.send(b"s.%d" % (number % subjects), b"%d" % number)
    world.settle()
    return stream.log


def batch_to(ear: Outlet, most: int = 100, most_bytes: int = 10_000) -> DirectBatch:
    return DirectBatch(b"me", ear, most, most_bytes, 100)


@given(
    subject=st.binary(min_size=1, max_size=300),
    seq=st.integers(1, 2**64 - 1),
    timestamp=st.integers(LOWEST, HIGHEST),
    block=st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", b"\r\n", b"x"]),
    payload=st.binary(max_size=2000),
    pending=st.integers(0, 2**63 - 1),
    last=st.integers(0, 2**64 - 1),
)
def test_headers_are_those_that_python_would_write(
    subject: bytes, seq: int, timestamp: int, block: bytes, payload: bytes, pending: int, last: int
) -> None:
    ear = Ear()
    batch = DirectBatch(b"me", ear, 1, 1, pending)
    batch.last = last
    sending = DirectSending(b"STREAM")
    record = record_of(subject, seq, timestamp, block, payload)
    sending.put(record, batch)
    sending.lone(record, b"you", ear, False)
    sending.lone(record, b"you", ear, True)
    own = block[:-2] if len(block) > 2 else b"NATS/1.0\r\n"
    lines = (
        own
        + b"Nats-Stream: STREAM\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
        % (
            subject,
            seq,
            format_time(timestamp).encode(),
        )
    )
    place = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (max(pending - 1, 0), last)
    assert ear.heard == [
        (b"me", lines + place + b"\r\n", payload),
        (b"you", lines + b"\r\n", payload),
        (b"you", b"", payload),
    ]
    assert (batch.last, batch.left) == (seq, 0)


class PartsEar(Ear):
    """Takes long messages in parts."""

    def send_parts(self, subject: bytes, reply: bytes, block: bytes, parts: list[bytes], size: int) -> int:
        assert sum(map(len, parts)) == size >= LONG
        self.heard.append((subject, block, b"".join(parts)))
        return 1


@pytest.mark.parametrize("block", [b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nNats-Stream: x\r\n\r\n"])
@pytest.mark.parametrize("size", [LONG - 1, LONG, LONG + 1])
def test_a_long_message_is_the_same_in_parts(block: bytes, size: int) -> None:
    heard = []
    for ear in (Ear(), PartsEar()):
        sending = DirectSending(b"S")
        record = record_of(b"s", 1, 0, block, b"x" * size)
        sending.lone(record, b"me", ear, False)
        sending.lone(record, b"me", ear, True)
        sending.put(record, batch_to(ear))
        sending.lone(record_of(b"s", 2, 0, b"", b"short"), b"me", ear, False)
        heard.append(ear.heard)
    assert heard[0] == heard[1]
    assert [len(payload) for _, _, payload in heard[0]] == [size, size, size, 5]


@given(st.lists(st.integers(LOWEST, HIGHEST), max_size=20))
def test_times_one_after_the_other_do_not_depend_on_each_other(timestamps: list[int]) -> None:
    ear = Ear()
    sending = DirectSending(b"S")
    for timestamp in timestamps:
        sending.lone(record_of(b"s", 1, timestamp, b"", b""), b"me", ear, False)
    lines = [block.split(b"\r\n")[4] for _, block, _ in ear.heard]
    assert lines == [b"Nats-Time-Stamp: " + format_time(each).encode() for each in timestamps]


def test_a_run_goes_on_where_the_last_one_stopped() -> None:
    ear = Ear()
    sending, cursor, batch = DirectSending(b"S"), Cursor(make_log(10), 3), batch_to(ear, 5)
    assert sending.run(cursor, batch, 2, 1000) == stops.DONE
    assert (sending.sent, sending.sent_bytes, batch.left) == (2, 8, 3)
    assert sending.run(cursor, batch, 1000, 4) == stops.DONE
    assert sending.run(cursor, batch, 1000, 1000) == stops.OVER
    assert [payload for _, _, payload in ear.heard] == [b"2", b"3", b"4", b"5", b"6"]
    assert (batch.last, batch.pending) == (7, 95)


def test_the_end_of_the_log_is_the_end_of_a_run() -> None:
    ear = Ear()
    sending, batch = DirectSending(b"S"), batch_to(ear)
    assert sending.run(Cursor(make_log(3)), batch, 1000, 1000) == stops.END
    assert (len(ear.heard), batch.left) == (3, 97)


def test_a_run_ends_with_the_message_that_uses_up_the_bytes() -> None:
    ear = Ear()
    batch = batch_to(ear, most_bytes=5)
    assert DirectSending(b"S").run(Cursor(make_log(10)), batch, 1000, 1000) == stops.OVER
    assert len(ear.heard) == 2


def test_a_run_ends_when_nobody_listens() -> None:
    ear = Ear(patience=2)
    assert DirectSending(b"S").run(Cursor(make_log(10)), batch_to(ear), 1000, 1000) == stops.NOBODY
    assert len(ear.heard) == 2


def test_a_run_that_passes_over_many_messages_lets_others_have_their_turn() -> None:
    ear = Ear()
    sending, cursor = DirectSending(b"S"), Cursor(make_log(1000, subjects=500), 2, (b"s.0",))
    sending.reach = 100
    reasons = {sending.run(cursor, batch_to(ear), 1000, 1000) for _ in range(8)}
    assert reasons == {stops.TIRED, stops.END}
    assert [payload for _, _, payload in ear.heard] == [b"500"]


def test_one_message_is_sent_if_it_is_there() -> None:
    ear = Ear()
    sending, log = DirectSending(b"S"), make_log(3)
    assert sending.one(log, 2, b"me", ear, True)
    assert not sending.one(log, 4, b"me", ear, True)
    assert ear.heard == [(b"me", b"", b"1")]
