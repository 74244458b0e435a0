"""Records in the journal of a stream's consumers, and when they are written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import pytest

from millstream.jetstream.consumers.entries import encode_config
from millstream.jetstream.consumers.journal import Alive, Changes, Journal
from millstream.jetstream.consumers.saved_state import OpenLetter
from millstream.jsapi.consumer_types import ConsumerState
from millstream.store.errors import StoreError
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.jetstream.journal import CREATED, FOLDER, Desk, acked, alive, config_of, delivered


def test_there_is_nothing_to_begin_with() -> None:
    desk = Desk()
    assert desk.found == {}
    assert desk.restarted().found == {}
    assert desk.journal.damages == []


def test_a_consumer_comes_back_with_its_configuration_and_the_state_it_began_with() -> None:
    desk = Desk()
    desk.create("a", ConsumerState(0, 41, 0, 41))
    desk.settle()
    found = desk.after_power_cut().found["a"]
    assert found.config == config_of("a")
    assert found.created == CREATED
    assert found.state == ConsumerState(0, 41, 0, 41)
    assert (found.reserved, found.torn) == (0, False)


def test_what_was_delivered_and_not_acked_is_pending_after_a_crash() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 3, at=77))
    desk.journal.change("a", acked(3, 0, 2))
    desk.settle()
    state = desk.after_power_cut().state("a")
    assert state == ConsumerState(3, 3, 0, 0, {1: (1, 77), 3: (3, 77)})


def test_a_message_delivered_again_keeps_its_first_number_and_its_count() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 2))
    desk.journal.change("a", Changes(3, 2, 0, 0, 0, [(1, 1, 99)], [], [(1, 1)]))
    desk.settle()
    state = desk.copy().state("a")
    assert state.pending == {1: (1, 99), 2: (2, 5)}
    assert state.redelivered == {1: 1}
    desk.journal.change("a", Changes(3, 2, 1, 1, 0, [], [1], [(1, 0)]))
    desk.settle()
    assert desk.after_power_cut().state("a").redelivered == {}


def test_consumers_do_not_mix() -> None:
    desk = Desk()
    for name in "abc":
        desk.create(name)
    desk.journal.change("a", delivered(1, 2))
    desk.journal.change("c", delivered(1, 9))
    desk.journal.delete("b")
    desk.settle()
    found = desk.after_power_cut().found
    assert {name: each.state.delivered_sseq for name, each in found.items()} == {"a": 2, "c": 9}


def test_a_new_configuration_keeps_the_state() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 2))
    desk.journal.put_config("a", config_of("a", "new"), CREATED)
    desk.journal.change("a", delivered(3, 3))
    desk.settle()
    found = desk.after_power_cut().found["a"]
    assert found.config.description == "new"
    assert set(found.state.pending) == {1, 2, 3}
    assert not found.torn


def test_a_consumer_made_again_knows_nothing_of_the_one_before() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 2))
    desk.journal.delete("a")
    desk.journal.put_config("a", config_of("a"), CREATED + 1)
    desk.journal.change("a", delivered(1, 1))
    desk.settle()
    found = desk.after_power_cut().found["a"]
    assert set(found.state.pending) == {1}
    assert found.created == CREATED + 1


def test_one_sync_covers_all_consumers() -> None:
    desk = Desk()
    for number in range(100):
        desk.create(f"c{number}")
    desk.settle()
    before = len(desk.fs.transcript)
    for number in range(100):
        desk.journal.change(f"c{number}", delivered(1, 5))
    desk.settle()
    assert desk.fs.transcript[before:] == ["write 0000000001.log", "sync 0000000001.log"]
    assert len(desk.after_power_cut().found) == 100


def test_unknown_consumers_are_refused() -> None:
    desk = Desk()
    for call in (
        lambda: desk.journal.change("a", Changes()),
        lambda: desk.journal.snapshot("a", ConsumerState()),
        lambda: desk.journal.delete("a"),
    ):
        with pytest.raises(KeyError):
            call()


# -- numbers of deliveries ----------------------------------------------------------------------------


def test_after_a_crash_deliveries_go_on_behind_what_was_reserved() -> None:
    desk = Desk()
    desk.create("a", reserved=100)
    desk.journal.change("a", delivered(1, 3))
    desk.settle()
    found = desk.after_power_cut().found["a"]
    assert found.reserved == 100
    assert found.state.delivered_dseq == 100
    assert found.state.floor_dseq == 0
    assert found.state.pending[1] == (1, 5)


def test_after_a_crash_with_nothing_pending_the_floor_goes_with_the_deliveries() -> None:
    desk = Desk()
    desk.create("a", reserved=100)
    desk.journal.change("a", delivered(1, 3))
    desk.journal.change("a", acked(3, 3, 1, 2, 3))
    desk.settle()
    assert desk.after_power_cut().state("a") == ConsumerState(100, 3, 100, 3)


def test_a_reservation_lasts_until_a_higher_one() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", Changes(reserved=100))
    desk.journal.change("a", delivered(1, 3))
    desk.settle()
    assert desk.copy().found["a"].reserved == 100
    desk.journal.change("a", Changes(3, 3, reserved=200))
    desk.journal.put_config("a", config_of("a", "new"), CREATED)
    desk.settle()
    assert desk.after_power_cut().found["a"].reserved == 200


def test_deliveries_that_nobody_reserved_count() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 3))
    desk.settle()
    assert desk.after_power_cut().found["a"].reserved == 3


def test_a_clean_stop_is_exact() -> None:
    desk = Desk()
    desk.create("a", reserved=100)
    desk.journal.change("a", delivered(1, 3))
    state = ConsumerState(4, 4, 2, 2, {3: (3, 5), 4: (4, 6)}, {3: 1})
    desk.journal.snapshot("a", state)
    found = desk.restarted().found["a"]
    assert found.state == state
    assert found.reserved == 4


def test_a_reset_may_go_back() -> None:
    desk = Desk()
    desk.create("a", reserved=100)
    desk.journal.change("a", delivered(1, 30))
    desk.journal.snapshot("a", ConsumerState(0, 9, 0, 9), reserved=50)
    desk.settle()
    found = desk.after_power_cut().found["a"]
    assert found.reserved == 50
    assert found.state == ConsumerState(50, 9, 50, 9)


# -- commits ------------------------------------------------------------------------------------------


def test_nobody_is_told_before_the_commit_has_ended() -> None:
    desk = Desk()
    desk.create("a")
    told = desk.outcomes()
    assert told == []
    desk.settle()
    assert told == [None]
    assert desk.fs.transcript[-2:] == ["sync 0000000001.log", "sync_folder consumers"]


def test_whoever_asks_when_all_is_durable_is_told_at_once() -> None:
    desk = Desk()
    desk.create("a")
    desk.settle()
    operations = desk.fs.operations
    told = desk.outcomes()
    desk.settle()
    assert told == [None]
    assert desk.fs.operations == operations


def test_a_failed_commit_is_told_and_tried_again() -> None:
    desk = Desk()
    desk.create("a")
    desk.settle()
    desk.fs.fail(errno.ENOSPC, kind="write")
    desk.journal.change("a", delivered(1, 2))
    told = desk.outcomes()
    desk.settle()
    assert [type(each) for each in told] == [StoreError]
    assert desk.journal.failure is told[0]
    desk.world.advance(3)
    assert desk.journal.failure is not None
    desk.fs.heal()
    desk.world.advance(1)
    assert desk.journal.failure is None
    assert told[1:] == []
    assert set(desk.after_power_cut().state("a").pending) == {1, 2}


def test_what_is_said_while_a_commit_runs_is_durable_with_the_next() -> None:
    desk = Desk()
    jobs: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
    desk.world.run_in_worker = lambda work, done: jobs.append((work, done))  # type: ignore[method-assign]
    desk.create("a")
    first = desk.outcomes()
    desk.settle()
    desk.journal.change("a", delivered(1, 2))
    second = desk.outcomes()
    desk.settle()
    assert (first, second) == ([], [])
    for expected in (([None], []), ([None], [None])):
        ((work, done),) = jobs
        jobs.clear()
        work()
        done(None)
        assert (first, second) == expected


def test_other_errors_than_those_of_the_store_are_told_as_one() -> None:
    desk = Desk()
    desk.create("a")
    told = desk.outcomes()
    desk.journal.commit_failed(ZeroDivisionError("why"))
    assert [str(each) for each in told] == [f"cannot commit {FOLDER}: ZeroDivisionError: why"]


def test_closing_makes_everything_durable() -> None:
    desk = Desk()
    desk.create("a")
    told = desk.outcomes()
    desk.journal.close()
    assert told == [None]
    assert set(desk.after_power_cut().found) == {"a"}


def test_closing_on_a_full_disk_says_so_and_closes() -> None:
    desk = Desk()
    desk.create("a")
    desk.settle()
    desk.journal.change("a", delivered(1, 2))
    desk.fs.fail(errno.ENOSPC, kind="write")
    told = desk.outcomes()
    with pytest.raises(StoreError):
        desk.journal.close()
    assert [type(each) for each in told] == [StoreError]
    desk.fs.heal()
    operations = desk.fs.operations
    desk.world.advance(10)
    assert desk.fs.operations == operations


def test_whoever_waits_for_a_journal_that_is_abandoned_is_told() -> None:
    desk = Desk()
    desk.create("a")
    told = desk.outcomes()
    desk.journal.abandon()
    desk.settle()
    assert [type(each) for each in told] == [StoreError]
    assert desk.fs.paths() == []


def test_without_sync_the_bytes_are_written_and_synced_later() -> None:
    desk = Desk()
    desk.journal.sync = False
    desk.create("a")
    told = desk.outcomes()
    desk.settle()
    assert told == [None]
    assert "sync 0000000001.log" not in desk.fs.transcript
    desk.world.advance(120)
    assert "sync 0000000001.log" in desk.fs.transcript


# -- checkpoints --------------------------------------------------------------------------------------


def busy(desk: Desk, *names: str, entries: int = 100) -> None:
    """Write many changes, after which nothing is pending."""
    for number in range(1, entries + 1):
        for name in names:
            start = number * 10
            desk.journal.change(name, delivered(start, start + 9, start - 1))
            desk.journal.change(name, acked(start + 9, start + 9, *range(start, start + 10)))
        desk.settle()


def test_a_checkpoint_is_due_when_much_more_was_written_than_is_alive() -> None:
    desk = Desk(smallest_log=3000)
    desk.create("a")
    assert not desk.journal.due_checkpoint
    busy(desk, "a", entries=50)
    assert desk.journal.due_checkpoint
    desk.checkpoint("a")
    assert not desk.journal.due_checkpoint


def test_two_checkpoints_take_away_what_was_before_the_first() -> None:
    desk = Desk(segment_size=1000, smallest_log=3000)
    desk.create("a")
    desk.create("b")
    for _ in range(6):
        busy(desk, "a", "b", entries=50)
        expected = {name: each.state for name, each in desk.copy().found.items()}
        desk.checkpoint("a", "b")
        assert {name: each.state for name, each in desk.copy().found.items()} == expected
    assert desk.journal.log.messages < 500
    assert sum(path.endswith(".log") for path in desk.fs.paths()) < 30
    assert desk.journal.damages == []


def test_the_log_does_not_grow_when_every_process_makes_one_checkpoint_only() -> None:
    desk = Desk(segment_size=1000, smallest_log=3000)
    desk.create("a")
    sizes = []
    for _ in range(5):
        busy(desk, "a", entries=30)
        desk.checkpoint("a")
        desk = desk.restarted()
        sizes.append(desk.journal.log.messages)
    assert sizes[-1] <= sizes[1]
    assert set(desk.found) == {"a"}


def test_a_checkpoint_is_written_a_slice_at_a_time() -> None:
    desk = Desk(slice_size=1000)
    names = [f"c{number}" for number in range(50)]
    for name in names:
        desk.create(name, ConsumerState(1, 1, 0, 0, {1: (1, 5)}))
    desk.settle()
    before = len(desk.fs.transcript)
    asked = []

    def all_alive() -> Iterator[Alive]:
        for name in names:
            asked.append(name)
            yield alive(name, ConsumerState(2, 2, 1, 1, {2: (2, 5)}))

    desk.journal.checkpoint(all_alive())
    assert 0 < len(asked) < 10
    assert desk.journal.checkpointing
    # What happens meanwhile is kept as well.
    desk.journal.change("c49", Changes(3, 3, 1, 1, 0, [(3, 3, 5)]))
    desk.journal.delete("c48")
    desk.create("new")
    desk.settle()
    assert asked == names
    assert not desk.journal.checkpointing
    assert desk.fs.transcript[before:].count("sync 0000000001.log") > 5
    found = desk.after_power_cut().found
    assert set(found) == {*names, "new"} - {"c48"}
    assert set(found["c0"].state.pending) == {2}
    assert found["c49"].torn is False


def letter(sseq: int) -> OpenLetter:
    return OpenLetter("c", CREATED, sseq, "the stream of letters", sseq, b"dead", b"", b"x" * 100)


def test_a_checkpoint_has_the_letters_that_are_not_stored_when_their_turn_comes() -> None:
    desk = Desk(slice_size=1000)
    desk.create("c")
    numbers = [desk.journal.put_letter(letter(sseq)) for sseq in range(1, 101)]
    desk.settle()
    before = len(desk.fs.transcript)
    desk.journal.checkpoint([alive("c", ConsumerState())])
    assert desk.journal.checkpointing
    stored, late = numbers[-10:], letter(101)
    for number in stored:
        desk.journal.letter_stored(number)
    numbers.append(desk.journal.put_letter(late))
    desk.settle()
    assert not desk.journal.checkpointing
    assert desk.fs.transcript[before:].count("sync 0000000001.log") > 5
    open_letters = {number: each for number, each in desk.journal.letters.items() if number not in stored}
    assert list(open_letters) == [number for number in numbers if number not in stored]
    desk.checkpoint("c")
    desk.checkpoint("c")
    assert desk.after_power_cut().journal.letters == open_letters


def test_a_checkpoint_leaves_out_consumers_that_were_deleted_or_made_again() -> None:
    desk = Desk()
    for name in "ab":
        desk.create(name)
    old = [alive(name, ConsumerState(9, 9, 9, 9)) for name in "ab"]
    desk.journal.delete("a")
    desk.journal.delete("b")
    desk.journal.put_config("b", config_of("b"), CREATED + 1)
    desk.journal.checkpoint(old)
    desk.settle()
    found = desk.after_power_cut().found
    assert set(found) == {"b"}
    assert found["b"].state == ConsumerState()


def test_a_checkpoint_while_one_is_under_way_changes_nothing() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.checkpoint([alive("a", ConsumerState(1, 1, 1, 1))])
    desk.journal.checkpoint([alive("a", ConsumerState(2, 2, 2, 2))])
    desk.settle()
    assert desk.after_power_cut().state("a") == ConsumerState(1, 1, 1, 1)


def test_a_checkpoint_keeps_what_is_reserved() -> None:
    desk = Desk()
    desk.create("a", reserved=100)
    desk.checkpoint("a")
    desk.checkpoint("a")
    assert desk.after_power_cut().found["a"].reserved == 100


def test_a_checkpoint_goes_on_when_the_disk_does() -> None:
    desk = Desk(slice_size=300)
    names = [f"c{number}" for number in range(10)]
    for name in names:
        desk.create(name)
    desk.settle()
    desk.journal.checkpoint([alive(name, ConsumerState()) for name in names])
    desk.fs.fail(errno.ENOSPC, kind="write")
    desk.settle()
    assert desk.journal.checkpointing
    desk.fs.heal()
    desk.world.advance(2)
    assert not desk.journal.checkpointing
    assert set(desk.after_power_cut().found) == set(names)


def test_closing_in_the_middle_of_a_checkpoint_loses_nothing() -> None:
    desk = Desk(slice_size=300)
    names = [f"c{number}" for number in range(10)]
    for name in names:
        desk.create(name, ConsumerState(5, 5, 5, 5))
    desk.journal.checkpoint([alive(name, ConsumerState(5, 5, 5, 5)) for name in names])
    assert desk.journal.checkpointing
    again = desk.restarted()
    assert {name: each.state.delivered_sseq for name, each in again.found.items()} == dict.fromkeys(names, 5)


# -- damage -------------------------------------------------------------------------------------------


def test_changes_that_are_lost_cost_deliveries_only() -> None:
    desk = Desk()
    desk.create("a")  # 1
    desk.settle()
    desk.journal.change("a", delivered(1, 5))  # 3; 2 is the copy of 1
    desk.journal.change("a", delivered(6, 10))  # 4, which is lost
    desk.journal.change("a", acked(10, 3, 1, 2, 3, 5, 9))  # 5
    desk.settle()
    desk.damage_entry(4)
    again = desk.restarted()
    found = again.found["a"]
    # 4 waits for its ack, 5 is settled, and everything from 6 on goes out again.
    assert set(found.state.pending) == {4}
    assert found.state.delivered_sseq == 5
    assert found.state.floor_sseq == 3
    assert found.state.delivered_dseq == 10
    assert found.torn
    assert any("consumer a lost track" in damage for damage in again.journal.damages)
    assert again.journal.due_checkpoint


def test_after_a_loss_the_floor_of_what_follows_counts() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 5))
    desk.journal.change("a", delivered(6, 10))
    desk.journal.change("a", acked(10, 8, *range(1, 9)))
    desk.settle()
    desk.damage_entry(4)
    state = desk.restarted().state("a")
    assert (state.delivered_sseq, state.floor_sseq) == (8, 8)
    assert state.pending == {}


def test_what_is_acked_after_a_loss_stays_so() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 5))
    desk.journal.change("a", delivered(6, 10))
    desk.settle()
    desk.damage_entry(3)
    again = desk.restarted()
    assert again.found["a"].torn
    assert again.state("a").delivered_sseq == 0
    again.journal.change("a", Changes(13, 3, 10, 0, 0, [(1, 11, 5), (2, 12, 5), (3, 13, 5)]))
    again.journal.change("a", Changes(13, 3, 10, 0, 0, [], [2]))
    again.settle()
    found = again.after_power_cut().found["a"]
    assert set(found.state.pending) == {1, 3}
    assert not found.torn


def test_a_lost_snapshot_of_a_checkpoint_has_the_one_before_behind_it() -> None:
    desk = Desk()
    desk.create("a")
    busy(desk, "a")
    desk.checkpoint("a")
    busy(desk, "a", entries=3)
    desk.checkpoint("a")
    desk.damage_entry(desk.journal.log.last_seq - 1)
    found = desk.restarted().found["a"]
    assert found.config == config_of("a")
    assert found.state.delivered_sseq == 39
    assert found.state.pending == {}


@pytest.mark.parametrize("lost", [1, 2])
def test_one_of_the_two_entries_of_a_new_consumer_is_enough(lost: int) -> None:
    desk = Desk()
    desk.create("a", ConsumerState(0, 7, 0, 7))
    desk.journal.change("a", delivered(8, 9, 7))
    desk.settle()
    desk.damage_entry(lost)
    again = desk.restarted()
    assert set(again.state("a").pending) == {8, 9}
    assert not again.found["a"].torn
    assert again.journal.damages  # it is told all the same


@pytest.mark.parametrize("lost", [1, 2])
def test_an_entry_is_written_again_although_nothing_follows(lost: int) -> None:
    desk = Desk()
    desk.create("a")
    desk.settle()
    assert desk.journal.log.last_seq == 1
    desk.world.advance(2.0)
    desk.settle()
    assert desk.journal.log.last_seq == 2
    desk.damage_entry(lost)
    assert set(desk.after_power_cut().found) == {"a"}


@pytest.mark.parametrize("lost", [1, 2])
def test_a_start_writes_an_entry_again_if_a_crash_came_before(lost: int) -> None:
    desk = Desk()
    desk.create("a")
    desk.settle()
    again = desk.after_power_cut()
    again.journal.change("a", delivered(1, 2))
    again.settle()
    again.damage_entry(lost)
    last = again.after_power_cut()
    assert set(last.found) == {"a"}
    assert set(last.state("a").pending) == {1, 2}


@pytest.mark.parametrize("lost", [3, 4])
def test_one_of_the_two_entries_of_a_deletion_is_enough(lost: int) -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.delete("a")
    desk.create("b")
    desk.settle()
    desk.damage_entry(lost)
    assert set(desk.restarted().found) == {"b"}


def test_a_consumer_whose_configuration_is_lost_is_reported_and_given_up() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 2))
    desk.settle()
    desk.damage_entry(1)
    desk.damage_entry(2)
    again = desk.restarted()
    assert again.found == {}
    assert any("a consumer is lost" in damage for damage in again.journal.damages)
    once_more = again.restarted()
    assert not any("a consumer is lost" in damage for damage in once_more.journal.damages)


def test_a_deletion_that_is_lost_does_not_mix_two_consumers_of_one_name() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.change("a", delivered(1, 9))
    desk.journal.delete("a")  # 4 and 5
    desk.journal.put_config("a", config_of("a"), CREATED + 1)
    desk.settle()
    desk.damage_entry(4)
    desk.damage_entry(5)
    assert desk.restarted().state("a") == ConsumerState()


def test_a_journal_of_a_later_version_is_left_alone() -> None:
    desk = Desk()
    entry = b"\x21" + encode_config(1, "a", 1, b"{}")[1:]
    desk.journal.log.append(b"c", entry, 0, 0, len(entry), 0, 0)
    desk.journal.close()
    journal = Journal(desk.fs, FOLDER, desk.committer, desk.world)
    with pytest.raises(StoreError, match="no kind 1 of entry in version 2"):
        journal.recover()
    journal.abandon()


def test_a_configuration_that_cannot_be_read_stops_the_journal() -> None:
    desk = Desk()
    entry = encode_config(1, "a", 1, b"{")
    desk.journal.log.append(b"c", entry, 0, 0, len(entry), 0, 0)
    desk.journal.close()
    journal = Journal(desk.fs, FOLDER, desk.committer, desk.world)
    with pytest.raises(StoreError, match="configuration of a"):
        journal.recover()
    journal.abandon()


def test_an_entry_that_makes_no_sense_is_reported() -> None:
    desk = Desk()
    desk.create("a")
    desk.journal.log.append(b"c", b"\x13", 0, 0, 1, 0, 0)
    again = desk.restarted()
    assert set(again.found) == {"a"}
    assert any("makes no sense" in damage for damage in again.journal.damages)


def test_a_crash_before_the_first_commit_leaves_nothing() -> None:
    desk = Desk(CrashFileSystem())
    desk.create("a")
    assert desk.after_power_cut(Keep.NOTHING).found == {}
