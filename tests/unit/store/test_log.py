"""The log by example: what the model test does not say in so many words."""

from __future__ import annotations

import pytest

from millstream.base.slices import Pieces, finish
from millstream.store import tables
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from millstream.store.scan import FARTHEST_JUMP
from tests.kits.store.log import SMALL, bodies, body_of, commit, commit_all, contents, filled, put


def reopened(log: Log) -> Log:
    log.close()
    return open_log(log.chain.fs, log.folder, segment_size=SMALL)


def test_an_empty_log_begins_where_it_is_told() -> None:
    log = open_log(MemoryFileSystem(), "s", first_seq=50)
    assert (log.first_seq, log.last_seq, log.messages, log.uncommitted) == (50, 49, 0, False)
    assert log.begin_commit() is None
    assert put(log, b"a") == 50


def test_a_message_can_be_read_when_it_is_committed_and_looked_at_before() -> None:
    log = open_log(MemoryFileSystem(), "s")
    record = Record()
    put(log, b"a", b"body", b"head", timestamp=77)
    assert not log.get(1, record)
    assert log.peek(1, record)
    assert (record.subject(), record.headers(), record.payload(), record.timestamp) == (
        b"a",
        b"head",
        b"body",
        77,
    )
    under_way = log.begin_commit()
    assert under_way is not None
    put(log, b"b", b"next")
    assert log.peek(1, record)
    assert record.payload() == b"body"
    assert log.peek(2, record)
    assert record.payload() == b"next"
    under_way.run()
    assert not log.get(1, record)
    log.end_commit(under_way)
    assert log.get(1, record)
    assert not log.get(2, record)
    assert log.committed == 1


def test_the_time_of_the_first_message_needs_no_read_of_the_file_that_grows() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    assert log.first_time() == 0
    put(log, b"a", timestamp=77)
    put(log, b"a", timestamp=78)
    assert log.first_time() == 0  # nothing is committed
    commit(log)
    assert log.first_time() == 77
    log = reopened(log)
    assert log.first_time() == 77
    log.remove(1)
    assert log.first_time() == 0
    log.roll()
    put(log, b"a", timestamp=79)
    commit(log)
    assert log.first_time() == 0  # another process may have verified the sealed one
    log.remove(2)
    assert log.first_time() == 79


def test_one_commit_at_a_time() -> None:
    log = open_log(MemoryFileSystem(), "s")
    put(log, b"a")
    first = log.begin_commit()
    put(log, b"a")
    assert log.committing
    assert log.begin_commit() is None
    assert first is not None
    first.run()
    log.end_commit(first)
    assert not log.committing
    assert log.uncommitted
    commit(log)
    assert log.committed == 2
    assert not log.uncommitted


def test_everything_is_there_after_opening_again() -> None:
    log = filled(50)
    assert len(log.chain.segments) > 5
    before = contents(log)
    again = reopened(log)
    assert contents(again) == before
    assert (again.messages, again.first_seq, again.last_seq) == (50, 1, 50)
    assert again.record_bytes == log.record_bytes
    assert again.committed == 50
    assert again.last_timestamp == 50_000_000_000
    assert again.losses.damages == []


def test_a_dropped_segment_takes_its_files_along() -> None:
    log = filled(50)
    fs = log.chain.fs
    files = len(fs.list("s"))
    log.remove_below(40)
    assert len(fs.list("s")) == files
    commit_all(log)
    assert len(fs.list("s")) < files // 2
    assert bodies(log) == {number: body_of(number) for number in range(40, 51)}


def test_removing_before_the_first_commit_leaves_no_files_behind() -> None:
    """A segment that was never written cannot be dropped before it is; then it is."""
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    for number in range(60):
        put(log, b"a", body_of(number))
    log.remove_below(60)
    commit_all(log)
    assert len(log.chain.fs.list("s")) <= 3
    assert log.messages == 1
    assert list(bodies(reopened(log))) == [60]


def test_removals_in_order_are_one_floor_and_no_list() -> None:
    log = filled(3, segment_size=10_000)
    for _ in range(3):
        log.remove(log.first_seq)
    commit_all(log)
    assert log.chain.segments[-1].removals.count == 0
    assert log.chain.segments[-1].floor == 4
    assert reopened(log).messages == 0


def test_what_a_dropped_segment_said_about_others_is_said_again() -> None:
    """Removals of messages in segment 1 are logged in segment 2, and that goes."""
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    for number in range(6):
        put(log, b"keep" if number == 5 else b"a", b"x" * 20)
    commit_all(log)
    first = log.chain.segments[0]
    log.remove(2)
    log.remove(3)
    commit_all(log)
    while len(log.chain.segments) < 4:
        put(log, b"b", b"x" * 20)
    commit_all(log)
    speaking = [segment for segment in log.chain.segments if 2 in segment.removals.to_list()]
    assert speaking
    log.remove_matching(b"b", log.last_seq)
    commit_all(log)
    assert speaking[0] not in log.chain.segments
    assert first in log.chain.segments
    again = reopened(log)
    assert not again.has(2)
    assert not again.has(3)
    assert again.has(1)


def test_a_start_that_drops_a_segment_says_its_floor_again() -> None:
    """A purge is in the second segment; its own messages were removed while it was the last."""
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    while len(log.chain.segments) < 2:
        put(log, b"a", b"x" * 20)
    log.remove(log.last_seq)
    log.remove_below(3)
    commit_all(log)
    first, second = log.chain.segments
    assert (first.base_seq, second.floor) == (1, 3)
    last = 0
    while second.size < SMALL:
        last = put(log, b"b", b"x" * 20)
    commit_all(log)
    log.remove_matching(b"b", last + 1)
    log.roll()
    commit_all(log)
    for _ in range(3):
        log = reopened(log)
        assert log.first_seq == 3
        commit_all(log)
    assert [segment.number for segment in log.chain.segments][:2] == [1, 3]


def test_a_sequence_can_be_skipped_near_and_far() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    put(log, b"a")
    log.skip_to(10, 5)
    assert put(log, b"a") == 11
    far = 11 + 5 * FARTHEST_JUMP
    log.skip_to(far, 6)
    assert put(log, b"a") == far + 1
    commit_all(log)
    again = reopened(log)
    assert list(bodies(again)) == [1, 11, far + 1]
    assert again.losses.damages == []
    assert put(again, b"a") == far + 2


@pytest.mark.parametrize("seq", [0, 1, 5])
def test_a_sequence_that_is_used_cannot_be_skipped_to(seq: int) -> None:
    log = filled(5)
    with pytest.raises(ValueError, match="used up"):
        log.skip_to(seq, 0)


def test_skipped_sequences_are_not_used_after_opening_again() -> None:
    log = filled(2)
    log.skip_to(9, 5)
    commit_all(log)
    assert put(reopened(log), b"a") == 10


def test_looking_for_a_time_harms_nothing_that_is_not_written_yet() -> None:
    log = filled(5)
    put(log, b"late", b"x", timestamp=9_000_000_000)
    assert log.seq_at_time(8_000_000_000) == 6
    under_way = log.begin_commit()
    assert under_way is not None
    assert log.seq_at_time(8_000_000_000) == 6
    assert log.seq_at_time(10_000_000_000) == 0
    under_way.run()
    log.end_commit(under_way)
    assert log.messages == 6
    assert log.losses.damages == []


def test_a_time_is_found_although_clocks_went_back() -> None:
    log = open_log(MemoryFileSystem(), "s", segment_size=SMALL)
    times = [10, 20, 30, 5, 6, 40, 50, 45, 60] * 3
    for step, timestamp in enumerate(times):
        put(log, b"a", b"x" * 20, timestamp=timestamp + 100 * (step // 9))
    commit_all(log)
    for opened in (log, reopened(log)):
        for timestamp in range(0, 300, 7):
            expected = [seq + 1 for seq, each in enumerate(times) if each + 100 * (seq // 9) >= timestamp]
            assert opened.seq_at_time(timestamp) == min(expected, default=0)


def test_erasing_takes_effect_with_the_commit_and_lasts() -> None:
    log = filled(10, segment_size=10_000)
    path = "s/0000000001.log"
    assert body_of(4) in log.chain.fs.read_all(path)
    assert log.erase(4)
    assert not log.has(4)
    commit_all(log)
    assert body_of(4) not in log.chain.fs.read_all(path)
    again = reopened(log)
    assert sorted(bodies(again)) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert again.losses.damages == []
    assert again.index.find(b"") is None


def test_what_is_not_committed_can_be_erased_too() -> None:
    log = open_log(MemoryFileSystem(), "s")
    put(log, b"a", b"kept")
    put(log, b"a", b"never to be seen")
    assert log.erase(2)
    assert not log.erase(2)
    commit_all(log)
    assert b"never to be seen" not in log.chain.fs.read_all("s/0000000001.log")
    assert bodies(reopened(log)) == {1: b"kept"}


def test_a_summary_and_a_scan_agree_about_erased_messages() -> None:
    log = filled(12)
    victim = log.chain.segments[0].base_seq + 1
    log.erase(victim)
    commit_all(log)
    fs = log.chain.fs
    log.close()
    for name in fs.list("s"):
        if name.endswith(".sum"):
            fs.remove(f"s/{name}")
    again = open_log(fs, "s", segment_size=SMALL)
    assert sorted(bodies(again)) == [seq for seq in range(1, 13) if seq != victim]
    assert again.record_bytes == log.record_bytes


def test_more_segments_than_tables_are_kept_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_OPEN", 8)
    log = reopened(filled(400))
    assert len(log.chain.segments) > 40
    assert bodies(log) == {number: body_of(number) for number in range(1, 401)}
    assert sum(segment.loaded for segment in log.chain.segments) < 20
    assert sum(segment.file is not None for segment in log.chain.segments) < 20


def test_a_segment_found_without_summary_gets_one_with_the_next_commit() -> None:
    log = filled(30)
    fs = log.chain.fs
    log.close()
    fs.remove("s/0000000001.sum")
    again = open_log(fs, "s", segment_size=SMALL)
    assert again.messages == 30
    put(again, b"a")
    commit(again)
    assert "0000000001.sum" in fs.list("s")


def test_a_commit_without_sync_is_synced_by_a_later_one() -> None:
    log = open_log(MemoryFileSystem(), "s")
    put(log, b"a")
    done = commit(log, sync=False)
    assert done is not None
    assert not done.synced
    assert log.committed == 1
    assert log.begin_commit() is None
    flush = log.begin_commit(flush=True)
    assert flush is not None
    flush.run()
    assert flush.synced
    log.end_commit(flush)
    assert log.begin_commit(flush=True) is None


def test_closing_waits_for_a_commit_that_is_running() -> None:
    log = filled(3)
    put(log, b"a", b"last")
    under_way = log.begin_commit()
    assert under_way is not None
    under_way.running = True  # as it is in another thread
    log.close()
    assert log.chain.segments[-1].file is not None
    under_way.run()
    log.end_commit(under_way)
    assert log.chain.segments[-1].file is None
    assert bodies(open_log(log.chain.fs, "s"))[4] == b"last"


def test_a_subject_that_is_not_there_costs_nothing_to_look_for() -> None:
    log = reopened(filled(400))
    loaded = [segment.loaded for segment in log.chain.segments]
    assert sum(loaded) < 3
    assert log.next_match(1, b"none") == 0
    assert log.last_match(400, b"none.*") == 0
    assert log.remove_matching(b"none.>", 400) == 0
    assert [segment.loaded for segment in log.chain.segments] == loaded


def test_files_of_others_in_the_folder_are_left_alone() -> None:
    fs = MemoryFileSystem()
    for name in ("notes.log", "0000000001.log.bak", "12.log", "meta.json"):
        fs.replace(f"s/{name}", b"mine")
    log = filled(5, fs)
    log.close()
    assert open_log(fs, "s").messages == 5
    assert fs.read_all("s/notes.log") == b"mine"


def test_what_a_crash_left_half_written_is_cleared_away() -> None:
    log = filled(30)
    log.close()
    for name in ("0000000001.sum.new", "0000000002.log.new"):
        log.chain.fs.replace(f"s/{name}", b"half")
    open_log(log.chain.fs, "s", segment_size=SMALL)
    assert not [name for name in log.chain.fs.list("s") if name.endswith(".new")]


def test_a_subject_that_has_far_too_many_messages_is_shortened_by_a_few_at_a_time() -> None:
    log = open_log(MemoryFileSystem(), "s")
    for _ in range(20):
        put(log, b"a")
    calls = 1
    while log.keep_of_newest(2):
        assert log.messages == 20 - 8 * calls
        calls += 1
    assert list(log.sequences(1, 20)) == [19, 20]
    assert calls == 3


def test_the_tree_of_subjects_is_handed_over_when_all_messages_go() -> None:
    log = filled(50)
    found: list[Pieces[None]] = []
    log.free_with(found.append)
    log.remove_below(51)
    [pieces] = found
    finish(pieces)
    assert (log.index.subjects, log.messages) == (0, 0)


def test_a_segment_has_a_bounded_number_of_messages() -> None:
    """The event loop waits while its tables are loaded."""
    log = open_log(MemoryFileSystem(), "s")
    for _ in range(65_537):
        log.append(b"a", b"", 0, 0, 0, 0, 0)
    assert [segment.count for segment in log.chain.segments] == [65_536, 1]
    commit_all(log)
    assert open_log(log.chain.fs, "s").messages == 65_537


def test_segments_of_large_messages_are_longer() -> None:
    size = 64 * 1024
    log = open_log(MemoryFileSystem(), "s", segment_size=4 * size)
    for _ in range(16):
        put(log, b"s", b"x" * size)
    for _ in range(16):
        put(log, b"s", b"x" * (size // 2))
    commit(log)
    assert [segment.count for segment in log.chain.segments] == [8, 8, 8, 8]


def test_a_log_knows_which_messages_it_had() -> None:
    log = filled(40)
    assert log.remove(3)  # within a file
    assert log.remove_below(3)
    for seq in range(12, 30):  # whole files
        assert log.remove(seq)
    commit_all(log)
    log.skip_to(44, log.last_timestamp)
    put(log, b"a")
    commit(log)
    for each in (log, reopened(log)):
        assert [seq for seq in range(1, 46) if not each.had(seq)] == [41, 42, 43, 44]
