"""A bucket as a table, and the columns of Spark's Kafka source, on both servers; no JVM."""

import threading
from collections.abc import Iterator

import pytest

from millstream.spark.errors import SchemaError
from millstream.spark.shapes import BUCKET_SHAPE, KAFKA_SHAPE, SHAPES
from millstream.tables.errors import StreamMissing
from tests.kits.spark.source import Lab, Query, rows, schema_of, source_of

KAFKA = tuple(KAFKA_SHAPE.types)
BUCKET = tuple(BUCKET_SHAPE.types)


class Bucket:
    """A key-value bucket over the lean wire."""

    def __init__(self, lab: Lab, name: str, history: int) -> None:
        self.name = name
        self._lab = lab
        lab.create_again(
            f"KV_{name}", subjects=[f"$KV.{name}.>"], max_msgs_per_subject=history, allow_rollup_hdrs=True,
            deny_delete=True, allow_direct=True, discard="new",
        )  # fmt: skip

    def put(self, key: str, value: str, **headers: str) -> None:
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        self._lab.link.request(f"$KV.{self.name}.{key}", value.encode(), headers=names or b"")

    def options(self, **more: str) -> dict[str, str]:
        return self._lab.options(None, bucket=self.name, **more)


@pytest.fixture(params=[1, 5], ids=["history1", "history5"])
def bucket(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Bucket]:
    return Bucket(lab, f"devices{request.param}", request.param)


def test_a_batch_of_a_bucket_is_the_last_value_of_each_key(bucket: Bucket) -> None:
    for key, value in (("a", "1"), ("b.c", "2"), ("a", "3"), ("d", "4"), ("e", "5"), ("d", "6")):
        bucket.put(key, value)
    bucket.put("e", "", KV_Operation="DEL")
    bucket.put("b.c", "", KV_Operation="PURGE", Nats_Rollup="sub")
    bucket.put("f", "")
    found = rows(bucket.options(), BUCKET)
    assert [(row["key"], row["value"], row["operation"], row["revision"]) for row in found] == [
        ("a", b"3", "put", 3),
        ("d", b"6", "put", 6),
        ("f", b"", "put", 9),
    ]
    assert all(row["time"].tzinfo is not None for row in found)
    assert rows(bucket.options(), ["revision"]) == [{"revision": 3}, {"revision": 6}, {"revision": 9}]


def test_a_key_that_is_changed_while_the_bucket_is_read_is_not_lost(bucket: Bucket) -> None:
    for number in range(200):
        bucket.put(f"k{number}", "old")
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for number in range(0, 200, 7):
                bucket.put(f"k{number}", "new")

    changes = threading.Thread(target=change)
    changes.start()
    try:
        for _ in range(3):
            found = rows(bucket.options(fetch__batch="10", transport="pull"), ["key"])
            assert len(found) == len({row["key"] for row in found}) == 200
    finally:
        stop.set()
        changes.join()


def test_a_stream_of_a_bucket_has_its_changes(bucket: Bucket) -> None:
    bucket.put("a", "1")
    query = Query(bucket.options(startingOffsets="earliest"), ("key", "value", "operation", "revision"))
    assert [tuple(row.values()) for row in query.batch() or []] == [("a", b"1", "put", 1)]
    bucket.put("a", "", KV_Operation="DEL")
    bucket.put("b", "2")
    assert [tuple(row.values()) for row in query.batch() or []] == [
        ("a", None, "delete", 2),
        ("b", b"2", "put", 3),
    ]
    query.stop()


def test_a_bucket_that_is_not_there_is_told(lab: Lab) -> None:
    with pytest.raises(StreamMissing, match="there is no bucket nowhere: there is no stream KV_nowhere"):
        rows(lab.options(None, bucket="nowhere"), BUCKET)
    with pytest.raises(SchemaError, match="no column 'seq'; it has key, value, operation, revision, time"):
        source_of(lab.options(None, bucket="any")).reader(schema_of(["seq"]))


def test_columns_of_kafka(lab: Lab) -> None:
    stream = lab.stream()
    lab.publish(stream, ["plain"], "a")
    lab.publish(stream, [b"\xff"], "b.c", b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n")
    lab.publish(stream, [b""], "d", b"NATS/1.0\r\nC: 4\r\n\r\n")
    found = rows(lab.options(stream, kafkaSchema="true"), KAFKA)
    assert [row.pop("timestamp").tzinfo is not None for row in found] == [True] * 3
    same = {"topic": stream, "partition": 0, "timestampType": 1}
    assert found == [
        {"key": f"{stream}.a".encode(), "value": b"plain", "offset": 1, "headers": [], **same},
        {
            "key": f"{stream}.b.c".encode(),
            "value": b"\xff",
            "offset": 2,
            "headers": [
                {"key": "A", "value": b"1"},
                {"key": "A", "value": b"3"},
                {"key": "B", "value": b"2"},
            ],
            **same,
        },
        {
            "key": f"{stream}.d".encode(),
            "value": b"",
            "offset": 3,
            "headers": [{"key": "C", "value": b"4"}],
            **same,
        },
    ]
    assert rows(lab.options(stream, kafkaSchema="true"), ["partition"]) == [{"partition": 0}] * 3
    query = Query(lab.options(stream, kafkaSchema="true", startingOffsets="2"), ("offset", "value"))
    assert query.batch() == [{"offset": 2, "value": b"\xff"}, {"offset": 3, "value": b""}]
    query.stop()


def test_a_source_offers_the_columns_that_its_options_choose() -> None:
    servers = {"nats.servers": "nats://127.0.0.1:1"}
    for more, shape in (({}, "own"), ({"kafkaSchema": "True"}, "kafka"), ({"bucket": "b"}, "bucket")):
        assert source_of(servers | more).schema() == SHAPES[shape].schema()
