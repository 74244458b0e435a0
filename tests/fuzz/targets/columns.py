"""Messages on their way into Arrow's memory, and answers on their way to who published."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from millstream.arrow.text import repaired, utf8
from millstream.jetstream.dedupe.window import Dedupe
from millstream.link.errors import ProtocolViolation
from millstream.link.parser import LinkOp, LinkParser
from millstream.link.publish_window import PublishWindow, Receipts
from millstream.store.fs import MemoryFileSystem
from millstream.tables import intake as codes
from millstream.tables.columns import Columns
from millstream.tables.intake import Intake
from millstream.tables.schema import COLUMN_TYPES, stream_schema
from tests.fuzz.targets.client_protocol import split
from tests.kits.arrow.log import ALL, append, commit, new_log, table_of

_SID = 9
_FORM = stream_schema(COLUMN_TYPES)
_BLOCK = b"NATS/1.0\r\nNats-Msg-Id: x\r\nA: 1\r\nA: 2\r\n\r\n"
_ADDED = (
    b"Nats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: 3\r\nNats-Time-Stamp: "
    b"2024-01-01T00:00:00.123456789Z\r\n"
)
_ADDED += b"Nats-Num-Pending: 7\r\nNats-Last-Sequence: 2\r\n\r\n"
WORDS = (
    b"\r\n", b":", b": ", b"Nats-Msg-Id: y\r\n", b"$JS.ACK.S.c.1.2.3.4.5", b"Nats-Sequence: 4\r\n", b"\xff",
    b"\xe2\x82", b"MSG ", b"HMSG ",
    b"999999999999999999999", b"Nats-Time-Stamp: 1", b".", b"\xf0\x9f\x98\x80",
    b"NATS/1.0 404 No Messages\r\n\r\n",
)  # fmt: skip


def message_seeds() -> Iterator[bytes]:
    yield (
        b"\x1ea.b\x1f"
        + _BLOCK
        + b"\x1fbody\x1ea\x1f\x1f\x1e\xc3\xa9.b\x1fNATS/1.0\r\nk:v\r\n\r\n\x1f"
        + b"\xff" * 20
    )
    yield b"\x1e".join(b"s.%d\x1f%b\x1f%b" % (n, _BLOCK if n % 2 else b"", b"x" * n) for n in range(12))


def check_batches(data: bytes) -> Hashable:
    """Arrow batches hold the stored messages; `\\x1e` ends a message, `\\x1f` its parts."""
    log = new_log(MemoryFileSystem(), segment_size=400)
    expected = []
    for line in data.split(b"\x1e")[:40]:
        subject, _, rest = line.partition(b"\x1f")
        block, _, payload = rest.partition(b"\x1f")
        if subject and len(subject) < 1000:
            append(log, subject, payload, block)
            expected.append((subject, payload))
            if len(payload) % 3 == 0:
                commit(log)
    commit(log)
    table = table_of(log, ALL)
    assert table.column("data").to_pylist() == [payload for _, payload in expected]
    assert table.column("subject").to_pylist() == [
        subject.decode(errors="replace") for subject, _ in expected
    ]
    return len(expected), tuple(len(each or ()) for each in table.column("headers").to_pylist()[:6])


def check_utf8(data: bytes) -> Hashable:
    """Compare with Python."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert not utf8(data)
        assert repaired(data) == data.decode(errors="replace").encode()
        return False
    assert utf8(data)
    assert repaired(data) == text.encode()
    return True


def utf8_seeds() -> Iterator[bytes]:
    yield "aé€😀".encode()
    yield b"\xed\xa0\x80\xc0\x80\xf4\x90\x80\x80" + bytes(range(128, 256))


def intake_seeds() -> Iterator[bytes]:
    reply = b"$JS.ACK.S.c.1.%d.%d.1700000000000000000.7"
    plain = b"".join(b"MSG a.b 9 %b 5\r\nhello\r\n" % (reply % (n, n)) for n in (1, 2, 4))
    head = b"HMSG a.b 9 %b %d %d\r\n%bhello\r\n" % (reply % (5, 4), len(_BLOCK), len(_BLOCK) + 5, _BLOCK)
    yield b"\x00" + plain + head + b"PING\r\nHMSG i 9 30 30\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n"
    block = _BLOCK[:-2] + _ADDED
    direct = b"HMSG _INBOX.x.1 9 %d %d\r\n%bhello\r\n" % (len(block), len(block) + 5, block)
    yield b"\x01" + direct + direct.replace(b"Sequence: 3", b"Sequence: 4")


def check_intake(data: bytes) -> Hashable:
    """Bytes of a server become rows, a gap or a violation, and the same ones however they are cut."""
    if not data:
        return None
    direct, wire = bool(data[0] & 1), data[1:]
    outcomes = []
    for size in (len(wire) or 1, 1 + data[0] % 60):
        intake = Intake(Columns(tuple(COLUMN_TYPES), "S"), 1, 200, direct=direct)
        parser, seen = LinkParser(), []
        try:
            for piece in split(wire, size, 0) if size < 61 else (wire,):
                parser.feed(piece)
                for _ in range(200):
                    code = intake.take(parser, _SID)
                    if code == codes.NEED_MORE or seen[-50:] == [code] * 50:
                        break
                    seen.append(code)
        except ProtocolViolation:
            seen.append(-1)
        batch = intake.flush(_FORM)
        batch.validate(full=True)
        outcomes.append((batch.num_rows, tuple(seen[-2:])))
    return outcomes[0]


def answer_seeds() -> Iterator[bytes]:
    answers = (b'{"stream":"S","seq":1}', b'{"stream":"S","seq":2,"duplicate":true}',
    b'{"error":{"code":400,"err_code":10071,"description":"x"}}',
               b'{"stream":"S","domain":"hub","seq":3}', b'{"stream":"S","seq":4,"val":"5"}',
               b"")  # fmt: skip
    frames = [b"MSG I.%d 1 %d\r\n%b\r\n" % (number, len(each), each) for number, each in enumerate(answers)]
    yield b"".join(frames) + b"HMSG I.6 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    yield b"".join(
        b'MSG I.%d 1 24\r\n{"stream":"S","seq":%d}\r\n' % (number, 10 + number) for number in range(8)
    )


def check_answers(data: bytes) -> Hashable:
    """Answers to publishes settle what they belong to; what makes no sense is an error of that publish."""
    window, receipts, parser = PublishWindow(b"I", 16), Receipts(), LinkParser(max_line=300, max_body=4000)
    for _ in range(8):
        window.add(receipts, b"a.b", b"", b"x")
    parser.feed(data)
    settled = []
    try:
        while (op := parser.next()) != LinkOp.NEED_MORE:
            if op == LinkOp.MSG:
                settled.append(window.settle(parser))
    except ProtocolViolation:
        settled.append(False)
    return tuple(settled[:8]), tuple(sorted({type(error).__name__ for error in receipts.errors.values()}))


def dedupe_seeds() -> Iterator[bytes]:
    yield b"".join(bytes((n % 7, n % 3)) for n in range(200))
    yield bytes(range(256)) * 3


def check_dedupe(data: bytes) -> Hashable:
    """Compare with a dictionary; two bytes make a step: an id, and how much later it comes."""
    window, now = 20, 0
    table, model = Dedupe(window), dict[bytes, tuple[int, int]]()
    for seq, at in enumerate(range(0, len(data) - 1, 2), 1):
        message_id = b"id" * (data[at] % 5) + bytes((data[at],)) if data[at] % 11 else b""
        now += data[at + 1] % 4
        known, then = model.get(message_id, (0, -window))
        expected = known if now - then < window else 0
        assert table.find(message_id, now) == expected
        if not expected:
            table.add(message_id, seq, now)
            model[message_id] = (seq, now)
    return len(table)
