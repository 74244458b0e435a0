"""Record batches into a stream on both servers, without Spark: each guarantee, every way a row can fail."""

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, parse_servers
from millstream.spark.errors import SparkError
from millstream.spark.options import SinkOptions
from millstream.spark.sink import BatchWriter, StreamWriter, TaskReport, batch_writer, stream_writer
from millstream.spark.writing import checks
from millstream.spark.writing.bad_rows import BadRow
from millstream.spark.writing.identity import TaskIdentity
from millstream.spark.writing.plain import PlainWriter
from millstream.tables.connections import close_idle_links
from millstream.tables.errors import NotAllowed, OptionError, SourceUnavailable, StreamMissing
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

ServerFactory = Callable[..., ServerProcess]
Batches = list[pa.RecordBatch]

TABLE = StructType().add("subject", "string").add("data", "binary")
FENCE: dict[str, Any] = {"delivery_guarantee": "fenced", "fence_subject": "rows.fence"}


@pytest.fixture(autouse=True)
def _no_links_left() -> Iterator[None]:
    yield
    close_idle_links()


class Lab:
    """A server with a stream ROWS on rows.>, and a DEAD one."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        options = LinkOptions(
            servers=parse_servers(server.client_url),
            connect_timeout_s=PATIENCE_S,
            request_timeout_s=PATIENCE_S,
        )
        self.link = BlockingLink(options)
        self.link.connect()
        self.make("ROWS", ["rows.>"], allow_atomic=True)
        self.make("DEAD", ["dead.*"])

    def make(self, name: str, subjects: list[str], **fields: Any) -> None:
        self.link.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, **fields})

    def options(self, **fields: Any) -> SinkOptions:
        return SinkOptions(LinkOptions(servers=parse_servers(self.server.client_url)), **fields)

    def writer(self, schema: StructType = TABLE, overwrite: bool = False, **fields: Any) -> BatchWriter:
        return batch_writer(self.options(**fields), schema, overwrite)

    def write(
        self, rows: Batches, schema: StructType = TABLE, identity: TaskIdentity | None = None, **fields: Any
    ) -> TaskReport:
        writer = self.writer(schema, **fields)
        return run(writer, rows, identity or TaskIdentity("q", 0, 0))

    def state(self, stream: str = "ROWS") -> dict[str, Any]:
        state: dict[str, Any] = self.link.api(f"STREAM.INFO.{stream}")["state"]
        return state

    def messages(self, stream: str = "ROWS") -> list[tuple[str, dict[str, str], bytes]]:
        """Subject, headers and payload of all there is."""
        inbox = f"{self.link.inbox}.read.{stream}"
        sid = self.link.subscribe(inbox)
        config = {"deliver_subject": inbox, "ack_policy": "none", "deliver_policy": "all"}
        count = self.state(stream)["messages"]
        self.link.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        found = []
        for _ in range(count):
            message = self.link.next_message(30)
            assert message is not None
            found.append((message.subject, message.headers, message.payload))
        self.link.unsubscribe(sid)
        return found

    def payloads(self) -> list[bytes]:
        return [payload for subject, _, payload in self.messages() if not subject.startswith("rows.fence")]

    def close(self) -> None:
        self.link.close()


@pytest.fixture
def lab(shared_server: ServerFactory) -> Iterator[Lab]:
    lab = Lab(shared_server(jetstream=True))
    yield lab
    for name in lab.link.api("STREAM.NAMES").get("streams") or []:
        lab.link.api(f"STREAM.DELETE.{name}")
    lab.close()


@pytest.fixture
def own_lab(own_server: ServerFactory) -> Iterator[Lab]:
    """Yield a lab with a server of its own, which the test kills."""
    lab = Lab(own_server(jetstream=True))
    yield lab
    lab.close()


def run(writer: BatchWriter | StreamWriter, rows: Batches, identity: TaskIdentity) -> TaskReport:
    return writer._task.run(iter(rows), identity)


def numbered(count: int, size: int = 10_000) -> Batches:
    """Rows 0 … count-1, in record batches of `size`."""
    return [
        pa.RecordBatch.from_arrays(
            [
                pa.array([f"rows.{row % 5}" for row in range(start, min(start + size, count))]),
                pa.array([b"%d" % row for row in range(start, min(start + size, count))]),
            ],
            ["subject", "data"],
        )
        for start in range(0, count, size)
    ]


def one_batch(*rows: tuple[str | None, bytes]) -> Batches:
    subjects, payloads = zip(*rows, strict=True)
    arrays = [pa.array(subjects, pa.string()), pa.array(payloads, pa.binary())]
    return [pa.RecordBatch.from_arrays(arrays, ["subject", "data"])]


# -- what arrives -------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["at-least-once", "dedupe", "fenced"])
@pytest.mark.parametrize("size", [7, 1000, 10_000])
def test_all_rows_arrive_in_order(lab: Lab, guarantee: str, size: int) -> None:
    fields = FENCE if guarantee == "fenced" else {"delivery_guarantee": guarantee}
    report = lab.write(numbered(2500, size), **fields, publish_window=100)
    assert report == TaskReport(partition=0, rows=2500, duplicates=0, dropped=0, dead=0)
    state = lab.state()
    assert state["messages"] == 2500 + (3 if guarantee == "fenced" else 0)
    first = lab.link.api("STREAM.MSG.GET.ROWS", {"seq": 1})["message"]
    assert (first["subject"], base64.b64decode(first["data"])) == ("rows.0", b"0")
    last = lab.link.api("STREAM.MSG.GET.ROWS", {"last_by_subj": "rows.4"})["message"]
    assert base64.b64decode(last["data"]) == b"2499"


@pytest.mark.parametrize("guarantee", ["at-least-once", "dedupe", "fenced"])
def test_no_rows_are_nothing(lab: Lab, guarantee: str) -> None:
    fields = FENCE if guarantee == "fenced" else {"delivery_guarantee": guarantee}
    assert lab.write([], **fields).rows == 0
    assert lab.write([numbered(5)[0].slice(0, 0)], **fields).rows == 0
    assert lab.state()["messages"] == 0


def test_ids_are_those_of_query_batch_partition_and_row(lab: Lab) -> None:
    lab.write(numbered(4, size=2), identity=TaskIdentity("query", 3, 1))
    assert [headers["Nats-Msg-Id"] for _, headers, _ in lab.messages()] == [
        f"query:3:1:{row}" for row in range(4)
    ]


def test_a_second_attempt_adds_nothing_with_ids_and_everything_without(lab: Lab) -> None:
    for guarantee, expected in (("dedupe", 3000), ("at-least-once", 6000)):
        rows = numbered(3000)
        writer = lab.writer(delivery_guarantee=guarantee)
        for attempt in range(2):
            report = run(writer, rows, TaskIdentity("q", 0, 0, attempt))
            assert report.rows == 3000
        assert report.duplicates == (3000 if guarantee == "dedupe" else 0)
        assert lab.state()["messages"] == expected
        lab.link.api("STREAM.PURGE.ROWS")


def test_attempts_at_the_same_time_write_each_row_once(lab: Lab) -> None:
    rows = numbered(5000)
    writer = lab.writer(publish_window=500)

    def attempt(number: int) -> None:
        run(writer, rows, TaskIdentity("q", 0, 0, number))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lab.state()["messages"] == 5000


def test_columns_become_headers(lab: Lab) -> None:
    lab.make("TTL", ["ttl"], allow_msg_ttl=True)
    schema = StructType().add("data", "string").add("ttl", "string").add("msg_id", "string")
    arrays = [pa.array(["x"]), pa.array(["1h"]), pa.array(["mine"])]
    rows = [pa.RecordBatch.from_arrays(arrays, ["data", "ttl", "msg_id"])]
    lab.write(rows, schema, subject="ttl", stream="TTL")
    assert lab.messages("TTL") == [
        ("ttl", {"Nats-Expected-Stream": "TTL", "Nats-Msg-Id": "mine", "Nats-TTL": "1h"}, b"x")
    ]


# -- rows that can not be written ---------------------------------------------------------------------

BAD = [("rows.a", b"first"), ("bad subject", b"second"), ("rows.b", b"third"), (None, b"fourth")]


@pytest.mark.parametrize("fields", [{}, FENCE], ids=["dedupe", "fenced"])
def test_a_bad_row_fails_the_task_with_its_place_and_reason(lab: Lab, fields: dict[str, Any]) -> None:
    with pytest.raises(BadRow, match=r"row 1 of partition 4 of batch 9 \(subject 'bad subject'\)"):
        lab.write(one_batch(*BAD), identity=TaskIdentity("q", 9, 4), **fields)


@pytest.mark.parametrize("fields", [{}, FENCE], ids=["dedupe", "fenced"])
def test_bad_rows_can_be_dropped(lab: Lab, fields: dict[str, Any]) -> None:
    report = lab.write(one_batch(*BAD), on_bad_row="drop", **fields)
    assert report == TaskReport(partition=0, rows=2, duplicates=0, dropped=2, dead=0)
    assert lab.payloads() == [b"first", b"third"]


@pytest.mark.parametrize("fields", [{}, FENCE], ids=["dedupe", "fenced"])
def test_bad_rows_can_be_put_aside_once(lab: Lab, fields: dict[str, Any]) -> None:
    for _ in range(2):
        report = lab.write(one_batch(*BAD), on_bad_row="deadLetter", dead_letter_stream="DEAD", **fields)
        assert (report.dropped, report.dead) == (0, 2)
    dead = lab.messages("DEAD")
    assert [(subject, payload) for subject, _, payload in dead] == [
        ("dead.sink", b"second"),
        ("dead.sink", b"fourth"),
    ]
    assert dead[0][1] == {
        "Nats-Msg-Id": "dlq:q:0:0:1",
        "Millstream-Reason": "'bad subject' is no subject to publish to",
        "Millstream-Orig-Subject": "bad subject",
        "Millstream-Orig-Row": "q:0:0:1",
    }
    assert lab.payloads() == [b"first", b"third"]


def test_a_row_larger_than_the_server_takes_says_so_and_its_letter_has_the_size(lab: Lab) -> None:
    large = b"x" * (1024 * 1024 + 1)
    with pytest.raises(
        BadRow, match=r"row 0 of partition 0 .*it has 10486\d\d bytes.*the server takes 1048576"
    ):
        lab.write(one_batch(("rows.a", large)))
    lab.write(one_batch(("rows.a", large)), on_bad_row="deadLetter", dead_letter_stream="DEAD")
    [(_, headers, payload)] = lab.messages("DEAD")
    assert payload == b""
    assert headers["Millstream-Orig-Size"] == str(len(large))


def test_what_the_stream_refuses_of_a_row_is_a_bad_row(lab: Lab) -> None:
    lab.make("SMALL", ["small.>"], max_msg_size=100)
    rows = one_batch(("small.a", b"x"), ("small.a", b"x" * 200), ("small.a", b"y"))
    with pytest.raises(BadRow, match=r"row 1 .*message size exceeds maximum"):
        lab.write(rows)
    report = lab.write(rows, on_bad_row="drop")
    assert (report.rows, report.dropped) == (2, 1)


def test_a_subject_that_no_stream_takes_is_a_bad_row(lab: Lab) -> None:
    rows = one_batch(("rows.a", b"x"), ("nobody.takes.this", b"y"))
    with pytest.raises(BadRow, match=r"row 1 .*'nobody\.takes\.this'.*no stream takes this subject"):
        lab.write(rows)
    assert lab.write(rows, on_bad_row="drop").dropped == 1


def test_another_stream_than_the_one_named_fails_the_task(lab: Lab) -> None:
    lab.make("OTHER", ["other.>"])
    with pytest.raises(SparkError, match=r"row 1 of partition 0 of batch 0 was refused: .*stream"):
        lab.write(one_batch(("rows.a", b"x"), ("other.a", b"y")), stream="ROWS")


def test_a_full_stream_fails_the_task_after_its_patience(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = PlainWriter.__init__

    def impatient(self: PlainWriter, *given: Any, **named: Any) -> None:
        """Only its patience is short: each answer may take its time."""
        made(self, *given, **named)
        assert self._patience_s == 2 * named["timeout_s"]
        self._patience_s = 0.4

    monkeypatch.setattr(PlainWriter, "__init__", impatient)
    lab.make("FULL", ["full.>"], max_msgs=10, discard="new")
    rows = one_batch(*[("full.a", b"%d" % row) for row in range(20)])
    with pytest.raises(SparkError, match=r"within 0\.4 s of trouble: .*maximum messages exceeded"):
        lab.write(rows, on_bad_row="drop")
    assert lab.state("FULL")["messages"] == 10


# -- fenced -------------------------------------------------------------------------------------------


def test_markers_say_how_far_a_partition_is(lab: Lab) -> None:
    lab.write(numbered(2000), identity=TaskIdentity("q", 7, 3), **FENCE)
    message = lab.link.api("STREAM.MSG.GET.ROWS", {"last_by_subj": "rows.fence.q.3"})["message"]
    assert json.loads(base64.b64decode(message["data"])) == {"batch": 7, "chunk": 2}
    assert lab.state()["num_subjects"] == 6
    assert lab.state()["messages"] == 2003


def test_fenced_attempts_one_after_the_other_write_once_whatever_the_record_batches(lab: Lab) -> None:
    for attempt, size in enumerate((10_000, 700, 1)):
        report = lab.write(numbered(2500, size), identity=TaskIdentity("q", 1, 0, attempt), **FENCE)
        assert (report.rows, report.duplicates) == ((2500, 0) if attempt == 0 else (0, 2500))
    assert lab.state()["messages"] == 2503
    assert sorted(map(int, lab.payloads())) == list(range(2500))


def test_an_attempt_that_was_cut_short_is_finished_by_the_next(lab: Lab) -> None:
    def cut_short() -> Iterator[pa.RecordBatch]:
        yield from numbered(2500, 100)
        raise RuntimeError("the task is killed here")

    writer = lab.writer(**FENCE)
    with pytest.raises(RuntimeError, match="killed"):
        writer._task.run(cut_short(), TaskIdentity("q", 0, 0))
    deadline = time.monotonic() + 60
    while lab.state()["messages"] not in (
        1000,
        2000,
    ):  # of the second chunk nobody knows; it may be under way
        assert time.monotonic() < deadline
        time.sleep(0.05)
    report = run(writer, numbered(4500, 100), TaskIdentity("q", 0, 0, 1))
    assert report.rows + report.duplicates == 4500
    assert report.duplicates in (999, 1998)
    assert sorted(map(int, lab.payloads())) == list(range(4500))


def test_zombies_of_the_same_partition_and_of_an_older_batch_write_nothing_twice(lab: Lab) -> None:
    writer = lab.writer(**FENCE)
    start = threading.Barrier(3)
    reports = []

    def attempt(number: int) -> None:
        start.wait()
        reports.append(run(writer, numbered(6000, 500), TaskIdentity("q", 5, 0, number)))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(report.rows for report in reports) == 6000
    assert lab.state()["messages"] == 6000 + 7
    zombie = run(writer, numbered(100), TaskIdentity("q", 4, 0))
    assert (zombie.rows, zombie.duplicates) == (0, 100)
    later = run(writer, numbered(100), TaskIdentity("q", 6, 0))
    assert (later.rows, later.duplicates) == (100, 0)


def test_partitions_and_queries_have_their_own_markers(lab: Lab) -> None:
    for query, partition in (("q", 0), ("q", 1), ("p", 0)):
        assert lab.write(numbered(10), identity=TaskIdentity(query, 0, partition), **FENCE).rows == 10
    assert lab.state()["messages"] == 33


def test_something_else_where_markers_belong_is_told(lab: Lab) -> None:
    lab.link.request("rows.fence.q.0", b"not a marker")
    with pytest.raises(SparkError, match=r"rows\.fence\.q\.0 is no marker.*another fenceSubject"):
        lab.write(numbered(10), **FENCE)


def test_markers_expire_where_the_stream_lets_them(lab: Lab) -> None:
    lab.make("TTL", ["ttl.>"], allow_msg_ttl=True, allow_atomic=True)
    lab.write(one_batch(("ttl.a", b"x")), delivery_guarantee="fenced", fence_subject="ttl.fence")
    assert lab.messages("TTL")[1][1]["Nats-TTL"] == "720h"


def test_large_rows_make_smaller_chunks(lab: Lab) -> None:
    rows = one_batch(*[("rows.a", b"x" * 900_000)] * 20)
    assert lab.write(rows, **FENCE).rows == 20
    assert lab.state()["messages"] == 20 + 2


# -- a server that goes away --------------------------------------------------------------------------


@contextmanager
def killed_after(lab: Lab, rows: Batches, count: int) -> Iterator[Iterator[pa.RecordBatch]]:
    """`rows`, and the server is killed before batch `count` is handed out, and comes back."""
    back = threading.Thread(target=lab.server.start)

    def handed_out() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(rows):
            if number == count:
                lab.server.kill()
                back.start()
            yield batch

    yield handed_out()
    back.join()
    lab.link.reconnect(within_s=30)


@pytest.mark.parametrize("fields", [{}, FENCE], ids=["dedupe", "fenced"])
def test_a_server_that_dies_and_comes_back_has_every_row_once(own_lab: Lab, fields: dict[str, Any]) -> None:
    writer = own_lab.writer(**fields, publish_window=1000)
    with killed_after(own_lab, numbered(8000, 400), 10) as rows:
        report = writer._task.run(rows, TaskIdentity("q", 0, 0))
    assert report.rows + report.duplicates >= 8000
    messages = own_lab.state()["messages"]
    assert messages == 8000 + (9 if fields else 0)


def test_a_server_that_stays_away_fails_the_task(own_lab: Lab) -> None:
    writer = own_lab.writer(publish_timeout=0.3)

    def rows() -> Iterator[pa.RecordBatch]:
        yield from numbered(100)
        own_lab.server.kill()
        yield from numbered(100)

    with pytest.raises((SourceUnavailable, SparkError), match=str(own_lab.server.port)):
        writer._task.run(rows(), TaskIdentity("q", 0, 0))


def test_rows_already_refused_do_not_come_twice_when_the_connection_breaks(own_lab: Lab) -> None:
    writer = own_lab.writer(on_bad_row="deadLetter", dead_letter_stream="DEAD")
    bad = one_batch(*BAD) * 6
    with killed_after(own_lab, bad, 3) as rows:
        report = writer._task.run(rows, TaskIdentity("q", 0, 0))
    assert report.dead == 12
    assert own_lab.state()["messages"] == 12
    assert own_lab.state("DEAD")["messages"] == 12


# -- before anything is written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "fields", "reason"),
    [
        ({}, FENCE, "set allow_atomic on S"),
        ({"allow_atomic": True, "retention": "workqueue"}, FENCE, "removes messages by workqueue"),
        ({"allow_atomic": True, "retention": "interest"}, FENCE, "removes messages by interest"),
        ({"no_ack": True}, {}, "acknowledges nothing"),
    ],
)
def test_streams_that_can_not_keep_the_promise_are_refused(
    lab: Lab, stream: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    lab.make("S", ["s.>"], **stream)
    fields = {**fields, "fence_subject": "s.fence"} if fields else {"subject": "s.a"}
    with pytest.raises(SparkError, match=reason):
        lab.writer(**fields)


def test_subjects_that_nobody_takes_are_refused(lab: Lab) -> None:
    with pytest.raises(StreamMissing, match=r"no stream takes the subject nobody\.here"):
        lab.writer(subject="nobody.here")
    with pytest.raises(StreamMissing, match="no stream takes the fence subject nobody"):
        lab.writer(delivery_guarantee="fenced", fence_subject="nobody")
    with pytest.raises(StreamMissing, match="there is no stream GONE"):
        lab.writer(stream="GONE")
    lab.make("OTHER", ["other.>"])
    with pytest.raises(
        OptionError, match=r"same stream: the subject other\.a means OTHER, the fence subject"
    ):
        lab.writer(subject="other.a", **FENCE)
    with pytest.raises(OptionError, match=r"no subject to publish to"):
        lab.writer(subject="rows.*")


def test_a_column_that_the_stream_or_the_guarantee_forbids_is_refused(lab: Lab) -> None:
    ttl = StructType().add("data", "string").add("ttl", "string")
    with pytest.raises(SparkError, match="ROWS does not allow it"):
        lab.writer(ttl, subject="rows.a")
    ids = StructType().add("subject", "string").add("data", "string").add("msg_id", "string")
    with pytest.raises(SparkError, match="drop the column msg_id"):
        lab.writer(ids, **FENCE)


def test_a_short_memory_for_ids_is_warned_about_once(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    lab.make("SHORT", ["short"], duplicate_window=5_000_000_000)
    with caplog.at_level(logging.WARNING, "millstream.spark"):
        lab.writer(subject="short")
    assert "SHORT remembers ids for 5 s" in caplog.text
    caplog.clear()
    lab.writer(subject="short")
    assert caplog.text == ""
    stream_writer(lab.options(subject="rows.a"), TABLE, False)
    assert "ROWS remembers ids for 120 s" in caplog.text
    caplog.clear()
    lab.writer(subject="rows.a")
    assert caplog.text == ""


def test_overwrite_purges_only_if_it_may_and_only_what_it_is_about(lab: Lab) -> None:
    lab.write(one_batch(("rows.a", b"1"), ("rows.b", b"2")))
    with pytest.raises(OptionError, match="allowPurge=true"):
        lab.writer(overwrite=True, stream="ROWS")
    with pytest.raises(OptionError, match="stream or subject"):
        lab.writer(overwrite=True, allow_purge=True)
    assert lab.state()["messages"] == 2
    lab.writer(overwrite=True, allow_purge=True, subject="rows.a")
    assert lab.state()["messages"] == 1
    lab.writer(overwrite=True, allow_purge=True, stream="ROWS")
    assert lab.state()["messages"] == 0
    with pytest.raises(OptionError, match="batch writes"):
        stream_writer(lab.options(allow_purge=True), TABLE, True)


def test_nobody_there_and_wrong_credentials_are_told(lab: Lab, own_server: ServerFactory) -> None:
    options = SinkOptions(
        LinkOptions(servers=parse_servers("nats://127.0.0.1:1")), subject="a", publish_timeout=0.1
    )
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1"):
        batch_writer(options, TABLE, False)
    locked = own_server(config='authorization { token: "right" }')
    wrong = LinkOptions(servers=parse_servers(locked.client_url), token="wrong-word")
    with pytest.raises(NotAllowed) as caught:
        batch_writer(SinkOptions(wrong, subject="a"), TABLE, False)
    assert "wrong-word" not in str(caught.value)
