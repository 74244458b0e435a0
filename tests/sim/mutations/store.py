"""Deliberate bugs of the store, the commit journal, starts and files beside the log; see ``mutations``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from millstream.jetstream.consumers.journal import Journal
from millstream.jetstream.dedupe import files as id_files
from millstream.jetstream.dedupe.files import IdFiles
from millstream.jetstream.stream import meta, start_sync
from millstream.jetstream.stream.committer import Committer
from millstream.jetstream.stream.eraser import Eraser
from millstream.jetstream.stream.staging_folder import Staging
from millstream.server.journal_files import JournalFiles
from millstream.store import commit as commits
from millstream.store import commit_journal, recovery, summary, unsynced
from millstream.store.block_file import BlockWriter
from millstream.store.commit import Commit
from millstream.store.compaction import Compaction
from millstream.store.erasure import Erasure
from millstream.store.log_removal import LogRemoval
from millstream.store.log_repair import LogRepair
from millstream.store.log_upkeep import LogUpkeep
from millstream.store.log_writer import LogAppender
from millstream.store.next_commit import NextCommit
from millstream.store.recovery import Recovery
from millstream.store.segment import Segment

Replaced = tuple[Any, str, Any]  # owner, name, and what it is replaced by

# -- compaction and erasure -----------------------------------------------------------------------


def _compaction_drops_one() -> list[Replaced]:
    """The bit before is looked at: a live message behind a removed one is left out."""
    original = Compaction._was_removed

    def was_removed(self: Any, ordinal: int) -> bool:
        return original(self, ordinal - 1) if ordinal else original(self, ordinal)

    return [(Compaction, "_was_removed", was_removed)]


def _compaction_ignores_meanwhile() -> list[Replaced]:
    return [(Segment, "removed_since", lambda self, removed: [])]


def _compaction_forgets_removals() -> list[Replaced]:
    original = Compaction._write_others

    def write_others(self: Any, fresh: Any, file: Any) -> None:
        self._removals = []
        original(self, fresh, file)

    return [(Compaction, "_write_others", write_others)]


def _compaction_forgets_floor() -> list[Replaced]:
    original = Compaction._write_others

    def write_others(self: Any, fresh: Any, file: Any) -> None:
        fresh.floor = 0
        original(self, fresh, file)

    return [(Compaction, "_write_others", write_others)]


def _rewritten_file_not_synced() -> list[Replaced]:
    original_create = Compaction.create

    def create(self: Any) -> Any:
        file = original_create(self)
        file.sync = lambda: None
        return file

    return [(Compaction, "create", create)]


def _rewritten_while_not_durable() -> list[Replaced]:
    """A job begins although the removals that it relies on may be lost."""
    original = LogUpkeep.begin_job

    def begin_job(self: Any, segment: Any) -> Any:
        job = original(self, segment)
        if not job.ready and job in self._gathered.work.jobs:
            self._gathered.work.jobs.remove(job)
            job.old = job.old or self._chain.tables.file(segment)
            job.ready = True
        return job

    return [(LogUpkeep, "begin_job", begin_job)]


def _last_block_left_out() -> list[Replaced]:
    original = BlockWriter.finish

    def finish(self: Any) -> None:
        if self._lengths:
            self._waiting.clear()
        original(self)

    return [(BlockWriter, "finish", finish)]


def _erases_a_neighbour() -> list[Replaced]:
    original = Erasure.__init__

    def init(self: Any, fs: Any, folder: str, segment: Any, ordinals: list[int]) -> None:
        more = [each + 1 for each in ordinals if each + 1 < segment.count][:1]
        original(self, fs, folder, segment, sorted({*ordinals, *more}))

    return [(Erasure, "__init__", init)]


def _nothing_erased_in_time() -> list[Replaced]:
    return [(Eraser, "watch", lambda self, stream: None)]


def _erasure_left_out() -> list[Replaced]:
    def erase(self: Any, file: Any, span: list[int]) -> None: ...

    return [(Erasure, "_erase", erase)]


def _deletion_does_not_overwrite() -> list[Replaced]:
    def overwrite(self: Any) -> None: ...

    return [(Commit, "_overwrite", overwrite)]


def _deletion_answered_with_copy_in_journal() -> list[Replaced]:
    return [(Committer, "_waits_for_journal", lambda self, stream, ticket: False)]


def _interrupted_erasure_not_repeated() -> list[Replaced]:
    return [(Recovery, "_erase_again", lambda self: None)]


def _dropped_file_stays() -> list[Replaced]:
    def remove(self: Any, segment: Any) -> None:
        if not segment.number % 2:
            self._fs.remove(commits.summary_path(self._folder, segment.number))
            return
        original(self, segment)

    original = Commit._remove
    return [(Commit, "_remove", remove)]


# -- removals, floors, summaries ------------------------------------------------------------------


def _summary_without_floor() -> list[Replaced]:
    def encode(segment: Any, all_bytes: int) -> bytes:
        floor, segment.floor = segment.floor, 0
        try:
            return original(segment, all_bytes)
        finally:
            segment.floor = floor

    original = summary.encode
    return [(summary, "encode", encode)]


def _summary_without_removals() -> list[Replaced]:
    def sound_summary(self: Any, number: int, file: Any) -> Any:
        found = original(self, number, file)
        if found is not None:
            found.removals = []
        return found

    original = Recovery._sound_summary
    return [(Recovery, "_sound_summary", sound_summary)]


def _summary_of_another_size_believed() -> list[Replaced]:
    def sound_summary(self: Any, number: int, file: Any) -> Any:
        try:
            found = recovery.decode(self._fs.read_all(recovery.summary_path(self._folder, number)))
        except recovery.StoreError:
            return None
        return found if found is not None and found.number == number else None

    return [(Recovery, "_sound_summary", sound_summary)]


def _dropped_segment_takes_its_word() -> list[Replaced]:
    """Removals that a dropped file records in others are not written again."""
    return [(LogRemoval, "needed_removals", lambda self, segment: [])]


def _dropped_segment_takes_its_floor() -> list[Replaced]:
    def drop(self: Any, segment: Any) -> None:
        floor, segment.floor = segment.floor, 0
        try:
            original(self, segment)
        finally:
            segment.floor = floor

    original = LogRemoval._drop
    return [(LogRemoval, "_drop", drop)]


def _files_removed_before_the_commit() -> list[Replaced]:
    def run(self: Any, sync: bool) -> None:
        with suppress(commits.StoreError):
            self._remove_doomed()
        original(self, sync)

    original = Commit._run
    return [(Commit, "_run", run)]


def _failed_commit_forgets_its_files() -> list[Replaced]:
    """Work that a failed commit left is not put back."""

    def put_back(self: Any, commit: Any, left: Any) -> None:
        if not commit.synced:
            left.doomed, left.unsummarized = [], []
        original(self, commit, left)

    original = NextCommit.put_back
    return [(NextCommit, "put_back", put_back)]


def _failed_commit_forgets_unsynced() -> list[Replaced]:
    def put_back(self: Any, commit: Any, left: Any) -> None:
        if not commit.synced and not commit.journaled:
            left.unsynced = []
        original(self, commit, left)

    original = NextCommit.put_back
    return [(NextCommit, "put_back", put_back)]


def _returned_behind_those_since() -> list[Replaced]:
    def return_pending(self: Any, taken: Any) -> None:
        failed = taken.take()
        taken.append(self.pending.peek())
        taken.append(failed)
        self.pending, self.writing = taken, None

    return [(Segment, "return_pending", return_pending)]


# -- failed syncs ---------------------------------------------------------------------------------


def _not_written_again_after_failed_sync() -> list[Replaced]:
    def restore(self: Any, segment: Any, end: int) -> None: ...

    def put(self: Any, file: Any, start: int, data: Any) -> None:
        commits._unfill(file)
        before = max(0, file.size() - start)
        if len(data) > before:
            file.append(data[before:])

    return [(Commit, "_restore", restore), (Commit, "_put", put)]


def _no_notes() -> list[Replaced]:
    def note(fs: Any, folder: str, number: int, start: int | None = None) -> None: ...

    return [(unsynced, "note", note)]


def _note_begins_too_late() -> list[Replaced]:
    def note(fs: Any, folder: str, number: int, start: int | None = None) -> None:
        original(fs, folder, number, None if start is None else start + 700)

    original = unsynced.note
    return [(unsynced, "note", note)]


def _note_cleared_by_failure() -> list[Replaced]:
    def doubt(self: Any, segment: Any) -> None:
        original(self, segment)
        unsynced.clear(self._fs, self._folder, segment.number)

    original = Commit._doubt
    return [(Commit, "_doubt", doubt)]


def _start_syncs_nothing() -> list[Replaced]:
    def sync_streams(fs: Any, listings: Any, threads: int, **_: Any) -> set[str]:
        return set(listings)

    from millstream.jetstream import account

    found = [each for each in (account, start_sync) if hasattr(each, "sync_streams")]
    return [(each, "sync_streams", sync_streams) for each in found]


# -- damage and ends ------------------------------------------------------------------------------


def _damaged_end_uses_no_sequences() -> list[Replaced]:
    def cut_tail(self: Any, segment: Any, data: bytes, found: Any) -> None:
        last = segment.last_seq
        original(self, segment, data, found)
        segment.last_seq = last

    original = Recovery._cut_tail
    return [(Recovery, "_cut_tail", cut_tail)]


def _missing_records_not_noticed() -> list[Replaced]:
    return [(Recovery, "_check_end", lambda self, tail, following: None)]


def _damage_not_reported() -> list[Replaced]:
    return [(Recovery, "_report", lambda self, number, gap, reason, messages, sequences: None)]


def _read_damage_not_reported() -> list[Replaced]:
    def report_damage(self: Any, segment: Any, ordinal: int) -> None:
        self._removal.remove(segment.seq_at(ordinal))

    return [(LogRepair, "report_damage", report_damage)]


def _erasure_taken_for_damage() -> list[Replaced]:
    return [(recovery._Removed, "has_all_of", lambda self, gap: False)]


def _removals_taken_for_losses() -> list[Replaced]:
    """Removed messages in a damaged place are reported as lost."""
    return [(recovery._Removed, "count_alive", lambda self, gap: max(0, gap.last_seq + 1 - gap.first_seq))]


def _damage_costs_the_rest() -> list[Replaced]:
    """Nothing behind a damaged record is looked for."""
    from millstream.store import scan

    return [(scan, "_resume", lambda segment, data, at, end, record: -1)]


def _length_not_mended() -> list[Replaced]:
    return [(recovery, "mend_length", lambda file, path, data, found: False)]


# -- commit journal -------------------------------------------------------------------------------


def _journal_of_another_stream_replayed() -> list[Replaced]:
    def replay(fs: Any, folder: str, is_there: Any) -> Any:
        return original(fs, folder, lambda log, identity: bool(fs.list(log.rpartition("/")[0])))

    original = commit_journal.replay
    return [(commit_journal, "replay", replay)]


def _journal_replays_last_batch_only() -> list[Replaced]:
    def read_batches(data: bytes, path: str = "") -> Any:
        return iter(list(original(data, path))[-1:])

    original = commit_journal.read_batches
    return [(commit_journal, "read_batches", read_batches)]


def _journal_stops_at_torn_batch() -> list[Replaced]:
    def put_back(file: Any, path: str, entry: Any) -> int:
        return original(file, path, entry) if entry.base >= file.size() else 0

    original = commit_journal._put_back
    return [(commit_journal, "_put_back", put_back)]


def _journal_replayed_unsynced() -> list[Replaced]:
    def replay(fs: Any, folder: str, is_there: Any) -> Any:
        before, fs.sync_all = fs.sync_all, lambda folder, below: True
        try:
            return original(fs, folder, is_there)
        finally:
            fs.sync_all = before

    original = commit_journal.replay
    return [(commit_journal, "replay", replay)]


def _journal_forgets_doubts() -> list[Replaced]:
    return [(JournalFiles, "failed", lambda self, key: None), (JournalFiles, "_doubt_all", lambda self: None)]


def _journal_batches_overlap() -> list[Replaced]:
    def batch_begins(self: Any, file: Any, size: int) -> int:
        position = int(original(self, file, size))
        if position // commit_journal.ALIGNMENT % 4 == 2:
            file.end -= commit_journal.ALIGNMENT
        return position

    original = JournalFiles.batch_begins
    return [(JournalFiles, "batch_begins", batch_begins)]


def _journal_tells_synced_too_much() -> list[Replaced]:
    """A log counts as synced although its file has grown since."""

    def tell_some(self: Any) -> None:
        while self._to_tell:
            _, log = self._to_tell.popleft()
            log.was_synced()

    return [(JournalFiles, "_tell_some", tell_some)]


def _journal_cleared_for_active_file() -> list[Replaced]:
    """A synced file of the journal vouches for nothing, and neither does the one that is written."""

    def all_synced(self: Any, file: Any) -> None:
        original(self, file)
        if self.active is not None and self.active is not file:
            self.active.unsynced.clear()

    original = JournalFiles._all_synced
    return [(JournalFiles, "_all_synced", all_synced)]


# -- files of consumers, streams and ids ----------------------------------------------------------


def _checkpoint_removes_too_much() -> list[Replaced]:
    def go_on(self: Any) -> None:
        self._previous = max(self._previous, self._last)
        original(self)

    original = Journal._go_on_with_checkpoint
    return [(Journal, "_go_on_with_checkpoint", go_on)]


def _checkpoint_forgets_meanwhile() -> list[Replaced]:
    """Acks while a state is copied are not part of the copy."""

    def change(self: Any, name: str, changes: Any) -> None:
        copied, self._copied = self._copied, ""
        original(self, name, changes)
        self._copied = copied

    original = Journal.change
    return [(Journal, "change", change)]


def _entries_written_once() -> list[Replaced]:
    return [(Journal, "_put_twice", lambda self, entry: self._put(entry))]


def _configuration_not_durable() -> list[Replaced]:
    def write(fs: Any, folder: str, found: Any) -> None:
        fs.replace(f"{folder}/meta.json", meta._encoded(found), sync=False)

    return [(meta, "write", write)]


def _new_stream_not_durable() -> list[Replaced]:
    def create(fs: Any, folder: str, found: Any) -> None:
        file = fs.open(f"{folder}/meta.json", create=True)
        file.append(meta._encoded(found))
        file.close()
        fs.sync_folder(folder)

    return [(meta, "create", create)]


def _restored_stream_not_durable() -> list[Replaced]:
    def switch(self: Any) -> None:
        sync, self.fs.sync_folder = self.fs.sync_folder, lambda path: None
        try:
            original(self)
        finally:
            self.fs.sync_folder = sync

    original = Staging.switch
    return [(Staging, "switch", switch)]


def _ids_of_uncommitted_messages() -> list[Replaced]:
    """A file has ids of messages that are not durable, and a start believes it."""
    from millstream.jetstream.stream.id_keeper import IdKeeper

    def load(self: Any, names: Any, last_seq: int) -> Any:
        return original(self, names, 1 << 60)

    def write(self: Any) -> None:
        log = self._stream.log
        before, log.state.committed = log.state.committed, log.state.last_seq
        try:
            original_write(self)
        finally:
            log.state.committed = before

    original, original_write = IdFiles.load, IdKeeper.write
    return [(IdFiles, "load", load), (IdKeeper, "write", write)]


def _merging_ids_loses_a_file() -> list[Replaced]:
    def merged(generations: Any, builder: Any, given_up: Any) -> Any:
        return original(generations[1:], builder, given_up)

    original = id_files._merged
    return [(id_files, "_merged", merged)]


def _used_sequences_forgotten() -> list[Replaced]:
    """A stream that was emptied does not say which sequences it used."""
    return [(LogAppender, "write_used", lambda self, segment: None)]


STORE_MUTATIONS: dict[str, Callable[[], list[Replaced]]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _compaction_drops_one,
        _compaction_ignores_meanwhile,
        _compaction_forgets_removals,
        _compaction_forgets_floor,
        _rewritten_file_not_synced,
        _rewritten_while_not_durable,
        _last_block_left_out,
        _erases_a_neighbour,
        _nothing_erased_in_time,
        _erasure_left_out,
        _deletion_does_not_overwrite,
        _deletion_answered_with_copy_in_journal,
        _interrupted_erasure_not_repeated,
        _dropped_file_stays,
        _summary_without_floor,
        _summary_without_removals,
        _summary_of_another_size_believed,
        _dropped_segment_takes_its_word,
        _dropped_segment_takes_its_floor,
        _files_removed_before_the_commit,
        _failed_commit_forgets_its_files,
        _failed_commit_forgets_unsynced,
        _returned_behind_those_since,
        _not_written_again_after_failed_sync,
        _no_notes,
        _note_begins_too_late,
        _note_cleared_by_failure,
        _start_syncs_nothing,
        _damaged_end_uses_no_sequences,
        _missing_records_not_noticed,
        _damage_not_reported,
        _read_damage_not_reported,
        _erasure_taken_for_damage,
        _removals_taken_for_losses,
        _damage_costs_the_rest,
        _length_not_mended,
        _journal_of_another_stream_replayed,
        _journal_replays_last_batch_only,
        _journal_stops_at_torn_batch,
        _journal_replayed_unsynced,
        _journal_forgets_doubts,
        _journal_batches_overlap,
        _journal_tells_synced_too_much,
        _journal_cleared_for_active_file,
        _checkpoint_removes_too_much,
        _checkpoint_forgets_meanwhile,
        _entries_written_once,
        _configuration_not_durable,
        _new_stream_not_durable,
        _restored_stream_not_durable,
        _ids_of_uncommitted_messages,
        _merging_ids_loses_a_file,
        _used_sequences_forgotten,
    )
}
