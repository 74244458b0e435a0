"""Readers and writers without Spark, on three servers of which the leader dies in the middle: in seconds."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from millstream.spark.options import SinkOptions, SourceOptions, Use
from millstream.spark.schema import default_schema
from millstream.spark.sink import stream_writer
from millstream.spark.stream import StreamReader
from millstream.spark.writing.identity import TaskIdentity
from millstream.tables.connections import close_idle_links
from millstream.tables.readers import pull
from tests.kits.cluster import Cluster
from tests.kits.spark.deaths import ClusterStreams, exactly_once

COUNT = 1000

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300), pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def streams(cluster: Cluster) -> Iterator[ClusterStreams]:
    streams = ClusterStreams(cluster)
    yield streams
    close_idle_links()
    streams.heal()
    for name in ("IN", "OUT"):
        streams.api(f"STREAM.DELETE.{name}")
    streams.close()


def test_a_range_is_read_once_whatever_happens_to_its_leader(
    cluster: Cluster, streams: ClusterStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.fill(COUNT)
    options = {
        "nats.servers": ",".join(cluster.urls),
        "subscribe": "IN",
        "startingoffsets": "earliest",
        "fetch.batch": "50",
        "fetch.numRetries": "30",  # until there is a new leader
        "transport": "pull",
    }
    reader = StreamReader(SourceOptions.parse(options, Use.STREAM), default_schema())
    ask = pull.PullReader._ask
    killed: list[int] = []

    def mortal_ask(self: pull.PullReader) -> None:
        if self._received >= COUNT // 2 and not killed:
            killed.append(self._received)
            streams.kill_leader("IN")
        ask(self)

    monkeypatch.setattr(pull.PullReader, "_ask", mortal_ask)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    found = [
        row["seq"]
        for part in reader.partitions({}, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    reader.stop()
    assert killed
    assert killed[0] < COUNT
    assert found == list(range(1, COUNT + 1))


@pytest.mark.parametrize("guarantee", [pytest.param("dedupe", marks=pytest.mark.soak), "fenced"])
def test_rows_are_written_once_whatever_happens_to_the_leader(
    cluster: Cluster, streams: ClusterStreams, guarantee: str
) -> None:
    options = {"nats.servers": ",".join(cluster.urls), "subject": "OUT.rows", "deliveryguarantee": guarantee}
    if guarantee == "fenced":
        options["fencesubject"] = "OUT.fence"
    schema = StructType().add("data", "string")

    def rows() -> Iterator[Any]:
        for first in range(1, COUNT + 1, 50):
            if first == COUNT // 2 + 1:
                streams.kill_leader("OUT")
            yield pa.RecordBatch.from_pydict({"data": [str(number) for number in range(first, first + 50)]})

    writer = stream_writer(SinkOptions.parse(options), schema, overwrite=False)
    report = writer._task.run(rows(), TaskIdentity("query", 0, 0))
    assert report.rows == COUNT
    again = stream_writer(SinkOptions.parse(options), schema, overwrite=False)
    streams.heal()
    quiet = (
        pa.RecordBatch.from_pydict({"data": [str(number)]}) for number in range(1, COUNT + 1)
    )  # the same rows in other batches
    again._task.run(quiet, TaskIdentity("query", 0, 0, attempt=1))
    assert streams.copies() == exactly_once(COUNT)
