"""Progress: what Spark and jobs tell becomes rows, rate and lag, and lines or a table of them."""

import io
import json
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from millstream.spark.jobs.context import Report, explain
from millstream.spark.pipeline.progress import JobProgress, ProgressBoard, State
from millstream.spark.pipeline.view import LineView, plain_line, progress_table


def offset(following: int) -> str:
    position = {"from": 1, "id": "i", "next": following, "parts": 1}
    return json.dumps({"streams": {"ORDERS": position}, "v": 1})


def batch(rows: int, end: int, latest: int, name: str = "one") -> Any:
    source = SimpleNamespace(endOffset=offset(end), latestOffset=offset(latest))
    return SimpleNamespace(
        sources=[source], numInputRows=rows, batchDuration=1000, name=name, id="q", batchId=0
    )


def test_batches_add_up_and_lag_is_what_the_stream_has_beyond_them() -> None:
    board = ProgressBoard()
    board.add("one", "archive")
    board.add_batch("one", "one", batch(100, 101, 301))
    board.add_batch("one", "one", batch(100, 201, 301))
    [job] = board.jobs()
    assert (job.rows, job.batches, job.rate, job.lag) == (200, 2, 100.0, {"ORDERS": 100})


def test_queries_that_read_the_same_messages_count_them_once() -> None:
    board = ProgressBoard()
    board.add("one", "analytics")
    board.add_batch("one", "one/latency", batch(100, 101, 151))
    board.add_batch("one", "one/poison", batch(100, 51, 151))
    [job] = board.jobs()
    assert (job.rows, job.lag) == (100, {"ORDERS": 100})


def test_changes_are_told() -> None:
    seen: list[JobProgress] = []
    board = ProgressBoard(seen.append)
    board.add("one", "replay")
    board.set_state("one", State.RUNNING)
    board.report(Report("one", 10, "half"))
    board.set_state("one", State.DONE)
    assert [(one.state, one.rows, one.text) for one in seen] == [
        (State.RUNNING, 0, ""),
        (State.RUNNING, 10, "half"),
        (State.DONE, 10, "half"),
    ]


def test_lines_are_not_more_often_than_the_interval_except_for_a_new_state() -> None:
    output, now = io.StringIO(), [100.0]
    view = LineView(output, 10, clock=lambda: now[0])
    running = JobProgress("one", "archive", State.RUNNING, rows=5, batches=1, rate=5, lag={"A": 3})
    view.changed(running)
    now[0] = 105
    view.changed(running)
    view.changed(JobProgress("one", "archive", State.DONE, rows=8, batches=2, text="8 rows"))
    assert output.getvalue().splitlines() == [
        "one (archive): running, 5 rows, 5 rows/s, lag 3",
        "one (archive): done, 8 rows, 8 rows",
    ]


def test_json_lines_have_all_of_it() -> None:
    output = io.StringIO()
    LineView(output, 10, as_json=True).changed(
        JobProgress("one", "archive", State.RUNNING, rows=5, rate=2.04)
    )
    assert json.loads(output.getvalue()) == {
        "job": "one", "kind": "archive", "state": "running", "rows": 5, "batches": 0, "rate": 2.0, "lag": {},
        "text": "",
    }  # fmt: skip


def test_the_table_shows_every_job() -> None:
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(
        progress_table(
            [
                JobProgress("one", "archive", State.RUNNING, rows=12345, batches=3, rate=99.6, lag={"A": 7}),
                JobProgress("two", "verify", State.FAILED, text="differs\nmore"),
            ]
        )
    )
    first, second = console.export_text().splitlines()[1:3]
    assert first.split() == ["one", "archive", "running", "12,345", "100", "7", "3"]
    assert second.split() == ["two", "verify", "failed", "0", "differs"]


def test_a_waiting_job_is_a_short_line() -> None:
    assert plain_line(JobProgress("one", "verify")) == "one (verify): waiting"


def test_the_cause_is_found_in_the_text_that_spark_wraps_around_it() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Error\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "millstream.tables.errors.StreamMissing: there is no stream ORDERS on 127.0.0.1\n\n"
        "\tat org.apache.spark"
    )
    assert explain(RuntimeError(text)) == "there is no stream ORDERS on 127.0.0.1"
    assert explain(RuntimeError("first\nsecond")) == "first"


def test_an_error_of_a_function_of_the_user_is_found_too() -> None:
    text = "[PYTHON_EXCEPTION] It failed:\nTraceback (most recent call last):\n  File\nValueError: odd\n"
    assert explain(RuntimeError(text)) == "ValueError: odd"
