"""Arrow batches of random logs have the rows of a cursor, and those that come over NATS."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.store.cursor import Cursor
from millstream.store.record import Record
from tests.kits.arrow.log import ALL, append, commit, new_log, table_of

pytest.importorskip("pyspark")

PIECES = st.sampled_from(
    [
        b"A",
        b"a",
        b"Nats-Msg-Id",
        b":",
        b": ",
        b" ",
        b"\t",
        b"\r\n",
        b"\r",
        b"\n",
        b"\xff",
        "é".encode(),
        b"value",
        b"\xe2\x82",
        b"\r\nA: 1\r\n",
        b"\r\nNats-Msg-Id: x\r\n",
        b"x" * 20,
    ]
)
BLOCKS = st.one_of(
    st.just(b""),
    st.lists(PIECES, max_size=12).map(lambda parts: b"NATS/1.0\r\n" + b"".join(parts) + b"\r\n\r\n"),
    st.lists(PIECES, min_size=1, max_size=6).map(b"".join),
    st.integers(60, 90).map(
        lambda count: b"NATS/1.0\r\n" + b"".join(b"k%d:v\r\n" % (n % 40) for n in range(count)) + b"\r\n"
    ),
)
SUBJECTS = st.sampled_from([b"a", b"a.b", b"b.c.d", b"a.\xff", "é.b".encode(), b"b.c.e"])
MESSAGES = st.lists(st.tuples(SUBJECTS, BLOCKS, st.binary(max_size=50)), min_size=1, max_size=25)
PATTERNS = st.sampled_from([(), (b"a",), (b"a.*", b"b.>"), (b"*.b", b"a"), (b">",), (b"none",)])


def over_the_wire(
    log: Any, patterns: tuple[bytes, ...], first: int, last: int, schema: pa.Schema
) -> pa.Table:
    """Build the range with the reader that takes messages from NATS."""
    from millstream.tables.columns import Columns
    from millstream.tables.intake import Intake

    intake = Intake(Columns(tuple(schema.names), "S"), 1, 2**60)
    cursor, record = Cursor(log, first, patterns), Record()
    while cursor.next(record) and record.seq <= last:
        intake.add(record.subject(), record.seq, record.timestamp, record.headers(), record.payload())
    return pa.Table.from_batches([intake.flush(schema)], schema)


@settings(max_examples=150, deadline=None)
@given(MESSAGES, st.sets(st.integers(1, 25), max_size=8), PATTERNS, st.integers(1, 12), st.integers(0, 25))
def test_rows_are_those_that_come_over_nats(
    messages: list[tuple[bytes, bytes, bytes]],
    removed: set[int],
    patterns: tuple[bytes, ...],
    first: int,
    length: int,
) -> None:
    log = new_log(segment_size=400)
    for subject, block, payload in messages:
        append(log, subject, payload, block)
        if len(payload) % 3 == 0:
            commit(log)
    commit(log)
    for seq in removed:
        log.remove(seq)
    commit(log)
    last = min(first + length, log.committed)
    ours = table_of(log, ALL, first=first, last=last, patterns=patterns)
    theirs = over_the_wire(log, patterns, first, last, ours.schema)
    assert ours.to_pylist() == theirs.to_pylist()
