"""Progress of a query in JetStream: what is committed, and when."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millstream.tables.errors import DataLoss, OptionError
from tests.kits.spark.source import Lab, Query

MakeQuery = Callable[..., Query]


@pytest.fixture
def query(lab: Lab) -> Iterator[MakeQuery]:
    made: list[Query] = []

    def make(stream: str, **options: str) -> Query:
        made.append(Query(lab.options(stream, **({"startingOffsets": "earliest"} | options))))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def durable(lab: Lab, stream: str, name: str = "spark-q") -> dict[str, Any]:
    return lab.api(f"CONSUMER.INFO.{stream}.{name}")


def standing(lab: Lab, stream: str) -> tuple[int, int]:
    """The last sequence that the durable counts as done, and how many it has not."""
    info = durable(lab, stream)
    return info["ack_floor"]["stream_seq"], info["num_pending"]


def test_a_durable_follows_the_query_but_never_runs_ahead(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream, commitMode="consumer", durable="spark-q", maxOffsetsPerTrigger="4")
    one.plan()
    assert standing(lab, stream) == (0, 10)
    one.run()
    assert standing(lab, stream) == (0, 10)
    one.commit()  # in Spark's log now
    one.plan()
    assert standing(lab, stream) == (4, 6)
    one.run()
    one.restart()
    one.run()
    assert standing(lab, stream) == (4, 6)  # batch 1 was run twice and is not committed
    one.commit()
    one.plan()
    assert standing(lab, stream) == (8, 2)


def test_the_last_batch_of_available_now_is_told_too(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    one = query(stream, commitMode="consumer", durable="spark-q", maxOffsetsPerTrigger="6")
    assert len(one.available_now()) == 2
    assert standing(lab, stream) == (10, 0)


def test_a_durable_of_another_query_is_refused(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 4)
    mine = query(stream, commitMode="consumer", durable="spark-q")
    mine.available_now()
    other = query(stream, commitMode="consumer", durable="spark-q")
    with pytest.raises(OptionError, match=r"durable spark-q of stream .* belongs to another query"):
        other.plan()
    lab.fill(stream, 4)
    mine.restart()
    assert len(mine.available_now()) == 1  # its own, after a restart
    assert standing(lab, stream) == (8, 0)


def test_a_start_that_failed_does_not_leave_a_claim(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 4)
    one = query(stream, commitMode="consumer", durable="spark-q")
    one.plan()
    one.restart()  # nothing was committed: Spark asks for the start again
    one.planned.clear()
    assert one.batch()
    one.plan()
    assert standing(lab, stream) == (4, 0)


def test_a_consumer_that_is_not_ours_is_not_moved(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    config = {"name": "app", "durable_name": "app", "ack_policy": "explicit"}
    lab.api(f"CONSUMER.CREATE.{stream}.app", {"stream_name": stream, "config": config})
    with pytest.raises(OptionError, match="was not made by this source"):
        query(stream, commitMode="consumer", durable="app").plan()


def test_an_interest_stream_keeps_what_was_not_read_and_frees_what_was(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream(retention="interest", allow_direct=True)
    one = query(stream, commitMode="consumer", durable="spark-q", startingOffsets="latest")
    one.plan()  # from now on nothing is dropped
    lab.fill(stream, 10)
    assert lab.state(stream)["messages"] == 10
    assert len(one.batch() or []) == 10
    assert lab.state(stream)["messages"] == 10
    assert one.batch() is None
    assert lab.state(stream)["messages"] == 0
    lab.fill(stream, 3)
    assert len(one.batch() or []) == 3


def test_a_work_queue_is_drained_after_the_fact(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream(retention="workqueue", allow_direct=True)
    lab.fill(stream, 10)
    one = query(stream, commitMode="purge", maxOffsetsPerTrigger="6")
    one.plan()
    one.run()
    assert lab.state(stream)["messages"] == 10
    one.commit()
    one.plan()
    assert lab.state(stream)["messages"] == 4
    one.run()
    one.commit()
    assert not one.plan()
    assert lab.state(stream)["messages"] == 0
    lab.fill(stream, 2)
    one.restart()
    assert len(one.batch() or []) == 2


def test_only_what_the_query_reads_is_purged(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream(retention="workqueue", allow_direct=True)
    lab.fill(stream, 9)
    one = query(stream, commitMode="purge", filterSubjects=f"{stream}.0,{stream}.1")
    one.available_now()
    assert lab.state(stream)["messages"] == 3


def test_modes_that_would_do_harm_are_refused(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream(retention="workqueue", allow_direct=True)
    lab.fill(stream, 2)
    with pytest.raises(OptionError, match="commitMode=consumer leaves messages behind"):
        query(stream, commitMode="consumer", durable="d").plan()
    config = {"name": "app", "durable_name": "app", "ack_policy": "explicit"}
    lab.api(f"CONSUMER.CREATE.{stream}.app", {"stream_name": stream, "config": config})
    with pytest.raises(OptionError, match="a work queue with 1 consumers of its own"):
        query(stream, commitMode="purge").plan()
    assert query(stream, commitMode="purge", purge__force="true").available_now()
    assert lab.state(stream)["messages"] == 0


def test_a_failure_to_tell_does_not_fail_the_query_and_is_made_good(
    lab: Lab, query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    stream = lab.stream(deny_purge=True)
    lab.fill(stream, 6)
    one = query(stream, commitMode="purge", maxOffsetsPerTrigger="3")
    assert [len(rows) for rows in one.available_now()] == [3, 3]
    assert "progress to 7 could not be recorded" in caplog.text
    assert lab.state(stream)["messages"] == 6


def test_an_idle_query_does_not_tell_again_and_again_what_was_refused(
    lab: Lab, query: MakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    stream = lab.stream(deny_purge=True)
    lab.fill(stream, 3)
    one = query(stream, commitMode="purge")
    one.batch()
    for _ in range(20):
        assert not one.plan()
    assert caplog.text.count("progress to 4 could not be recorded") < 20


@pytest.mark.parametrize("on_loss", ["true", "false"])
def test_a_stream_that_was_created_again_is_not_purged_for_the_old_one(
    lab: Lab, query: MakeQuery, on_loss: str
) -> None:
    stream = lab.stream(retention="workqueue", allow_direct=True)
    lab.fill(stream, 10)
    one = query(stream, commitMode="purge")
    one.batch()
    lab.delete(stream)
    lab.create_again(stream, retention="workqueue", allow_direct=True)
    lab.fill(stream, 5)
    one.restart(failOnDataLoss=on_loss)
    if on_loss == "true":
        with pytest.raises(DataLoss, match="deleted and created again"):
            one.plan()
        assert lab.state(stream)["messages"] == 5
        return
    assert len(one.batch() or []) == 5
    assert one.batch() is None
    assert lab.state(stream)["messages"] == 0


def test_a_durable_that_was_deleted_is_made_again_where_the_query_stands(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 4)
    one = query(stream, commitMode="consumer", durable="spark-q")
    one.available_now()
    lab.api(f"CONSUMER.DELETE.{stream}.spark-q")
    lab.fill(stream, 3)
    assert len(one.available_now()) == 1
    assert durable(lab, stream)["config"]["opt_start_seq"] == 8
    assert durable(lab, stream)["num_pending"] == 0


def test_a_stream_that_a_pattern_finds_later_has_its_durable_before_it_is_read(
    lab: Lab, query: MakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.spark.catalog._PATTERN_AGE_S", 0.0)
    first = lab.stream(retention="interest", allow_direct=True)
    second = f"{first}x"
    one = query(first, commitMode="consumer", durable="spark-q")
    del one.options["subscribe"]
    one.restart(subscribePattern=f"{first}x?")
    one.plan()
    lab.create_again(second, retention="interest", allow_direct=True)
    one.plan()
    lab.fill(second, 3)  # which an interest stream without consumers would drop
    assert len(one.batch() or []) == 3


def test_nothing_is_told_by_default(lab: Lab, query: MakeQuery) -> None:
    stream = lab.stream()
    lab.fill(stream, 6)
    one = query(stream)
    one.available_now()
    assert (lab.state(stream)["messages"], lab.consumers(stream)) == (6, [])
    assert "query" not in json.loads(one.planned[-1])
