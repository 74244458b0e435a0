"""Columns against a naive model: any messages, any read boundary, both forms a message comes in."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.golang.time import format_time
from millstream.link.errors import ProtocolViolation
from millstream.link.parser import LinkParser
from millstream.tables import intake as codes
from millstream.tables.columns import Columns
from millstream.tables.intake import MAX_ROWS, Intake
from millstream.tables.schema import COLUMN_TYPES, stream_schema

ALL = tuple(COLUMN_TYPES)
SID = 9
FORM = stream_schema(COLUMN_TYPES)

Message = tuple[bytes, int, int, bytes, bytes]  # subject, sequence, time, header block, payload

_name_bytes = st.binary(min_size=1, max_size=6).filter(lambda raw: not set(raw) & set(b"\r\n:"))
_value_bytes = st.binary(max_size=8).filter(lambda raw: not set(raw) & set(b"\r\n"))
_names = st.sampled_from([b"A", b"a", b"Nats-Msg-Id", b"Nats-Stream", "ü".encode()]) | _name_bytes
_lines = st.tuples(_names, st.sampled_from([b":", b": ", b":\t "]), _value_bytes).map(b"".join)
_odd_lines = st.sampled_from([b"no colon here", b":no name"])
_blocks = st.just(b"") | st.lists(_lines | _odd_lines, max_size=5).map(
    lambda lines: b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
)
_tokens = st.binary(min_size=1, max_size=4).filter(lambda raw: not set(raw) & set(b" \t\r\n."))
_subjects = st.lists(_tokens, min_size=1, max_size=4).map(b".".join)


@st.composite
def messages(draw: st.DrawFn) -> list[Message]:
    seqs = sorted(draw(st.sets(st.integers(1, 200), max_size=8)))
    times = st.integers(0, 2**62)
    return [(draw(_subjects), seq, draw(times), draw(_blocks), draw(st.binary(max_size=20))) for seq in seqs]


def model(stream: str, message: Message) -> dict[str, object]:
    subject, seq, time_ns, block, payload = message
    lines = [line for line in block.split(b"\r\n")[1:] if line]
    headers: dict[str, list[str]] = {}
    raw: dict[bytes, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if name and colon:
            raw.setdefault(name, []).append(value.strip(b" \t").decode(errors="replace"))
    pairs = [(name.decode(errors="replace"), values) for name, values in raw.items()]
    headers.update(pairs)
    return {
        "stream": stream,
        "subject": subject.decode(errors="replace"),
        "seq": seq,
        "time": time_ns // 1000,
        "headers": pairs,
        "data": payload,
        "time_ns": time_ns,
        "size": len(payload),
        "msg_id": raw.get(b"Nats-Msg-Id", [None])[0],
        "tokens": [token.decode(errors="replace") for token in subject.split(b".")],
        "headers_raw": block if lines else b"",
    }


def delivered(message: Message, number: int, prefix: bytes = b"$JS.ACK.S.c") -> bytes:
    subject, seq, time_ns, block, payload = message
    reply = b"%b.1.%d.%d.%d.7" % (prefix, seq, number, time_ns)
    if len(prefix.split(b".")) > 4:
        reply += b".random"
    if not block:
        return b"MSG %b %d %b %d\r\n%b\r\n" % (subject, SID, reply, len(payload), payload)
    total = len(block) + len(payload)
    return b"HMSG %b %d %b %d %d\r\n%b%b\r\n" % (subject, SID, reply, len(block), total, block, payload)


def direct(message: Message, number: int) -> bytes:
    subject, seq, time_ns, block, payload = message
    start = block[:-2] if block else b"NATS/1.0\r\n"
    added = (
        b"Nats-Stream: S\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
        b"Nats-Num-Pending: 7\r\nNats-Last-Sequence: 3\r\n\r\n"
    )
    whole = start + added % (subject, seq, format_time(time_ns).encode())
    total = len(whole) + len(payload)
    return b"HMSG _INBOX.x.%d %d %d %d\r\n%b%b\r\n" % (number, SID, len(whole), total, whole, payload)


def rows_of(intake: Intake, wire: bytes, piece: int) -> list[dict[str, object]]:
    parser = LinkParser()
    rows: list[dict[str, object]] = []
    for start in range(0, len(wire), piece):
        parser.feed(wire[start : start + piece])
        code = intake.take(parser, SID)
        assert code in (codes.NEED_MORE, codes.FINISHED)
    batch = intake.flush(FORM)
    batch.validate(full=True)
    assert batch.schema == FORM
    plain = batch.set_column(3, "time", batch.column("time").cast(pa.int64()))
    rows += plain.to_pylist()
    return rows


@settings(deadline=None)
@given(messages(), st.integers(1, 300))
def test_a_consumers_messages_become_the_rows_they_should(found: list[Message], piece: int) -> None:
    wire = b"".join(delivered(message, number) for number, message in enumerate(found, 1))
    intake = Intake(Columns(ALL, "S"), 1, 200)
    assert rows_of(intake, wire, piece) == [model("S", message) for message in found]


@settings(deadline=None)
@given(messages(), st.integers(1, 300))
def test_direct_gets_give_the_same_rows(found: list[Message], piece: int) -> None:
    wire = b"".join(direct(message, number) for number, message in enumerate(found, 1))
    intake = Intake(Columns(ALL, "S"), 1, 200, direct=True)
    assert rows_of(intake, wire, piece) == [model("S", message) for message in found]


@settings(deadline=None)
@given(messages())
def test_messages_that_are_added_one_by_one_give_the_same_rows(found: list[Message]) -> None:
    intake = Intake(Columns(ALL, "S"), 1, 200)
    for message in found:
        intake.add(*message)
    assert rows_of(intake, b"", 1) == [model("S", message) for message in found]


@settings(deadline=None)
@given(messages())
def test_headers_only_give_the_size_of_what_was_left_out(found: list[Message]) -> None:
    sized = []
    for subject, seq, time_ns, block, payload in found:
        start = block[:-2] if block else b"NATS/1.0\r\n"
        sized.append((subject, seq, time_ns, start + b"Nats-Msg-Size: %d\r\n\r\n" % len(payload), b""))
    wire = b"".join(delivered(message, number) for number, message in enumerate(sized, 1))
    rows = rows_of(Intake(Columns(ALL, "S"), 1, 200, sizes=True), wire, 1000)
    assert rows == [model("S", message) | {"data": b""} for message in found]


def message(seq: int, subject: bytes = b"a.b", block: bytes = b"", payload: bytes = b"x") -> Message:
    return subject, seq, 1_700_000_000_000_000_123, block, payload


def test_reply_subjects_with_a_domain_are_read_too() -> None:
    wire = delivered(message(5), 1, b"$JS.ACK.hub.ACCHASH.S.c")
    assert rows_of(Intake(Columns(ALL, "S"), 5, 9), wire, 1000) == [model("S", message(5))]


def test_many_headers_do_not_take_long_and_are_the_same() -> None:
    block = b"NATS/1.0\r\n" + b"".join(b"k%d: v%d\r\n" % (i % 40_000, i) for i in range(80_000)) + b"\r\n"
    many = message(1, block=block)
    assert rows_of(Intake(Columns(ALL, "S"), 1, 1), delivered(many, 1), 10**7) == [model("S", many)]


def test_headers_can_be_left_out() -> None:
    headed = message(1, block=b"NATS/1.0\r\nA: 1\r\n\r\n")
    [row] = rows_of(Intake(Columns(ALL, "S", with_headers=False), 1, 1), delivered(headed, 1), 1000)
    assert (row["headers"], row["headers_raw"]) == ([], headed[3])


def test_the_range_ends_at_its_last_sequence_and_what_is_beyond_is_dropped() -> None:
    for last in (7, 8):
        parser = LinkParser()
        parser.feed(delivered(message(6), 1) + delivered(message(last), 2) + delivered(message(9), 3))
        intake = Intake(Columns(ALL, "S"), 6, 7)
        assert intake.take(parser, SID) == codes.FINISHED
        assert intake.last == 7
        assert intake.columns.rows == (2 if last == 7 else 1)
        assert intake.gaps == ([] if last == 7 else [(7, 7)])


def test_gaps_are_known() -> None:
    wire = b"".join(delivered(message(seq), number) for number, seq in enumerate((3, 4, 8), 1))
    intake = Intake(Columns(ALL, "S"), 1, 20)
    rows_of(intake, wire, 1000)
    assert intake.gaps == [(1, 2), (5, 7)]


def test_a_message_that_was_seen_before_is_dropped() -> None:
    wire = b"".join(direct(message(seq), 1) for seq in (1, 2, 1, 2, 3))
    rows = rows_of(Intake(Columns(ALL, "S"), 1, 20, direct=True), wire, 1000)
    assert [row["seq"] for row in rows] == [1, 2, 3]


def test_a_message_lost_on_the_way_from_a_consumer_is_noticed() -> None:
    parser = LinkParser()
    parser.feed(delivered(message(1), 1) + delivered(message(3), 3))
    intake = Intake(Columns(ALL, "S"), 1, 20)
    assert intake.take(parser, SID) == codes.LOST
    assert intake.last == 1
    intake.restart()
    parser.feed(delivered(message(2), 1))
    assert intake.take(parser, SID) == codes.NEED_MORE
    assert intake.last == 2


def test_subjects_are_filtered_where_the_server_did_not() -> None:
    wire = b"".join(
        direct(message(seq, subject), 1) for seq, subject in enumerate((b"a.b", b"b.b", b"c.x.y"), 1)
    )
    intake = Intake(Columns(ALL, "S"), 1, 3, direct=True, patterns=(b"a.*", b"c.>"))
    assert [row["subject"] for row in rows_of(intake, wire, 1000)] == ["a.b", "c.x.y"]


def test_whatever_is_not_a_message_of_ours_is_left_to_the_reader() -> None:
    parser = LinkParser()
    parser.feed(b"PING\r\nMSG x 3 1\r\nx\r\nHMSG i 9 16 16\r\nNATS/1.0 404\r\n\r\n\r\n")
    intake = Intake(Columns(ALL, "S"), 1, 3)
    assert [intake.take(parser, SID) for _ in range(4)] == [
        codes.OTHER, codes.FOREIGN, codes.STATUS, codes.NEED_MORE
    ]  # fmt: skip


def test_a_batch_is_full_after_ten_thousand_rows_or_eight_megabytes() -> None:
    parser = LinkParser()
    parser.feed(b"".join(delivered(message(seq), seq) for seq in range(1, MAX_ROWS + 2)))
    intake = Intake(Columns(("seq",), "S"), 1, 10**6)
    assert intake.take(parser, SID) == codes.FULL
    assert intake.columns.rows == MAX_ROWS
    big = LinkParser()
    big.feed(b"".join(delivered(message(seq, payload=bytes(3_000_000)), seq) for seq in range(1, 5)))
    intake = Intake(Columns(("data",), "S"), 1, 10**6)
    assert intake.take(big, SID) == codes.FULL
    assert intake.columns.rows == 3


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_server_that_sends_nonsense_is_told_so(is_direct: bool) -> None:
    parser = LinkParser()
    if is_direct:
        parser.feed(b"HMSG i 9 18 18\r\nNATS/1.0\r\nA: b\r\n\r\n\r\n")
    else:
        parser.feed(b"MSG a 9 some.reply 1\r\nx\r\n")
    with pytest.raises(ProtocolViolation):
        Intake(Columns(ALL, "S"), 1, 3, direct=is_direct).take(parser, SID)


def test_batches_do_not_share_memory_with_later_rows() -> None:
    intake = Intake(Columns(ALL, "S"), 1, 9)
    intake.add(*message(1, payload=b"first", block=b"NATS/1.0\r\nA: 1\r\n\r\n"))
    before = intake.flush(FORM)
    copy = before.to_pylist()
    intake.add(*message(2, payload=b"secnd", block=b"NATS/1.0\r\nB: 2\r\n\r\n"))
    intake.flush(FORM)
    assert before.to_pylist() == copy
