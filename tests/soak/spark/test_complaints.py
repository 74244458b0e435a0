"""Error messages for users of Spark name the cause.

A missing stream in a table, a purge ahead of a query and a damaged offset are in `tests/system/spark`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.deaths import Streams

LOGIN = {"nats.user": "ann", "nats.password": "right"}

pytestmark = [pytest.mark.timeout(600), pytest.mark.soak]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    config = "authorization { user: ann, password: right }"
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, config=config) as server:
        yield server


@pytest.fixture
def streams(server: ServerProcess) -> Iterator[Streams]:
    streams = Streams(server.client_url.replace("//", "//ann:right@"))
    streams.fill(10)
    yield streams
    for name in ("IN", "OUT"):
        streams.api(f"STREAM.DELETE.{name}")
    streams.close()


def run_query(spark: Any, server: ServerProcess, folder: Path, **options: str) -> None:
    """One run of a query from IN to OUT."""
    connection = {"nats.servers": server.client_url, **LOGIN}
    given = {name.replace("__", "."): value for name, value in options.items()}
    rows = spark.readStream.format("jetstream").options(
        **(connection | {"subscribe": "IN", "startingOffsets": "earliest"} | given)
    )
    query = (
        rows.load().selectExpr("'OUT.x' subject", "data").writeStream.format("jetstream")
        .options(**connection)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination()


def test_a_query_tells_what_it_can_not_have(
    spark: Any, server: ServerProcess, streams: Streams, tmp_path: Path
) -> None:
    with pytest.raises(StreamingQueryException) as refused:
        run_query(spark, server, tmp_path / "1", nats__password="wrong")
    address = server.client_url.removeprefix("nats://")
    assert f"NotAllowed: {address} refused the credentials" in str(refused.value)
    assert "wrong" not in str(refused.value)
    with pytest.raises(StreamingQueryException) as missing:
        run_query(spark, server, tmp_path / "2", subscribe="NOPE")
    assert f"StreamMissing: there is no stream NOPE on {server.client_url}" in str(missing.value)
    with pytest.raises(StreamingQueryException) as away:
        run_query(spark, server, tmp_path / "3", nats__servers="nats://127.0.0.1:1", fetchTimeout="1s")
    assert "SourceUnavailable: cannot connect to 127.0.0.1:1" in str(away.value)
    rows = spark.range(1).selectExpr("'OUT.x' subject", "'x' data")
    with pytest.raises(PySparkException, match=f"NotAllowed: {address} refused the credentials"):
        rows.write.format("jetstream").options(
            **{"nats.servers": server.client_url, "nats.user": "ann", "nats.password": "wrong"}
        ).mode("append").save()


def damage(file: Path, text: str) -> None:
    """Change a file of a checkpoint, with the checksum that Hadoop would have noticed it by."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(text)


def test_a_damaged_checkpoint_is_told_with_its_file(
    spark: Any, server: ServerProcess, streams: Streams, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    run_query(spark, server, folder)
    for name, text, told in (
        ("offsets/0", "", "offsets/0. Incomplete log file"),
        ("offsets/0", "v1\n{}\n[1]", "offset that the jetstream source did not write"),
        ("commits/0", "", "commits/0. Incomplete log file"),
    ):
        file = folder / name
        whole = file.read_text()
        damage(file, text)
        with pytest.raises(StreamingQueryException) as refused:
            run_query(spark, server, folder)
        assert told in str(refused.value)
        damage(file, whole)
    run_query(spark, server, folder)
    assert streams.copies().total() == 10
