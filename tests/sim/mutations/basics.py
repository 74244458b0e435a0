"""Bugs of every part: the first that anybody would think of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from millstream.jetstream import parts
from millstream.jetstream.consumers import dead_letters
from millstream.jetstream.consumers.ack_sink import Acknowledging
from millstream.jetstream.consumers.expiry import Expiry
from millstream.jetstream.consumers.interest import Interest
from millstream.jetstream.consumers.journal import Journal
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.manager import ConsumerManager
from millstream.jetstream.consumers.state_saver import Keeper
from millstream.jetstream.dedupe.window import Dedupe
from millstream.jetstream.folder_places import FolderPlaces
from millstream.jetstream.publish import counter, fast_batch, rules
from millstream.jetstream.publish.counter import Counters
from millstream.jetstream.publish.ingest import Ingest
from millstream.jetstream.publish.schedule import Schedules
from millstream.jetstream.publish.ttl import TtlExpiry
from millstream.jetstream.sourcing.positions import Positions
from millstream.jetstream.stream import meta
from millstream.jetstream.stream.commits import StreamCommits
from millstream.jetstream.stream.committer import Committer
from millstream.jetstream.stream.retention import Retention
from millstream.jetstream.stream.ticket import Ticket
from millstream.server.journal_files import JournalFiles
from millstream.store import commit_journal, damaged_end, fill, recovery, unsynced
from millstream.store.commit import Commit
from millstream.store.log_removal import LogRemoval
from millstream.store.log_writer import LogAppender
from millstream.store.recovery import Recovery
from tests.sim.machine import workers

Replaced = tuple[Any, str, Any]  # owner, name, and what it is replaced by


def _sync_left_out() -> list[Replaced]:
    def sync(self: Any, segment: Any, end: int) -> None:
        segment.synced = end

    return [(Commit, "_sync", sync)]


def _sync_of_fast_path_left_out() -> list[Replaced]:
    original = workers.write_plainly

    def write(file: Any, buffer: Any, *, ahead: bool) -> tuple[int, int]:
        file.sync = lambda: None
        try:
            return original(file, buffer, ahead=ahead)
        finally:
            del file.sync

    return [(workers, "write_plainly", write)]


def _folder_not_synced() -> list[Replaced]:
    original = Commit._write

    def write(self: Any, segment: Any, buffer: Any) -> None:
        before = self.folder_changed
        original(self, segment, buffer)
        self.folder_changed = before

    return [(Commit, "_write", write)]


def _ack_before_commit() -> list[Replaced]:
    original = Committer._hand_over

    def hand_over(self: Any, stream: Any, commit: Any, publisher: int) -> None:
        stream.commit_durable()
        stream.commit_ended()
        original(self, stream, commit, publisher)

    return [(Committer, "_hand_over", hand_over)]


def _failed_sync_ignored() -> list[Replaced]:
    original = Ticket.plain_ended

    def plain_ended(self: Any, failed_write: int, failed_sync: int) -> None:
        original(self, failed_write, 0)

    def sync(self: Any, segment: Any, end: int) -> None:
        from millstream.store.errors import StoreError

        with suppress(StoreError):
            self._open(segment, create=False).sync()
        segment.synced = end

    return [(Ticket, "plain_ended", plain_ended), (Commit, "_sync", sync)]


def _failed_write_ignored() -> list[Replaced]:
    original = Ticket.plain_ended

    def plain_ended(self: Any, failed_write: int, failed_sync: int) -> None:
        original(self, 0, failed_sync)

    return [(Ticket, "plain_ended", plain_ended)]


def _no_end_mark() -> list[Replaced]:
    original = fill.plan

    def plan(buffer: Any, fill: bool) -> tuple[int, bytes]:
        return original(buffer, fill)[0], b""

    return [(fill, "plan", plan)]


def _dedupe_forgotten_at_start() -> list[Replaced]:
    return [(parts, "restore", lambda stream: None)]


def _dedupe_forgets_entries() -> list[Replaced]:
    original = Dedupe.add

    def add(self: Any, message_id: bytes, seq: int, now_ns: int) -> None:
        if seq % 3:
            original(self, message_id, seq, now_ns)

    return [(Dedupe, "add", add)]


def _dedupe_names_another() -> list[Replaced]:
    original = Dedupe.find

    def find(self: Any, message_id: bytes, now_ns: int) -> int:
        found = original(self, message_id, now_ns)
        return found - 1 if found > 1 else found

    return [(Dedupe, "find", find)]


def _torn_batch_kept() -> list[Replaced]:
    return [(parts, "discard_torn", lambda log, **_: None)]


def _expected_last_not_checked() -> list[Replaced]:
    original = Ingest._expect

    def expect(self: Any, *place: Any) -> bool:
        passes = original(self, *place)
        if self._disappointed and self._last % 2 == 0:
            self._disappointed = False
        return passes

    return [(rules, "lasts", _StaleLasts()), (Ingest, "_expect", expect)]


class _StaleLasts:
    """Agrees with every second stale expectation."""

    def last_of(self, log: Any, subject: bytes) -> int:
        last = int(log.last_of(subject))
        return last - 1 if last % 2 == 0 and last else last


def _floor_too_far() -> list[Replaced]:
    original = Ledger._raise_floor

    def raise_floor(self: Any, dseq: int, sseq: int) -> None:
        original(self, dseq, sseq)
        self.floor_sseq += 1

    return [(Ledger, "_raise_floor", raise_floor)]


def _acks_not_recorded() -> list[Replaced]:
    original = Journal.change

    def change(self: Any, name: str, changes: Any) -> None:
        changes.gone.clear()
        original(self, name, changes)

    return [(Journal, "change", change)]


def _confirmed_before_durable() -> list[Replaced]:
    def when_durable(self: Any, callback: Callable[[Any], None]) -> None:
        self.touch()
        callback(None)

    return [(Keeper, "when_durable", when_durable)]


def _confirmed_but_lost() -> list[Replaced]:
    """An ack is confirmed, and forgotten if the message waits for redelivery."""
    original = Acknowledging._acknowledge

    def acknowledge(self: Any, sseq: int, dseq: int, deliveries: int, *, sample: bool) -> bool:
        return True if deliveries > 1 else original(self, sseq, dseq, deliveries, sample=sample)

    return [(Acknowledging, "_acknowledge", acknowledge)]


def _never_redelivered() -> list[Replaced]:
    return [(Expiry, "plan", lambda self: None)]


def _delivered_once_too_often() -> list[Replaced]:
    original = Ledger.spent

    def spent(self: Any, sseq: int) -> bool:
        return original(self, sseq) and self.deliveries(sseq) > self.max_deliver

    return [(Ledger, "spent", spent)]


def _interest_of_one_is_enough() -> list[Replaced]:
    return [(Interest, "_is_needed", lambda self, sseq, subject: False)]


def _work_queue_keeps() -> list[Replaced]:
    original = Interest._release

    def release(self: Any, sseq: int, settled_by: Any = None) -> bool:
        return False if sseq % 5 == 0 else original(self, sseq, settled_by)

    return [(Interest, "_release", release)]


def _removals_not_recorded() -> list[Replaced]:
    original = LogAppender._write_list

    def write_list(self: Any, kind: int, seqs: list[int]) -> None:
        original(self, kind, [seq for seq in seqs if seq % 2])

    return [(LogAppender, "_write_list", write_list)]


def _purge_removes_one_less() -> list[Replaced]:
    original = LogRemoval.remove_below

    def remove_below(self: Any, seq: int) -> int:
        return original(self, seq - 1)

    return [(LogRemoval, "remove_below", remove_below)]


def _sources_begin_too_early() -> list[Replaced]:
    original = Positions.take_recovered

    def take_recovered(self: Any) -> Any:
        found = original(self)
        for position in (found or {}).values():
            position.seq = max(0, position.seq - 1)
        return found

    return [(Positions, "take_recovered", take_recovered)]


def _mirror_skips_damaged_end() -> list[Replaced]:
    return [(Recovery, "_leave_to_origin", lambda self, used: False)]


def _batch_around_lost_sector_kept() -> list[Replaced]:
    modules = (recovery, damaged_end)
    return [(module, "has_lost_sector", lambda data, start, end: False) for module in modules]


def _consumers_ahead_of_purge() -> list[Replaced]:
    return [(Committer, "hold", lambda self, stream: None)]


def _letter_of_used_sequence_dropped() -> list[Replaced]:
    return [(dead_letters, "_is_stored", lambda log, letter: log.last_seq >= letter.seq)]


def _fast_ingest_acks_too_much() -> list[Replaced]:
    original = fast_batch.encode

    def encode(value: Any) -> bytes:
        if isinstance(value, fast_batch.BatchFlowAck):
            value.seq += 1
        return original(value)

    return [(fast_batch, "encode", encode)]


def _old_messages_stay() -> list[Replaced]:
    return [(Retention, "_expire_alone", lambda self: iter(()))]


def _deletion_not_durable() -> list[Replaced]:
    def put_away(fs: Any, folder: str, grave: str) -> None:
        fs.rename(folder, grave)

    return [(meta, "put_away", put_away)]


def _removed_messages_passed_at_once() -> list[Replaced]:
    return [(ConsumerManager, "may_pass_removed", lambda self, consumer: True)]


def _removals_told_before_durable() -> list[Replaced]:
    original = StreamCommits._take_gone

    def take_gone(self: Any, gone: list[int]) -> list[int]:
        self._gone_durable = len(gone)
        return original(self, gone)

    return [(StreamCommits, "_take_gone", take_gone)]


def _header_not_mended() -> list[Replaced]:
    return [
        (recovery, "mend_header", lambda file, path, data, least: None),
        (recovery, "_begin_behind_removed", lambda segment: None),
    ]


def _journal_not_replayed() -> list[Replaced]:
    def replay(fs: Any, folder: str, is_there: Any) -> Any:
        return commit_journal.Replayed(commit_journal.journals(fs, folder), {}, [])

    return [(commit_journal, "replay", replay)]


def _journal_cleared_unsynced() -> list[Replaced]:
    def sync(self: Any, file: Any) -> None:
        self._all_synced(file)
        self._sync_more()

    return [(JournalFiles, "_sync", sync)]


def _counter_forgets() -> list[Replaced]:
    original = Counters.last

    def last(self: Any, subject: bytes) -> Any:
        return counter.Sum() if self._stream.log.last_seq % 7 == 6 else original(self, subject)

    return [(Counters, "last", last)]


def _schedule_forgotten_at_start() -> list[Replaced]:
    return [(Schedules, "restore", lambda self, record, block: True)]


def _ttl_forgotten() -> list[Replaced]:
    original = TtlExpiry.add

    def add(self: Any, seq: int, timestamp: int, ttl_s: int) -> None:
        if seq % 2:
            original(self, seq, timestamp, ttl_s)

    return [(TtlExpiry, "add", add)]


def _name_of_file_not_durable() -> list[Replaced]:
    original = Commit._run

    def run(self: Any, sync: bool) -> None:
        before, self.folder_changed = self.folder_changed, False
        try:
            original(self, sync)
        finally:
            self.folder_changed |= before and not sync

    return [(Commit, "_run", run)]


def _end_not_written_again() -> list[Replaced]:
    return [(unsynced, "write_end_again", lambda fs, path: fs.open(path, create=False))]


def _places_not_settled() -> list[Replaced]:
    return [(FolderPlaces, "doubt", lambda self, stream, moved_to="": None)]


def _floor_passes_pending() -> list[Replaced]:
    def raise_floor(self: Any, dseq: int, sseq: int) -> None:
        lowest = self.pending.after(sseq)
        self.floor_dseq = self.pending.get(lowest).dseq - 1 if lowest else dseq
        self.floor_sseq = lowest - 1 if lowest else sseq

    return [(Ledger, "_raise_floor", raise_floor)]


def _reach_not_written() -> list[Replaced]:
    def leave_to_origin(self: Any, used: int) -> bool:
        from millstream.store.errors import StoreError

        try:
            return original(self, used)
        except StoreError:
            return False

    original = Recovery._leave_to_origin
    return [(Recovery, "_leave_to_origin", leave_to_origin)]


def _sources_go_on_by_time() -> list[Replaced]:
    return [(Positions, "_only_lost", lambda self, last, first_seq: False)]


BASIC_MUTATIONS: dict[str, Callable[[], list[Replaced]]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _sync_left_out,
        _sync_of_fast_path_left_out,
        _folder_not_synced,
        _ack_before_commit,
        _failed_sync_ignored,
        _failed_write_ignored,
        _no_end_mark,
        _dedupe_forgotten_at_start,
        _dedupe_forgets_entries,
        _dedupe_names_another,
        _torn_batch_kept,
        _expected_last_not_checked,
        _floor_too_far,
        _acks_not_recorded,
        _confirmed_before_durable,
        _confirmed_but_lost,
        _never_redelivered,
        _delivered_once_too_often,
        _interest_of_one_is_enough,
        _work_queue_keeps,
        _removals_not_recorded,
        _purge_removes_one_less,
        _sources_begin_too_early,
        _mirror_skips_damaged_end,
        _batch_around_lost_sector_kept,
        _consumers_ahead_of_purge,
        _fast_ingest_acks_too_much,
        _old_messages_stay,
        _deletion_not_durable,
        _removed_messages_passed_at_once,
        _removals_told_before_durable,
        _header_not_mended,
        _journal_not_replayed,
        _journal_cleared_unsynced,
        _counter_forgets,
        _schedule_forgotten_at_start,
        _ttl_forgotten,
        _name_of_file_not_durable,
        _end_not_written_again,
        _places_not_settled,
        _floor_passes_pending,
        _reach_not_written,
        _sources_go_on_by_time,
        _letter_of_used_sequence_dropped,
    )
}
