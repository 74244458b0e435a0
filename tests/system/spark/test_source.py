"""The source in a real Spark: found, planned, read, streamed, restarted, and clear when it fails."""

import doctest
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from millstream.spark import source
from millstream.spark.lag import LagListener, QueryLag
from millstream.spark.schema import default_schema
from tests.kits.spark.source import STARTS, Lab, rows, run_to_end

pytestmark = [pytest.mark.timeout(300)]


def frame(spark: Any, options: dict[str, str]) -> Any:
    return spark.read.format("jetstream").options(**options)


def stream_frame(spark: Any, options: dict[str, str]) -> Any:
    return spark.readStream.format("jetstream").options(**options).option("startingOffsets", "earliest")


def run_now(query: Any) -> Any:
    return run_to_end(query.trigger(availableNow=True).start)


def test_spark_finds_the_source_by_itself_and_reads_what_we_read(spark: Any, lab: Lab) -> None:
    stream = lab.stream(allow_direct=True)
    lab.publish(stream, [b"plain", bytes(range(256))])
    lab.publish(stream, [b"headed"], "h", b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n")
    lab.fill(stream, 6_000)
    options = lab.options(stream, minPartitions="3")
    table = frame(spark, options).load()
    assert table.schema == default_schema()
    assert table.rdd.getNumPartitions() == 3
    found = [row.asDict() for row in table.orderBy("seq").collect()]
    expected = rows(options)
    for row in expected:
        row["headers"] = dict(row["headers"])
        row["time"] = row["time"].replace(tzinfo=None)
    assert len(found) == 6_003
    assert [{**row, "data": bytes(row["data"])} for row in found] == expected


def test_the_tutorial_in_the_docstring_runs(spark: Any, millstream_lab: Lab, checkpoint: str) -> None:
    for start in range(STARTS):
        result, told = run_the_tutorial(spark, millstream_lab, f"{checkpoint}{start}")
        if not (result.failed and "failed to connect back" in told):
            break
    assert result.attempted >= 8
    assert result.failed == 0, told


def run_the_tutorial(spark: Any, lab: Lab, checkpoint: str) -> tuple[doctest.TestResults, str]:
    """Run it on streams of its own; returns the counts, and what went wrong."""
    for name, subjects in (("ORDERS", ["orders.*"]), ("COPIES", ["copies.>"])):
        lab.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects})
    for subject, fruit in (("orders.new", b"apple"), ("orders.new", b"pear"), ("orders.old", b"plum")):
        lab.link.request(subject, fruit)
    names = {"spark": spark, "servers": lab.server.client_url, "checkpoint": checkpoint}
    [example] = doctest.DocTestFinder(recurse=False).find(
        source.JetStreamDataSource, "JetStreamDataSource", globs=names
    )
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    told: list[str] = []
    try:
        return doctest.DocTestRunner(optionflags=flags).run(example, out=told.append), "".join(told)
    finally:
        lab.api("STREAM.DELETE.ORDERS")
        lab.api("STREAM.DELETE.COPIES")


def test_a_schema_of_our_choice_is_read(spark: Any, millstream_lab: Lab) -> None:
    stream = millstream_lab.stream()
    millstream_lab.publish(stream, [b"x" * 1000], "a.b", {"Nats-Msg-Id": "one"})
    wanted = "size int, tokens array<string>, msg_id string, seq long"
    [row] = frame(spark, millstream_lab.options(stream)).schema(wanted).load().collect()
    assert row.asDict() == {"size": 1000, "tokens": [stream, "a", "b"], "msg_id": "one", "seq": 1}
    with pytest.raises(PySparkException, match="no column 'payload'"):
        frame(spark, millstream_lab.options(stream)).schema("payload string").load().collect()


def test_sql_reads_a_view(spark: Any, millstream_lab: Lab) -> None:
    stream = millstream_lab.stream()
    millstream_lab.fill(stream, 9)
    view = f"view_{stream}"
    spark.sql(
        f"CREATE TEMPORARY VIEW {view} USING jetstream "
        f"OPTIONS (`nats.servers` '{millstream_lab.server.client_url}', subscribe '{stream}')"
    )
    [row] = spark.sql(
        f"SELECT count(*) AS n, max(seq) AS last FROM {view} WHERE subject LIKE '%.0'"
    ).collect()
    assert (row.n, row.last) == (3, 7)


def test_filters_are_pushed_down_and_change_no_result(spark: Any, lab: Lab) -> None:
    stream = lab.stream()
    lab.fill(stream, 60)
    [tenth] = rows(lab.options(stream, startingOffsets="10", endingOffsets="11"), ("time",))
    conditions = [
        "seq > 10 AND seq <= 20",
        "seq IN (5, 7, 59)",
        f"subject = '{stream}.1'",
        f"subject IN ('{stream}.1', '{stream}.2') AND seq < 30",
        f"subject LIKE '{stream}.%' AND seq = 4",
        f"stream = '{stream}' AND seq >= 58",
        "stream = 'OTHER'",
        f"time >= timestamp '{tenth['time']:%Y-%m-%d %H:%M:%S.%f}'",
        f"time < timestamp '{tenth['time']:%Y-%m-%d %H:%M:%S.%f}'",
        "seq > 100",
        "subject IS NULL",
        "cast(data AS string) = '12' OR seq = 1",
    ]
    plain = frame(spark, lab.options(stream)).load().select("seq", "subject", "time", "stream", "data")
    pushed = frame(spark, lab.options(stream, pushDownFilters="true")).load()
    for condition in conditions:
        expected = sorted(row.seq for row in plain.where(condition).collect())
        assert sorted(row.seq for row in pushed.where(condition).collect()) == expected, condition


# -- streaming ---------------------------------------------------------------------------------------


def test_runs_of_available_now_put_each_message_into_the_table_once(
    spark: Any, lab: Lab, checkpoint: str, tmp_path: Path
) -> None:
    stream = lab.stream()
    table = str(tmp_path / "table")

    def archive(**options: str) -> Any:
        source = stream_frame(spark, lab.options(stream, **options)).load()
        writer = source.selectExpr("seq", "cast(data AS string) AS data").writeStream.format("parquet")
        return run_now(writer.option("path", table).option("checkpointLocation", checkpoint))

    lab.fill(stream, 10)
    first = archive(maxOffsetsPerTrigger="4")
    assert [progress.numInputRows for progress in first.recentProgress if progress.numInputRows] == [4, 4, 2]
    lab.fill(stream, 25)
    archive(minPartitions="2", maxRecordsPerPartition="10")
    archive()  # nothing new
    found = sorted(row.seq for row in spark.read.parquet(table).collect())
    assert found == list(range(1, 36))


def test_a_running_query_follows_and_tells_its_lag(spark: Any, lab: Lab, checkpoint: str) -> None:
    stream = lab.stream()
    lab.fill(stream, 12)
    lags: list[QueryLag] = []
    listener = LagListener(lags.append)
    spark.streams.addListener(listener)
    name = f"q_{stream}"
    source = spark.readStream.format("jetstream").options(
        **lab.options(stream, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    )
    writer = source.load().select("seq").writeStream.format("memory").queryName(name)
    checkpoints = (f"{checkpoint}{number}" for number in itertools.count())  # a memory table continues none

    def start() -> Any:
        lags.clear()
        return writer.option("checkpointLocation", next(checkpoints)).start()

    query = run_to_end(start, lambda query: query.processAllAvailable())
    try:
        batch = query.lastProgress.batchId
        lab.fill(stream, 3)
        query.processAllAvailable()
        # A trigger may come between any two of the three; one without news makes no batch.
        assert batch < query.lastProgress.batchId <= batch + 3
        assert [row.seq for row in spark.sql(f"SELECT seq FROM {name} ORDER BY seq").collect()] == list(
            range(1, 16)
        )
        assert json.loads(query.lastProgress.sources[0].endOffset)["streams"][stream]["next"] == 16
        deadline = time.monotonic() + 60
        while sum(lag.rows for lag in lags if lag.query == name) < 15 and time.monotonic() < deadline:
            time.sleep(0.1)  # Spark tells its listeners in a thread of its own
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    ours = [lag for lag in lags if lag.query == name and lag.rows]
    assert [lag.behind for lag in ours[:3]] == [{stream: 7}, {stream: 2}, {stream: 0}]


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"subscribe": "NOPE"}, "there is no stream NOPE on nats://127"),
        ({"nats.server": "x"}, "unknown option 'nats.server': did you mean 'nats.servers'"),
        ({"startingOffsets": "soon"}, "option startingOffsets is earliest, latest"),
        ({"maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger is for a streaming read"),
    ],
)
def test_errors_of_a_batch_name_their_cause(
    spark: Any, millstream_lab: Lab, change: dict[str, str], text: str
) -> None:
    stream = millstream_lab.stream()
    with pytest.raises(AnalysisException) as refused:
        frame(spark, millstream_lab.options(stream) | change).load().count()
    assert text in str(refused.value)


def test_a_purge_ends_a_query_with_the_sequences_that_are_gone(
    spark: Any, millstream_lab: Lab, checkpoint: str, tmp_path: Path
) -> None:
    stream = millstream_lab.stream()
    millstream_lab.fill(stream, 5)

    def run(**options: str) -> Any:
        source = stream_frame(spark, millstream_lab.options(stream, **options)).load().select("seq")
        writer = source.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        return run_now(writer.option("checkpointLocation", checkpoint))

    run()
    millstream_lab.fill(stream, 10)
    millstream_lab.purge(stream, 9)
    with pytest.raises(StreamingQueryException, match="messages 6 to 8 were to be read and are gone"):
        run()
    run(failOnDataLoss="false")
    found = sorted(row.seq for row in spark.read.parquet(str(tmp_path / "table")).collect())
    assert found == [1, 2, 3, 4, 5, *range(9, 16)]


def test_a_damaged_checkpoint_is_named(
    spark: Any, millstream_lab: Lab, checkpoint: str, tmp_path: Path
) -> None:
    stream = millstream_lab.stream()
    millstream_lab.fill(stream, 5)

    def run() -> Any:
        source = stream_frame(spark, millstream_lab.options(stream)).load().select("seq")
        writer = source.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        return run_now(writer.option("checkpointLocation", checkpoint))

    run()
    log = Path(checkpoint) / "offsets" / "0"
    log.with_name(".0.crc").unlink()  # or the file system finds it first
    log.write_text(log.read_text().replace('"next": 6', '"next": "six"'))
    with pytest.raises(StreamingQueryException, match="an offset that the jetstream source did not write"):
        run()


def test_a_filter_of_spark_needs_the_setting(
    spark: Any, millstream_lab: Lab, own_setting: Callable[..., None]
) -> None:
    stream = millstream_lab.stream()
    millstream_lab.fill(stream, 5)
    own_setting("spark.sql.python.filterPushdown.enabled", "false")
    assert frame(spark, millstream_lab.options(stream)).load().where("seq > 3").count() == 2
    with pytest.raises(AnalysisException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        frame(spark, millstream_lab.options(stream, pushDownFilters="true")).load().where("seq > 3").count()


@pytest.fixture
def own_setting(spark: Any) -> Any:
    """Change a setting for one test."""
    before: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        before[name] = spark.conf.get(name)
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)
