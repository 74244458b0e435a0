"""Records become rows: every column, odd text, damage, and how large a batch gets."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from millstream.arrow.batch import MOST_BYTES, MOST_ROWS
from millstream.arrow.schema import DEFAULT_COLUMNS
from millstream.store.commit import segment_path
from millstream.store.fs import MemoryFileSystem
from tests.kits.arrow.log import ALL, FIRST_TIME, Direct, append, commit, fill, new_log, seqs, table_of

HEADERS = b"NATS/1.0\r\nNats-Msg-Id: id-1\r\nA: 1\r\nB: x: y\r\nA:2\r\na: 3\r\n\r\n"
EXPECTED_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("subject", pa.string()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("data", pa.binary()),
        ("time_ns", pa.int64()),
        ("size", pa.int32()),
        ("msg_id", pa.string()),
        ("tokens", pa.list_(pa.string())),
        ("headers_raw", pa.binary()),
    ]
)


def test_the_types_are_those_of_pyarrow() -> None:
    log = new_log()
    fill(log, 1)
    assert table_of(log, ALL).schema.equals(EXPECTED_SCHEMA)
    assert table_of(log).schema.names == list(DEFAULT_COLUMNS)


def test_every_column_has_what_it_says() -> None:
    log = new_log()
    append(log, b"orders.eu.new", b"payload", HEADERS)
    append(log, b"b", b"")
    commit(log)
    first, second = table_of(log, ALL).to_pylist()
    time_ns = FIRST_TIME + 1_000_001
    time = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).replace(
        microsecond=time_ns // 1000 % 1_000_000
    )
    assert first == {
        "stream": "S",
        "subject": "orders.eu.new",
        "seq": 1,
        "time": time,
        "headers": [("Nats-Msg-Id", ["id-1"]), ("A", ["1", "2"]), ("B", ["x: y"]), ("a", ["3"])],
        "data": b"payload",
        "time_ns": time_ns,
        "size": 7,
        "msg_id": "id-1",
        "tokens": ["orders", "eu", "new"],
        "headers_raw": HEADERS,
    }
    assert (second["headers"], second["msg_id"], second["headers_raw"]) == ([], None, b"")
    assert (second["data"], second["size"], second["tokens"]) == (b"", 0, ["b"])


@pytest.mark.parametrize("column", ALL)
def test_each_column_can_come_alone(column: str) -> None:
    log = new_log()
    for number in range(30):
        append(log, b"a.%d" % number, b"body %d" % number, HEADERS if number % 3 else b"")
    commit(log)
    assert table_of(log, (column,)).equals(table_of(log, ALL).select([column]))


def test_columns_come_in_the_order_they_are_named() -> None:
    log = new_log()
    fill(log, 3)
    assert table_of(log, ("data", "seq")).schema.names == ["data", "seq"]


def test_text_that_is_not_utf8_is_replaced_and_bytes_are_kept() -> None:
    log = new_log()
    raw = b"NATS/1.0\r\nNats-Msg-Id: \xff\r\nK\xfe: v\xe2\x82\r\nK\xfd: w\r\nok: \xc3\xa9\r\n\r\n"
    append(log, b"caf\xe9.x", b"\xff\x00", raw)
    append(log, "café.y".encode(), b"1", b"NATS/1.0\r\nok: \xc3\xa9\r\n\r\n")
    append(log, b"plain", b"2", HEADERS)
    commit(log)
    odd, fine, plain = table_of(log, ALL).to_pylist()
    assert (odd["subject"], odd["tokens"]) == ("caf�.x", ["caf�", "x"])
    # Two names stay two, although they look the same now.
    assert odd["headers"] == [
        ("Nats-Msg-Id", ["�"]),
        ("K�", ["v�"]),
        ("K�", ["w"]),
        ("ok", ["é"]),
    ]
    assert (odd["msg_id"], odd["data"], odd["headers_raw"]) == ("�", b"\xff\x00", raw)
    assert (fine["subject"], fine["headers"]) == ("café.y", [("ok", ["é"])])
    assert plain["headers_raw"] == HEADERS


def test_a_block_of_very_many_headers_is_grouped_all_the_same() -> None:
    log = new_log(segment_size=10_000_000)
    lines = b"".join(b"k%d: v%d\r\n" % (number % 700, number) for number in range(2_000))
    append(log, b"a", b"", b"NATS/1.0\r\n" + lines + b"\r\n")
    append(log, b"a", b"", HEADERS)
    commit(log)
    many, few = table_of(log, ("headers",)).column("headers").to_pylist()
    assert len(many) == 700
    assert many[0] == ("k0", ["v0", "v700", "v1400"])
    assert many[699] == ("k699", ["v699", "v1399"])
    assert few[1] == ("A", ["1", "2"])


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (b"NATS/1.0\r\n\r\n", []),
        (b"NATS/1.0 503\r\n\r\n", []),
        (b"NATS/1.0\r\nno colon\r\n: no name\r\nok:1\r\n\r\n", [("ok", ["1"])]),
        (b"NATS/1.0\r\nempty:\r\nblank: \t \r\n\r\n", [("empty", [""]), ("blank", [""])]),
        (b"NATS/1.0\r\nlf: a\nb\r\n\r\n", [("lf", ["a\nb"])]),
        (b"NATS/1.0\r\ncut: off", [("cut", ["off"])]),
        (b"garbage", []),
    ],
)
def test_blocks_that_no_client_should_send_are_read_as_far_as_they_go(
    block: bytes, expected: list[tuple[str, list[str]]]
) -> None:
    log = new_log()
    append(log, b"a", b"body", block)
    commit(log)
    row = table_of(log, ALL).to_pylist()[0]
    assert (row["headers"], row["data"]) == (expected, b"body")


def test_a_batch_has_so_many_rows_and_no_more() -> None:
    log = new_log(segment_size=1_000_000)
    fill(log, MOST_ROWS + 5)
    chunks = table_of(log).column("seq").iterchunks()
    assert [len(chunk) for chunk in chunks] == [MOST_ROWS, 5]


@pytest.mark.compiled
def test_a_batch_of_large_messages_ends_at_its_bytes() -> None:
    log = new_log(segment_size=32_000_000)
    for _ in range(10):
        append(log, b"a", bytes(MOST_BYTES // 4))
    append(log, b"a", bytes(3 * MOST_BYTES))
    append(log, b"a", b"")
    commit(log)
    chunks = table_of(log, ("data", "seq")).column("seq").iterchunks()
    assert [chunk.to_pylist() for chunk in chunks] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11], [12]]


def damage(fs: MemoryFileSystem, log: object, number: int, needle: bytes) -> None:
    path = segment_path("log", number)
    data = fs.read_all(path)
    at = data.index(needle)
    fs.open(path, create=False).overwrite(at, b"!")


def test_a_damaged_record_is_left_out_and_told() -> None:
    fs = MemoryFileSystem()
    log = new_log(fs)
    fill(log, 120)
    damage(fs, log, 1, b"body 5")
    damage(fs, log, 2, b"body 70")
    source = Direct(log)
    found = seqs(table_of(log, source=source))
    assert source.damaged == [5, 70]
    assert found == [seq for seq in range(1, 121) if seq not in (5, 70)]
    # The log knows it from now on: the next reading finds nothing wrong.
    assert log.losses.sequences() == [5, 70]
    again = Direct(log)
    assert seqs(table_of(log, source=again)) == found
    assert again.damaged == []


def test_what_was_erased_is_left_out_without_a_word() -> None:
    log = new_log()
    fill(log, 20)
    log.erase(4)
    source = Direct(log)
    assert 4 not in seqs(table_of(log, source=source))
    commit(log)
    assert 4 not in seqs(table_of(log, source=source))
    assert source.damaged == []
