"""Publishers are answered after the commit, whatever happens in between."""

import errno
import functools
import json
import threading
from random import Random

import pytest

from millstream.base.budget import BUDGET
from millstream.jetstream import parts
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream.committer import Committer
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError
from millstream.store.record import Kind, RecordBuffer, has_large_spares
from millstream.store.recovery import new_log, open_log
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.fake_world import FakeWorld, Published
from tests.kits.jetstream.stream import NO_SPACE, Disk, Site, block

ACK = b'{"stream":"S","seq":1}'


def test_nothing_is_acknowledged_before_the_commit_has_ended() -> None:
    site = Site()
    site.create()
    site.world.send(b"s.a", b"1", reply=b"me")
    assert site.sent(b"me") == []
    site.world.settle()
    assert site.sent(b"me") == [Published(b"me", ACK)]
    assert any(path.endswith(".log") for path in site.disk.syncs)


def test_a_message_that_comes_while_a_commit_runs_goes_with_the_next() -> None:
    site = Site()
    stream = site.create()
    jobs = hold_workers(site)
    site.world.send(b"s.a", reply=b"one")
    site.world.settle()
    site.world.send(b"s.a", reply=b"two")
    site.world.settle()
    assert len(jobs) == 1
    finish(jobs)
    assert site.sent(b"one")
    assert not site.sent(b"two")
    finish(jobs)
    assert json.loads(site.sent(b"two")[0].payload)["seq"] == 2
    assert stream.log.committed == 2


def test_a_duplicate_that_comes_while_a_commit_runs_is_answered_and_stops_nobody() -> None:
    site = Site()
    site.create()
    jobs = hold_workers(site)
    identified = block(Nats_Msg_Id="1")
    site.world.send(b"s.a", reply=b"one", headers=identified)
    site.world.settle()
    site.world.send(b"s.a", reply=b"two", headers=identified)
    site.world.settle()
    assert not site.sent(b"two")  # what it repeats is not durable yet
    finish(jobs)
    site.world.settle()
    assert json.loads(site.sent(b"two")[0].payload) == {"stream": "S", "seq": 1, "duplicate": True}
    site.world.send(b"s.a", reply=b"three")
    site.world.settle()
    finish(jobs)
    assert site.sent(b"three")


def test_publishers_learn_that_a_commit_failed() -> None:
    site = Site()
    site.create()
    site.disk.full = True
    status, code, text = site.refusal("s.a")
    assert (status, code) == (503, 10077)
    assert NO_SPACE in text
    assert site.refusal("s.a")[:2] == (503, 10077)  # and everyone after them


def test_what_was_stored_can_be_read_while_nothing_can_be_written() -> None:
    site = Site()
    site.create()
    site.publish("s.a", b"kept")
    site.disk.full = True
    site.refusal("s.b")
    assert site.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["subject"] == "s.a"
    assert site.ask("STREAM.INFO.S")["state"]["first_seq"] == 1


def test_a_stream_takes_messages_again_when_there_is_space_again() -> None:
    site = Site()
    stream = site.create()
    site.publish("s.a", b"before")
    site.disk.full = True
    site.refusal("s.b")
    site.world.advance(5)
    assert stream.failure is not None
    site.disk.full = False
    site.world.advance(1)
    assert stream.failure is None
    assert "error" not in site.publish("s.c", b"after")
    again = site.restarted(orderly=False)
    assert again.subjects()[0] == "s.a"
    assert again.subjects()[-1] == "s.c"


def test_an_id_is_known_after_a_failure_so_that_trying_again_does_not_store_twice() -> None:
    site = Site()
    site.create()
    site.disk.full = True
    site.refusal("s.a", Nats_Msg_Id="1")
    site.disk.full = False
    site.world.advance(1)
    assert site.publish("s.a", Nats_Msg_Id="1") == {"stream": "S", "seq": 1, "duplicate": True}
    assert site.state()["messages"] == 1


def test_what_a_refused_message_displaced_is_not_lost_without_it() -> None:
    site = Site()
    site.create(max_msgs_per_subject=1)
    site.publish("s.key", b"old")
    site.disk.full = True
    site.refusal("s.key", b"new")
    after_crash = site.restarted(orderly=False)
    assert after_crash.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["data"] == "b2xk"
    site.disk.full = False
    site.world.advance(1)
    assert site.subjects() == ["s.key"]
    assert site.ask("STREAM.MSG.GET.S", {"last_by_subj": "s.key"})["message"]["data"] == "bmV3"


def test_a_purge_that_cannot_be_stored_is_not_called_a_success() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    site.disk.full = True
    assert site.error("STREAM.PURGE.S")[:2] == (503, 10077)


def test_a_purge_is_answered_when_it_is_durable() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    jobs = hold_workers(site)
    site.world.send(b"$JS.API.STREAM.PURGE.S", reply=b"me")
    site.world.settle()
    assert not site.sent(b"me")
    finish(jobs)
    assert json.loads(site.sent(b"me")[0].payload)["purged"] == 1


def test_consumers_pass_purged_messages_on_disk_only_when_the_purge_is_durable() -> None:
    site = Site()
    stream = site.create()
    site.publish("s.a")
    config = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}
    site.ask("CONSUMER.DURABLE.CREATE.S.c", config)
    journal = stream.consumers.journal
    assert journal is not None
    jobs = hold_workers(site)
    site.world.send(b"$JS.API.STREAM.PURGE.S", reply=b"me")
    site.world.settle()
    site.world.advance(1.0)
    assert journal.log.uncommitted
    assert len(jobs) == 1  # that of the stream
    finish(jobs)
    assert site.sent(b"me")
    finish(jobs)
    site.world.settle()
    assert not journal.log.uncommitted


def test_a_reader_waits_for_what_was_published_before() -> None:
    site = Site()
    site.create()
    site.world.send(b"s.a", b"x")
    assert site.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["seq"] == 1


def test_deleting_a_stream_while_it_commits_leaves_nothing_behind() -> None:
    site = Site()
    site.create()
    jobs = hold_workers(site)
    site.world.send(b"s.a", reply=b"me")
    site.world.settle()
    site.ask("STREAM.DELETE.S")
    finish(jobs)
    site.world.advance(60)
    assert site.disk.list("store/streams") == []
    assert not site.sent(b"me")


def test_stopping_while_a_commit_runs_makes_everything_durable_first() -> None:
    site = Site()
    site.create()
    jobs = hold_workers(site)
    site.world.send(b"s.a", reply=b"one")
    site.world.settle()
    site.world.send(b"s.b", reply=b"two")
    again = site.restarted()
    assert site.sent(b"one")
    assert site.sent(b"two")
    finish(jobs)
    assert again.subjects() == ["s.a", "s.b"]


def test_stopping_on_a_full_disk_is_possible() -> None:
    site = Site()
    site.create()
    site.publish("s.a")
    site.disk.full = True
    site.world.send(b"s.b", reply=b"me")
    site.account.stop()
    site.disk.full = False
    assert site.restarted(orderly=False).subjects() == ["s.a"]


def test_flush_waits_for_a_worker_that_is_at_it() -> None:
    site = Site()
    stream = site.create()
    site.world.run_in_worker = lambda work, done: threading.Thread(target=work).start()  # type: ignore[method-assign]
    site.world.send(b"s.a", reply=b"me")
    site.world.settle()
    site.account.committer.flush(stream)
    assert site.sent(b"me")


@pytest.mark.parametrize("limit", [{"max_buffered_messages": 2}, {"max_buffered_size": 100}])
def test_a_stream_takes_nothing_while_too_much_waits_for_the_disk(limit: dict[str, int]) -> None:
    site = Site(resources=Resources(**limit))
    site.create()
    jobs = hold_workers(site)
    for number in range(5):
        site.world.send(b"s.a", bytes(20), reply=b"%d" % number)
        site.world.settle()
    (refused,) = site.sent(b"4")
    assert refused.headers == b"NATS/1.0 429 Too Many Requests\r\n\r\n"
    assert json.loads(refused.payload) == {
        "error": {"code": 429, "err_code": 10167, "description": "too many requests"},
        "stream": "S",
        "seq": 0,
    }
    finish(jobs)
    finish(jobs)
    assert site.sent(b"2")
    site.world.send(b"s.a", reply=b"again")
    site.world.settle()
    finish(jobs)
    assert b"error" not in site.sent(b"again")[0].payload
    assert site.account.streams["S"].ingest.fast_path


def test_publishers_are_held_while_too_much_waits_for_the_disk() -> None:
    site = Site(resources=Resources(max_unwritten=200))
    stream = site.create()
    jobs = hold_workers(site)
    send_in_turns(site, 6)
    assert site.world.held == 2  # those behind the 100 bytes that the next commit has
    assert stream.log.unwritten() > 200
    finish(jobs)  # the first message
    assert site.world.held == 2
    finish(jobs)
    assert site.world.held == 0
    assert site.account.resources.unwritten == stream.log.unwritten() == 0
    site.world.send(b"s.a", bytes(20))
    assert site.world.held == 0


def test_half_of_what_may_wait_gathers_while_the_other_half_is_written() -> None:
    site = Site(resources=Resources(max_unwritten=400))
    stream = site.create()
    jobs = hold_workers(site)
    send_in_turns(site, 1)
    send_in_turns(site, 5)
    assert 200 < stream.log.gathered() < 300
    assert site.world.held == 0
    send_in_turns(site, 1)
    assert site.world.held == 1
    finish(jobs)
    assert site.world.held == 0, "the next commit is being written"
    assert stream.log.gathered() == 0
    finish(jobs)


def test_large_messages_are_weighed_at_once() -> None:
    """The loop may take many more before it looks again."""
    site = Site(resources=Resources(max_unwritten=6_000_000))
    site.create()
    jobs = hold_workers(site)
    site.world.send(b"s.a", bytes(100))
    site.world.settle()
    for _ in range(3):
        site.world.send(b"s.a", bytes(1_500_000))
    assert site.world.held == 1, "the one behind three million bytes"
    site.world.settle()
    finish(jobs)
    finish(jobs)
    assert site.world.held == 0


def test_memory_of_large_commits_is_given_back_when_nothing_waits_for_a_second() -> None:
    while BUDGET.spares.used:  # by other tests
        RecordBuffer().add(Kind.MESSAGE, 1, 0, b"", b"", 0, 0, 0)
    site = Site()
    site.create()
    site.world.send(b"s.a", bytes(5_000_000))
    site.world.settle()
    assert has_large_spares()
    site.world.advance(0.9)
    assert has_large_spares()
    site.world.advance(0.2)
    assert not has_large_spares()


def send_in_turns(site: Site, count: int) -> None:
    for _ in range(count):
        site.world.send(b"s.a", bytes(20))
        site.world.settle()


def test_bytes_of_all_streams_count_for_holding_publishers() -> None:
    site = Site(resources=Resources(max_unwritten=200))
    site.create()
    site.create(name="T", subjects=["t.>"])
    jobs = hold_workers(site)
    for _ in range(3):
        for subject in (b"s.a", b"t.a"):
            site.world.send(subject, bytes(20))
            site.world.settle()
    site.world.send(b"t.a", bytes(20))
    assert site.world.held == 1
    finish(jobs)
    finish(jobs)
    site.world.settle()
    finish(jobs)
    assert site.world.held == 0
    assert site.account.resources.unwritten == 0


def test_a_stream_that_was_weighed_in_a_flood_holds_nobody_after_it() -> None:
    """Nobody would release a publisher whose message, as a duplicate, is not written."""
    site = Site(resources=Resources(max_unwritten=200))
    site.create()
    site.create(name="T", subjects=["t.>"])
    jobs = hold_workers(site)
    for _ in range(6):
        site.world.send(b"s.a", bytes(20))
        site.world.settle()
    for _ in range(2):
        site.world.send(b"t.a", bytes(20))
        site.world.settle()
    assert site.world.held, "T was weighed while too much of S waits"
    site.ask("STREAM.DELETE.S")
    assert not site.account.resources.flooded
    assert site.world.held == 0
    site.world.send(b"t.a", bytes(20))
    assert site.world.held == 0
    finish(jobs)


@pytest.mark.parametrize("end", ["the disk fails", "the stream is deleted"])
def test_publishers_are_released_when_nothing_more_will_be_written(end: str) -> None:
    site = Site(resources=Resources(max_unwritten=100))
    site.create()
    jobs = hold_workers(site)
    for _ in range(5):
        site.world.send(b"s.a", bytes(20))
        site.world.settle()
    assert site.world.held
    if end == "the disk fails":
        site.disk.full = True
        finish(jobs)
    else:
        site.ask("STREAM.DELETE.S")
    assert site.world.held == 0
    assert site.account.resources.unwritten == 0


# -- syncing by a timer -------------------------------------------------------------------------------


def log_syncs(disk: Disk) -> int:
    return sum(path.endswith(".log") for path in disk.syncs)


def test_with_an_interval_messages_are_acknowledged_unsynced_and_synced_later() -> None:
    site = Site(sync_interval_s=10)
    site.create()
    site.publish("s.a")
    site.publish("s.b")
    assert log_syncs(site.disk) == 0
    site.world.advance(9)
    assert log_syncs(site.disk) == 0
    site.world.advance(1)
    assert log_syncs(site.disk) == 1
    site.world.advance(100)
    assert log_syncs(site.disk) == 1  # there was nothing new


def test_with_an_interval_stopping_syncs() -> None:
    site = Site(sync_interval_s=10)
    site.create()
    site.publish("s.a")
    site.account.stop()
    assert log_syncs(site.disk) == 1


def test_a_sync_that_failed_is_tried_again() -> None:
    site = Site(sync_interval_s=10)
    site.create()
    site.publish("s.a")
    site.disk.full = True
    site.world.advance(10)
    site.disk.full = False
    site.world.advance(10)
    assert log_syncs(site.disk) == 1


def test_a_stream_that_is_deleted_while_it_syncs_is_not_synced_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site(sync_interval_s=10)
    site.create()
    site.publish("s.a")
    jobs = hold_workers(site)
    site.world.advance(10)
    site.ask("STREAM.DELETE.S")
    site.disk.full = True
    finish(jobs)
    site.world.advance(60)
    assert jobs == []
    assert caplog.messages == []


def test_an_async_stream_does_not_wait_for_the_disk_even_where_others_do() -> None:
    site = Site()
    site.create(persist_mode="async")
    site.create("T")
    site.publish("s.a")
    assert log_syncs(site.disk) == 0
    site.publish("t.a")
    assert log_syncs(site.disk) == 1
    site.world.advance(120)
    assert log_syncs(site.disk) == 2


def test_an_error_that_nobody_expected_is_told_to_publishers_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site()
    stream = site.create()
    stream.commit_failed(ZeroDivisionError("oh"))
    assert site.refusal("s.a")[:2] == (503, 10077)
    assert "ZeroDivisionError" in caplog.text
    site.world.advance(1)
    assert "error" not in site.publish("s.a")


def test_what_a_failed_sync_by_the_timer_may_have_dropped_is_written_again() -> None:
    """After a failed sync the system forgets that there was something to write."""
    fs = CrashFileSystem()
    world = FakeWorld()
    account = world.account(fs=fs, sync_interval_s=1)
    account.add(StreamConfig(name="S", subjects=["s"], storage=StorageType.FILE))
    world.send(b"s", b"kept", reply=b"me")
    world.settle()
    assert [each.subject for each in world.published] == [b"me"]
    fs.fail(errno.EIO, kind="sync")
    world.advance(1)
    assert account.streams["S"].failure is not None
    fs.heal()
    world.advance(2)
    assert account.streams["S"].failure is None
    again = FakeWorld().account(fs=fs.crash(Keep.NOTHING, Random(1)))
    again.recover()
    assert again.streams["S"].log.messages == 1


# -- help ---------------------------------------------------------------------------------------------

Jobs = list[tuple]  # type: ignore[type-arg]


def hold_workers(site: Site) -> Jobs:
    """Let workers run only when `finish` is called."""
    jobs: Jobs = []
    site.world.run_in_worker = lambda work, done: jobs.append((work, done))  # type: ignore[method-assign]
    return jobs


def finish(jobs: Jobs) -> None:
    held = list(jobs)
    jobs.clear()
    for work, done in held:
        error = None
        try:
            work()
        except StoreError as problem:
            error = problem
        done(error)


def test_a_committer_without_streams_can_stop() -> None:
    Committer(Site().world).stop()


def test_a_summary_that_cannot_be_written_costs_no_publisher_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(parts, "open_log", functools.partial(open_log, segment_size=250))
    monkeypatch.setattr(parts, "new_log", functools.partial(new_log, segment_size=250))
    site = Site()
    site.create()

    def replace(path: str, data: bytes, *, sync: bool = True) -> None:
        raise StoreError("replace", path, NO_SPACE, recoverable=True)

    monkeypatch.setattr(site.disk, "replace", replace)
    for _ in range(12):
        assert "error" not in site.publish("s.a", b"x" * 100)
    told = [each.getMessage() for each in caplog.records if "its cleanup failed" in each.getMessage()]
    assert told
    assert len(told) == len(set(told))
