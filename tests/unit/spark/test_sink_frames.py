"""Rows in Arrow's memory become the frames that a naive writer would make of them."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from millstream.link.publish_window import FrameBuffer, PublishWindow, Receipts
from millstream.spark.errors import SchemaError
from millstream.spark.schema import default_schema
from millstream.spark.writing.columns import ColumnLayout, RowRules, row_frames
from millstream.spark.writing.frames import RowFrames

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
PLAIN_HEADERS = pa.map_(pa.string(), pa.string())
SPARK_HEADERS = MapType(StringType(), ArrayType(StringType()))
TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "subject": (StringType(), pa.string()),
    "data": (BinaryType(), pa.binary()),
    "headers": (SPARK_HEADERS, HEADERS),
    "msg_id": (StringType(), pa.string()),
    "ttl": (StringType(), pa.string()),
    "expected_last_subject_seq": (LongType(), pa.int64()),
    "stream": (StringType(), pa.string()),
    "seq": (LongType(), pa.int64()),
}


def table(**columns: list[Any]) -> tuple[pa.RecordBatch, ColumnLayout]:
    schema = StructType()
    for name in columns:
        schema.add(name, TYPES[name][0])
    arrays = [pa.array(values, TYPES[name][1]) for name, values in columns.items()]
    batch = pa.RecordBatch.from_arrays(arrays, list(columns))
    return batch, ColumnLayout.of(schema, subject_given="subject" not in columns)


def frames_of(
    batch: pa.RecordBatch,
    layout: ColumnLayout,
    *,
    first_row: int = 0,
    max_payload: int = 1 << 20,
    **rules: Any,
) -> RowFrames:
    return row_frames(batch, layout, RowRules(**rules), first_row=first_row, max_payload=max_payload)


def encoded(frames: RowFrames, limit: int = 1000) -> bytes:
    """All good rows; bad ones are passed over."""
    window, receipts = PublishWindow(b"I", limit), Receipts()
    row = 0
    while row < frames.row_count:
        row = frames.encode(window, receipts, row, 1 << 30)
        if frames.problem:
            row += 1
    return window.frames.take()


def frame(number: int, subject: str, headers: list[tuple[str, str]], payload: bytes) -> bytes:
    if not headers:
        return b"PUB %b I.%d %d\r\n%b\r\n" % (subject.encode(), number, len(payload), payload)
    block = b"NATS/1.0\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in headers) + b"\r\n"
    sizes = (len(block), len(block) + len(payload))
    return b"HPUB %b I.%d %d %d\r\n%b%b\r\n" % (subject.encode(), number, *sizes, block, payload)


def test_a_row_is_a_message() -> None:
    batch, layout = table(subject=["a.b", "c"], data=[b"one", None])
    assert encoded(frames_of(batch, layout)) == frame(1, "a.b", [], b"one") + frame(2, "c", [], b"")


def test_the_option_wins_over_the_column() -> None:
    schema = StructType().add("subject", "string").add("data", "string")
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["text"])], ["subject", "data"])
    layout = ColumnLayout.of(schema, subject_given=True)
    assert encoded(frames_of(batch, layout, subject=b"fixed")) == frame(1, "fixed", [], b"text")


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        ({"msg_id": ["own"]}, [("Nats-Msg-Id", "own")]),
        ({"stream": ["S"], "seq": [7]}, [("Nats-Msg-Id", "S:7")]),
        ({"msg_id": ["own"], "stream": ["S"], "seq": [7]}, [("Nats-Msg-Id", "own")]),
        ({"msg_id": [None], "stream": ["S"], "seq": [7]}, [("Nats-Msg-Id", "S:7")]),
        ({"msg_id": [""]}, [("Nats-Msg-Id", "q:1:2:40")]),
        ({"stream": [None], "seq": [7]}, [("Nats-Msg-Id", "q:1:2:40")]),
        ({"stream": ["S"]}, [("Nats-Msg-Id", "q:1:2:40")]),
        ({}, [("Nats-Msg-Id", "q:1:2:40")]),
    ],
)
def test_the_id_of_a_row(columns: dict[str, list[Any]], lines: list[tuple[str, str]]) -> None:
    batch, layout = table(subject=["a"], data=[b""], **columns)
    frames = frames_of(batch, layout, id_start=b"q:1:2:", first_row=40)
    assert encoded(frames) == frame(1, "a", lines, b"")


def test_without_a_guarantee_only_ids_of_their_own_are_sent() -> None:
    batch, layout = table(
        subject=["a", "a"], data=[b"", b""], msg_id=["x", None], stream=["S"] * 2, seq=[1, 2]
    )
    assert encoded(frames_of(batch, layout)) == frame(1, "a", [("Nats-Msg-Id", "x")], b"") + frame(
        2, "a", [], b""
    )


def test_all_that_a_row_can_say() -> None:
    batch, layout = table(
        subject=["a"],
        data=[b"x"],
        headers=[[("K", ["v", "w"]), ("Empty", []), ("Null", None)]],
        ttl=["1h"],
        expected_last_subject_seq=[9],
    )
    lines = [
        ("Nats-Expected-Stream", "S"),
        ("K", "v"),
        ("K", "w"),
        ("Nats-Msg-Id", "q:0"),
        ("Nats-TTL", "1h"),
        ("Nats-Expected-Last-Subject-Sequence", "9"),
    ]
    frames = frames_of(batch, layout, id_start=b"q:", fixed_lines=b"Nats-Expected-Stream: S\r\n")
    assert encoded(frames) == frame(1, "a", lines, b"x")


def test_headers_may_have_single_values() -> None:
    schema = StructType().add("data", "binary").add("headers", MapType(StringType(), StringType()))
    values = [[("A", "1"), ("B", None)], None, [("C", "3")]]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([b"", b"", b""]), pa.array(values, PLAIN_HEADERS)], ["data", "headers"]
    )
    frames = frames_of(batch, ColumnLayout.of(schema, subject_given=True), subject=b"s")
    assert encoded(frames) == (
        frame(1, "s", [("A", "1")], b"") + frame(2, "s", [], b"") + frame(3, "s", [("C", "3")], b"")
    )


def test_whole_seconds_and_wide_types_are_taken_too() -> None:
    schema = StructType().add("data", "binary").add("ttl", "integer").add("subject", "string")
    arrays = [
        pa.array([b"x"], pa.large_binary()),
        pa.array([60], pa.int32()),
        pa.array(["a"], pa.large_string()),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, ["data", "ttl", "subject"])
    layout = ColumnLayout.of(schema, subject_given=False)
    assert encoded(frames_of(batch, layout)) == frame(1, "a", [("Nats-TTL", "60")], b"x")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"subject": [None]}, "subject is null"),
        ({"subject": [""]}, "no subject"),
        ({"subject": ["a b"]}, "'a b' is no subject"),
        ({"subject": ["a.*"]}, "no subject"),
        ({"subject": ["a\r\nPUB b 0"]}, "no subject"),
        ({"headers": [[("a b", ["x"])]]}, "no name of a header"),
        ({"headers": [[("", ["x"])]]}, "no name of a header"),
        ({"headers": [[("a:", ["x"])]]}, "no name of a header"),
        ({"headers": [[("a", ["x", "y\r\nb: c"])]]}, "value of the header 'a' has a line end"),
        ({"headers": [[("nats-Msg-ID", ["x"])]]}, "allowNatsHeaders"),
        ({"msg_id": ["a\nb"]}, "msg_id has a line end"),
        ({"ttl": ["a\r\nb"]}, "ttl has a line end"),
        ({"stream": ["a\nb"], "seq": [1]}, "stream has a line end"),
        ({"data": [b"x" * 1001]}, "it has 1001 bytes"),
        (
            {"data": [b"x" * 990], "headers": [[("a", ["b"])]]},
            "1008 bytes (18 of headers), the server takes 1000",
        ),
    ],
)
def test_rows_that_can_not_be_messages_are_told_and_passed_over(columns: dict[str, Any], reason: str) -> None:
    good: dict[str, list[Any]] = {"subject": ["a"], "data": [b""]}
    rows = {name: [*values, *good.get(name, [None])] for name, values in {**good, **columns}.items()}
    batch, layout = table(**rows)
    by_id = b"" if "headers" in columns or "data" in columns else b"q:"
    frames = frames_of(batch, layout, id_start=by_id, max_payload=1000)
    window, receipts = PublishWindow(b"I", 10), Receipts()
    assert frames.encode(window, receipts, 0, 1 << 30) == 0
    assert reason in frames.problem
    assert len(receipts) == 0
    assert frames.encode(window, receipts, 1, 1 << 30) == 2
    assert frames.problem == ""
    assert frames.sent == [1]


def test_headers_of_the_server_pass_if_they_may_and_an_id_among_them_counts() -> None:
    batch, layout = table(subject=["a"], data=[b""], headers=[[("Nats-Msg-Id", ["mine"]), ("Nats-X", ["1"])]])
    frames = frames_of(batch, layout, id_start=b"q:", allow_nats_headers=True)
    assert encoded(frames) == frame(1, "a", [("Nats-Msg-Id", "mine"), ("Nats-X", "1")], b"")


def test_it_stops_when_the_window_or_the_buffer_is_full() -> None:
    batch, layout = table(subject=["a"] * 10, data=[b"x" * 10] * 10)
    frames = frames_of(batch, layout)
    window, receipts = PublishWindow(b"I", 4), Receipts()
    assert frames.encode(window, receipts, 0, 1 << 30) == 4
    window = PublishWindow(b"I", 100)
    assert frames.encode(window, receipts, 4, 1) == 5
    assert frames.encode(window, receipts, 5, 1) == 5
    window.frames.take()
    assert frames.encode_again(window, receipts, [0, 9, 3], 1, 1 << 30) == 3
    assert frames.sent == [0, 1, 2, 3, 4, 9, 3]


def test_a_batch_is_numbered_and_not_answered() -> None:
    batch, layout = table(subject=["a", "b", "c"], data=[b"1", b"2", b"3"])
    frames = frames_of(batch, layout)
    out = FrameBuffer()
    assert frames.encode_batched(out, b"Id: x\r\nNo: ", 9, 0, 10, 1 << 30) == 2
    first = b"NATS/1.0\r\nId: x\r\nNo: 9\r\n\r\n"
    second = b"NATS/1.0\r\nId: x\r\nNo: 10\r\n\r\n"
    assert out.take() == b"HPUB a %d %d\r\n%b1\r\nHPUB b %d %d\r\n%b2\r\n" % (
        len(first), len(first) + 1, first, len(second), len(second) + 1, second
    )  # fmt: skip


def test_the_measure_of_rows_does_not_depend_on_the_record_batch_they_are_in() -> None:
    batch, layout = table(subject=["a"] * 20, data=[b"x" * row for row in range(20)])
    whole = frames_of(batch, layout)
    assert whole.measure(0, 20, 1 << 30) == 20
    total = whole.measured
    parts = 0
    for start, count in ((0, 3), (3, 9), (12, 8)):
        part = frames_of(batch.slice(start, count), layout, first_row=start)
        assert part.measure(0, 20, 1 << 30) == count
        parts += part.measured
    assert parts == total
    assert whole.measure(0, 5, 1 << 30) == 5
    assert whole.measure(10, 20, 1) == 11


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)
names = st.text("abcXYZ-_", min_size=1, max_size=5)
rows = st.fixed_dictionaries(
    {
        "subject": st.text("abc", min_size=1, max_size=6),
        "data": st.one_of(st.none(), st.binary(max_size=40)),
        "headers": st.one_of(
            st.none(),
            st.lists(
                st.tuples(names, st.lists(st.one_of(st.none(), texts), max_size=3)),
                max_size=3,
                unique_by=lambda entry: entry[0],
            ),
        ),
        "msg_id": st.one_of(st.none(), texts),
        "stream": st.one_of(st.none(), texts),
        "seq": st.one_of(st.none(), st.integers(0, 2**62)),
    }
)


@given(st.lists(rows, min_size=1, max_size=12), st.integers(0, 5), st.integers(0, 5))
def test_any_rows_and_slices_are_as_a_naive_writer_makes_them(
    made: list[dict[str, Any]], before: int, after: int
) -> None:
    filler = {
        "subject": "zz",
        "data": b"filler",
        "headers": [("F", ["f"])],
        "msg_id": "f",
        "stream": "f",
        "seq": 1,
    }
    everything = [filler] * before + made + [filler] * after
    batch, layout = table(**{name: [row[name] for row in everything] for name in filler})
    frames = frames_of(batch.slice(before, len(made)), layout, id_start=b"q:", first_row=5)
    expected = b""
    for number, row in enumerate(made):
        lines = [
            (name, value) for name, values in row["headers"] or [] for value in values if value is not None
        ]
        if row["msg_id"]:
            identity = row["msg_id"]
        elif row["stream"] is not None and row["seq"] is not None:
            identity = f"{row['stream']}:{row['seq']}"
        else:
            identity = f"q:{number + 5}"
        expected += frame(number + 1, row["subject"], [*lines, ("Nats-Msg-Id", identity)], row["data"] or b"")
    assert encoded(frames) == expected


# -- which columns there may be -----------------------------------------------------------------------


def test_a_stream_can_be_written_as_it_was_read() -> None:
    layout = ColumnLayout.of(default_schema(), subject_given=False)
    assert set(layout.places) == {"stream", "subject", "seq", "headers", "data"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (StructType().add("data", "binary"), "needs a column subject, or the option subject"),
        (StructType().add("subject", "string"), "needs a column data"),
        (StructType().add("subject", "string").add("data", DoubleType()), "data can not be double"),
        (StructType().add("subject", "integer").add("data", "string"), "subject can not be int"),
        (
            StructType().add("subject", "string").add("data", "string").add("amount", "integer"),
            "no column 'amount'.*to_json",
        ),
        (
            StructType().add("subject", "string").add("data", "string").add("data", "binary"),
            "column data is there twice",
        ),
        (
            StructType().add("subject", "string").add("data", "string").add(
                "headers", MapType(StringType(), TimestampType())
            ),
            "headers can not be map<string,timestamp>",
        ),
        (
            StructType().add("subject", "string").add("data", "string").add("ttl", DoubleType()),
            "ttl can not be double",
        ),
    ],
)  # fmt: skip
def test_columns_that_mean_nothing_are_refused(schema: StructType, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        ColumnLayout.of(schema, subject_given=False)
