"""Streaming reads as Spark drives them: offsets, limits, restarts and loss, on both servers."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.spark.errors import CheckpointError
from millstream.tables.errors import DataLoss, OptionError, StreamMissing
from tests.kits.reference import ServerProcess
from tests.kits.spark.source import Lab, Query, Row

MakeQuery = Callable[..., Query]


@pytest.fixture
def query(lab: Lab) -> Iterator[MakeQuery]:
    """`query(stream, option=…)` from the earliest message on; stopped when the test ends."""
    made: list[Query] = []

    def make(stream: str | None, **options: str) -> Query:
        made.append(Query(lab.options(stream, **({"startingOffsets": "earliest"} | options))))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def numbers(rows: list[Row] | None) -> list[int]:
    assert rows is not None
    return [int(row["data"]) for row in rows]


def test_batches_follow_each_other_without_gap_or_double(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream)
    assert numbers(one.batch()) == list(range(10))
    assert one.batch() is None
    lab.fill(stream, 5)
    assert numbers(one.batch()) == list(range(5))
    assert one.batch() is None


def test_an_idle_query_plans_no_batch_over_a_hundred_triggers(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 3)
    one = query(stream)
    one.batch()
    assert [one.plan() for _ in range(100)] == [False] * 100


def test_a_batch_that_is_replayed_is_the_same_whatever_changed(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 50)
    one = query(stream, maxRecordsPerPartition="20")
    one.plan()
    first = one.run()
    lab.fill(stream, 50)
    one.restart(maxRecordsPerPartition="7", startingOffsets="latest", maxOffsetsPerTrigger="3")
    assert one.run() == first
    assert len(first) == 50
    one.commit()
    assert len(one.batch() or []) == 3


def test_latest_under_traffic_loses_and_doubles_nothing(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream, startingOffsets="latest")
    assert not one.plan()  # the first answer of initialOffset counts
    lab.publish(stream, ["100", "101"])
    assert one.plan()
    lab.publish(stream, ["102"])
    assert numbers(one.run()) == [100, 101]
    one.restart()  # before batch 0 is committed: latest is another one now, Spark asks for it again
    lab.publish(stream, ["103"])
    assert numbers(one.run()) == [100, 101]
    one.commit()
    assert numbers(one.batch()) == [102, 103]


def test_the_start_is_the_same_object_within_a_process(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    one = query(stream, startingOffsets="latest")
    before = one.driver.initialOffset()
    lab.fill(stream, 5)
    assert one.driver.initialOffset() is before
    end = one.driver.latestOffset(json.loads(json.dumps(before)), ReadAllAvailable())
    given = json.loads(json.dumps(end))
    assert one.driver.latestOffset(given, ReadAllAvailable()) is given


# -- limits ------------------------------------------------------------------------------------------


def test_available_now_takes_what_is_there_in_batches_and_ends(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream, maxOffsetsPerTrigger="4")
    one.driver.prepareForTriggerAvailableNow()
    lab.fill(stream, 7)
    batches = [len(rows) for rows in iter(one.batch, None)]
    assert batches == [4, 4, 2]
    one.restart()
    assert [len(rows) for rows in one.available_now()] == [4, 3]
    one.restart()
    assert one.available_now() == []


def test_one_batch_takes_all_when_spark_wants_it_so(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream, maxOffsetsPerTrigger="4")
    assert one.plan(ReadAllAvailable())
    assert len(one.run()) == 10


def test_bytes_limit_a_batch(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 20, size=1000)
    one = query(stream, maxBytesPerTrigger="5500")
    sizes = [len(rows) for rows in one.available_now()]
    assert sum(sizes) == 20
    assert all(3 <= size <= 5 for size in sizes[:-1])


def test_a_minimum_holds_messages_back_until_its_delay_is_over(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    one = query(stream, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    lab.fill(stream, 9)
    assert not one.plan()
    lab.fill(stream, 1)
    assert len(one.batch() or []) == 10
    lab.fill(stream, 2)
    assert one.batch() is None
    one.restart(maxTriggerDelay="1ms")
    one.plan()
    while not one.planned[one.committed :]:
        one.plan()
    assert len(one.run()) == 2
    one.commit()
    lab.fill(stream, 3)
    one.restart(maxTriggerDelay="1h")
    assert [len(rows) for rows in one.available_now()] == [3]  # there will be no more


def test_streams_share_a_limit(lab: Lab, query: MakeQuery) -> None:
    large, small = lab.stream(), lab.stream()
    lab.fill(large, 30)
    lab.fill(small, 10)
    one = query(f"{large},{small}", maxOffsetsPerTrigger="20")
    assert one.plan()
    streams = json.loads(one.planned[0])["streams"]
    assert (streams[large]["next"], streams[small]["next"]) == (16, 6)


def test_holes_cost_no_batches(lab: Lab, query: MakeQuery, caplog: pytest.LogCaptureFixture) -> None:
    stream = lab.stream(max_msgs_per_subject=1)
    lab.publish(stream, ["1"], "a")
    lab.publish(stream, [str(number) for number in range(2, 100)], "b")  # each replaces the one before
    one = query(stream, maxOffsetsPerTrigger="10")
    assert [numbers(rows) for rows in one.available_now()] == [[1], [99]]
    assert f"stream {stream} has 2 messages in 99 sequences" in caplog.text


# -- streams that come and go ------------------------------------------------------------------------


def test_a_new_stream_of_a_pattern_is_read_from_its_first_message(lab: Lab, query: MakeQuery) -> None:
    known = lab.stream()
    one = query(None, subscribePattern=f"{known}|{known}-more", startingOffsets="latest")
    assert one.batch() is None
    lab.create_again(f"{known}-more")
    lab.fill(f"{known}-more", 4)
    while not one.plan():  # the list of streams may be a second old
        pass
    assert numbers(one.run()) == [0, 1, 2, 3]


def test_a_purge_ahead_of_the_query_is_loss(
    lab: Lab, query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    stream = lab.stream()
    lab.fill(stream, 5)
    one = query(stream)
    one.batch()
    lab.fill(stream, 10)
    lab.purge(stream, 11)
    with pytest.raises(DataLoss, match=rf"stream {stream}: messages 6 to 10 were to be read and are gone"):
        one.plan()
    one.restart(failOnDataLoss="false")
    assert [row["seq"] for row in one.batch() or []] == [11, 12, 13, 14, 15]
    assert "messages 6 to 10 were to be read and are gone" in caplog.text


def test_a_stream_that_was_created_again_is_another_one(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 5)
    one = query(stream)
    one.batch()
    lab.delete(stream)
    lab.create_again(stream)
    lab.fill(stream, 8)  # more than the old one had
    with pytest.raises(DataLoss, match="it was deleted and created again"):
        one.plan()
    one.restart(failOnDataLoss="false")
    assert numbers(one.batch()) == list(range(8))
    assert one.batch() is None


def test_a_stream_that_is_gone_is_named(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 5)
    one = query(stream)
    one.batch()
    lab.delete(stream)
    with pytest.raises(StreamMissing, match=f"there is no stream {stream}"):
        one.plan()


def test_a_damaged_checkpoint_is_named(lab: Lab, query: MakeQuery) -> None:
    one = query(lab.stream())
    with pytest.raises(CheckpointError, match="did not write"):
        one.driver.latestOffset({"ORDERS": 5}, ReadAllAvailable())


def test_a_server_that_goes_away_for_a_while_is_waited_for(
    own_server: Callable[..., ServerProcess], tmp_path: Any
) -> None:
    server = own_server(jetstream=True, store_dir=tmp_path)
    lab = Lab(server)
    stream = lab.stream()
    lab.fill(stream, 5)
    port = server.port
    one = Query(lab.options(stream, startingOffsets="earliest"))
    one.batch()
    lab.link.close()
    server.stop()
    again = own_server(jetstream=True, store_dir=tmp_path, port=port)
    lab.link.reconnect(20)
    lab.fill(stream, 3)
    assert numbers(one.batch()) == [0, 1, 2]
    one.stop()
    lab.close()
    assert again.running


def test_progress_says_where_the_streams_end(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream, maxOffsetsPerTrigger="4")
    assert one.driver.reportLatestOffset() is None
    one.plan()
    latest = one.driver.reportLatestOffset()
    assert latest is not None
    assert latest["streams"][stream]["next"] == 11


def test_interest_streams_need_a_consumer_of_their_own(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream(retention="interest")
    with pytest.raises(OptionError, match="commitMode=consumer the query would miss some"):
        query(stream).plan()


# -- advisories --------------------------------------------------------------------------------------


def test_reading_advisories_does_not_feed_them(own_server: Callable[..., ServerProcess]) -> None:
    lab = Lab(own_server(jetstream=True))
    lab.api(
        "STREAM.CREATE.ADVISORIES",
        {"name": "ADVISORIES", "subjects": ["$JS.EVENT.ADVISORY.>"], "allow_direct": True},
    )
    one = Query(lab.options("ADVISORIES", startingOffsets="earliest", transport="direct"), ("subject",))
    lab.stream()
    quiet = 0  # batches in a row: nats-server stores an advisory a moment after what it tells
    for _ in range(300):
        quiet = quiet + 1 if one.batch() is None else 0
        if quiet == 20:
            break
        time.sleep(0.01)
    else:
        pytest.fail("each batch brought a new message")
    before = one.start
    lab.stream()  # which is told in an advisory
    deadline = time.monotonic() + 60
    while not one.batch():
        assert time.monotonic() < deadline, "nothing was told"
        time.sleep(0.01)
    assert one.start != before
    one.stop()
    lab.close()
