"""STREAM.INFO with details of streams of any size: bounded, and others have their turn meanwhile."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from millstream.base import slices
from millstream.base.slices import finish
from millstream.jetstream.ports import ClientRequest
from millstream.jetstream.stream import details as stream_details
from millstream.jsapi.limits import DELETED_LISTED
from millstream.store import gaps
from millstream.store.fs import MemoryFileSystem
from millstream.store.gaps import first_missing
from millstream.store.layout import layout
from millstream.store.log import Log
from millstream.store.recovery import open_log
from tests.kits.fake_world import FakeRequester
from tests.kits.jetstream.stream import Site


def test_a_gap_of_any_size_is_told_by_its_first_sequences() -> None:
    site = Site()
    site.create()
    site.publish("s.1")
    log = site.account.streams["S"].log
    log.skip_to(2**50, site.world.now_ns())
    site.publish("s.1")
    start = time.process_time()
    state = site.state(deleted_details=True)
    assert time.process_time() - start < 2
    assert state["num_deleted"] == 2**50 - 1
    assert state["deleted"] == list(range(2, 2 + DELETED_LISTED))


def log_of_segments(*steps: tuple[str, int]) -> Log:
    """Some ten messages to a segment; `steps`: so many messages, or so many sequences that are skipped."""
    log = open_log(MemoryFileSystem(), "s", segment_size=400)
    for step, count in steps:
        if step == "skip":
            log.skip_to(log.last_seq + count, 1)
        for _ in range(count if step == "put" else 0):
            log.append(b"a", b"x", 0, 0, 1, 1, 0)
    return log


def deleted_one_by_one(log: Log) -> list[int]:
    there = set(log.sequences(log.first_seq, log.last_seq))
    return [seq for seq in range(log.first_seq, log.last_seq + 1) if seq not in there] if there else []


def test_all_that_are_gone_are_told_if_they_are_few() -> None:
    log = log_of_segments(("put", 40), ("skip", 7), ("put", 5), ("skip", 1), ("put", 1), ("skip", 3))
    assert len(layout(log)) > 3
    assert finish(first_missing(log, DELETED_LISTED)) == deleted_one_by_one(log) != []
    for seq in (1, 2, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 30, 40, 48, *range(22, 40)):
        log.remove(seq)
        assert finish(first_missing(log, DELETED_LISTED)) == deleted_one_by_one(log)


def test_gaps_are_found_in_segments_whose_tables_were_dropped() -> None:
    log = log_of_segments(("put", 2), ("skip", 7), ("put", 38), ("skip", 3), ("put", 20))
    log.remove(40)
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)
    for _ in range(2):  # what was not used since the first time
        finish(log.rest())
    assert not all(file.loaded for file in layout(log))
    assert finish(first_missing(log, DELETED_LISTED)) == deleted_one_by_one(log) != []


def test_nothing_is_gone_of_an_empty_stream() -> None:
    site = Site()
    site.create()
    site.publish("s.1")
    site.ask("STREAM.PURGE.S")
    assert "deleted" not in site.state(deleted_details=True)


def test_few_tables_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of_segments(("put", 400))
    for seq in range(5, 400, 10):
        log.remove(seq)
    found = finish(first_missing(log, DELETED_LISTED))
    assert 0 < len(found) < 40
    assert found == list(range(5, 400, 10))[: len(found)]
    monkeypatch.setattr(gaps, "_MOST_TABLES", 1000)
    assert finish(first_missing(log, DELETED_LISTED)) == list(range(5, 400, 10))


def subjects(site: Site, **request: Any) -> dict[str, Any]:
    return site.ask("STREAM.INFO.S", request)


@pytest.mark.parametrize("at_once", [1, 3, 7, 1000])
def test_pages_of_subjects_are_sorted_whatever_a_step_holds(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_details, "AT_ONCE", at_once)
    monkeypatch.setattr(slices, "MOST_ITEMS", at_once)
    monkeypatch.setattr(stream_details, "SUBJECTS_PER_PAGE", 10)
    site = Site()
    site.create()
    for number in range(25):
        site.publish(f"s.{number * 7 % 25}.x")
    expected = sorted(f"s.{number}.x" for number in range(25))
    for offset in (0, 5, 20, 25, 1000):
        answer = subjects(site, subjects_filter="s.>", offset=offset)
        assert list(answer["state"].get("subjects") or {}) == expected[offset : offset + 10]
        assert answer["total"] == 25
    assert subjects(site, subjects_filter="t.>")["total"] == 0


def test_others_have_their_turn_between_the_steps_and_may_publish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_details, "AT_ONCE", 2)
    monkeypatch.setattr(slices, "MOST_ITEMS", 2)
    site = Site()
    site.create()
    for number in range(10):
        site.publish(f"s.{number}")
    site.world.send(b"$JS.API.STREAM.INFO.S", json.dumps({"subjects_filter": ">"}).encode(), reply=b"slow")
    site.world.send(b"$JS.API.STREAM.INFO.S", json.dumps({"subjects_filter": ">"}).encode(), reply=b"next")
    site.world.send(b"$JS.API.STREAM.INFO.S", b"", reply=b"quick")
    for number in range(10, 30):
        site.world.send(b"s.%d" % number, b"", reply=b"publisher")
    site.world.settle()
    order = [each.subject for each in site.world.published if each.subject in (b"slow", b"next", b"quick")]
    assert order == [b"quick", b"slow", b"next"]
    told = json.loads(site.sent(b"next")[0].payload)
    assert 10 <= told["total"] <= 30


def test_requests_that_take_long_wait_for_each_other_and_not_without_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_details, "AT_ONCE", 1)
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    site = Site(request_queue_limit=63)
    site.create()
    site.publish("s.1")
    site.publish("s.2")
    for _ in range(200):
        site.world.send(b"$JS.API.STREAM.INFO.S", b'{"subjects_filter":">"}', reply=b"me")
    site.world.settle()
    assert len(site.sent(b"me")) == 64
    assert site.ask("STREAM.INFO.S", {"subjects_filter": ">"})["total"] == 2


def test_a_stream_that_goes_while_its_subjects_are_gathered_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_details, "AT_ONCE", 1)
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    site = Site()
    site.create()
    for number in range(5):
        site.publish(f"s.{number}")
    site.world.send(b"$JS.API.STREAM.INFO.S", b'{"subjects_filter":">"}', reply=b"me")
    site.world.send(b"$JS.API.STREAM.DELETE.S", b"", reply=b"deleter")
    site.world.settle()
    assert len(site.sent(b"me")) == 1


def test_streams_with_thousands_of_subjects_are_listed_in_steps() -> None:
    site = Site()
    for name in "ABCDEF":
        site.create(name, subjects=[f"{name}.{number}.x" for number in range(4_000)] + [f"{name}.last.y"])
    site.world.send(b"$JS.API.STREAM.NAMES", b'{"subject":"*.*.y"}', reply=b"slow")
    site.world.send(b"$JS.API.STREAM.NAMES", b"", reply=b"quick")
    site.world.settle()
    order = [each.subject for each in site.world.published if each.subject in (b"slow", b"quick")]
    assert order == [b"quick", b"slow"]
    assert json.loads(site.sent(b"slow")[0].payload)["streams"] == list("ABCDEF")


def test_nothing_more_is_done_for_a_client_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_details, "AT_ONCE", 1)
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    site = Site()
    site.create()
    for number in range(50):
        site.publish(f"s.{number}")
    for reply in (b"gone", b"heard elsewhere"):
        request = ClientRequest(
            b"$JS.API.STREAM.INFO.S",
            reply,
            b"",
            b'{"subjects_filter":">"}',
            FakeRequester(site.world, closed=True),
        )
        site.api.answer(request.subject, request)
    site.world.deaf.add(b"gone")
    site.world.settle()
    assert site.sent(b"gone") == []
    assert json.loads(site.sent(b"heard elsewhere")[0].payload)["total"] == 50
    assert len(site.world.slices) < 2 * 100


def test_every_slice_tells_its_name_and_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_details, "AT_ONCE", 10)
    monkeypatch.setattr(slices, "MOST_ITEMS", 20)
    site = Site()
    site.create()
    for number in range(100):
        site.publish(f"s.{number}")
    site.ask("STREAM.INFO.S", {"subjects_filter": ">"})
    assert {name for name, _ in site.world.slices} == {"api STREAM.INFO"}
    assert 0 < max(items for _, items in site.world.slices) <= 20 + 100


def test_a_stream_that_is_deleted_meanwhile_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST_ITEMS", 1)
    site = Site()
    site.create()
    for number in range(3000):
        site.world.send(b"s.%d" % (number % 2), b"")
    site.world.settle()
    site.ask("STREAM.PURGE.S", {"filter": "s.1"})
    site.world.send(b"$JS.API.STREAM.INFO.S", b'{"deleted_details":true}', reply=b"me")
    site.world.send(b"$JS.API.STREAM.DELETE.S", b"", reply=b"deleter")
    site.world.settle()
    assert json.loads(site.sent(b"me")[0].payload)["error"]["err_code"] == 10059


def test_subjects_are_written_as_they_are_whatever_they_hold() -> None:
    site = Site()
    site.create(subjects=["*"], metadata={"subjects": '{"":0}', "deleted": "[0]"}, no_ack=True)
    for subject in ("a<b", 'a"b', "é", "a\\b", "zz"):
        site.world.send(subject.encode(), b"")
    site.world.send(b"\xff\xfe", b"")
    site.world.settle()
    state = site.state(subjects_filter=">", deleted_details=True)
    assert list(state["subjects"].items()) == [
        ('a"b', 1), ("a<b", 1), ("a\\b", 1), ("zz", 1), ("é", 1), ("��", 1),
    ]  # fmt: skip
