"""The durable state of a stream's consumers: one log for all of them, so that one sync covers them all.

    put_config, snapshot, change, delete ──▶ log (``entries``) ──committer──▶ callbacks
    recover: the log, read from its beginning (``replay``) ──▶ every consumer as it was

The journal takes part in group commit like a stream.  Nothing is durable before the commit; callers that must
wait for it use ``on_outcome``.  What was confirmed then survives a crash, and deliveries that the journal
did not record are repeated.

*Deliveries are not recorded one by one*, so a crash loses the numbers of the last ones.  So that none is used
twice, `reserved` runs ahead: deliveries up to it may be sent once it is durable, and a restart begins after
it.  A snapshot at a clean stop records what was really used.

*Checkpoints* keep the log small: all configurations and states are written again, a slice with each commit,
and everything before the *previous* checkpoint is removed.  So the log has everything twice, and a damaged
entry has a replacement.  For the same reason, entries written at other times that stand for more than
themselves (configurations, snapshots, deletions) are written again before the next entry, or a second later;
after a crash in between, the next start does that.  For a checkpoint, a state is copied in slices of the
loop; what the journal is told meanwhile becomes part of the copy.

Not here: which changes there are and when they are written (consumer); bytes (``entries``); consumers that
live in memory only, which the journal does not record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from millstream.base import slices
from millstream.base.slices import Pieces
from millstream.golang.json import MOST_VALUES
from millstream.jetstream.consumers.entries import (
    EntryKind,
    StateCopy,
    UnknownEntryError,
    decode,
    encode_changes,
    encode_checkpoint,
    encode_config,
    encode_deleted,
    encode_letter,
    encode_snapshot,
    encode_stored,
)
from millstream.jetstream.consumers.replay import ConsumerReplay, ReplayedConsumer
from millstream.jetstream.consumers.saved_state import Changes, OpenLetter, Recovered
from millstream.jetstream.stream.committed_log import Committing
from millstream.jsapi.codec import JsonError, decode_written, encode
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerState
from millstream.store.cursor import Cursor
from millstream.store.errors import StoreError
from millstream.store.record import Record, record_size
from millstream.store.recovery import open_log

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, World
    from millstream.jetstream.stream.committer import Committer
    from millstream.store.fs import FileSystem

__all__ = ["Alive", "Changes", "ConsumerState", "Journal", "Recovered"]

_log = logging.getLogger("millstream.jetstream")


class Alive(NamedTuple):
    """A consumer for a checkpoint."""

    name: str
    created: int  # ns since 1970
    config: Callable[[], ConsumerConfig]  # the present one
    copy_state: Callable[[StateCopy], Pieces[Changes | None]]  # see ``Keeper.copy_state``


SEGMENT_SIZE: Final = 4 * 1024 * 1024
SMALLEST_LOG: Final = 1024 * 1024  # bytes; below it a checkpoint is not worth its while
_GROWTH: Final = 4  # a checkpoint is due when so many times its size was written since the last
SLICE_SIZE: Final = 64 * 1024  # bytes of a checkpoint to a commit
_RETRY_S: Final = 1.0  # between tries to write to a disk that failed
_COPY_AFTER_S: Final = 1.0  # an entry is written again, if nothing else was to be written
_WRITTEN_TWICE: Final = (EntryKind.CONFIG, EntryKind.SNAPSHOT, EntryKind.DELETED)
_SUBJECT: Final = b"c"  # the log wants one; ours are all the same


class _Known:
    """A consumer in the log."""

    def __init__(self, number: int, created: int, link: int, reserved: int) -> None:
        self.number = number
        self.created = created
        self.link = link  # of its last entry
        self.reserved = reserved


class Journal(Committing):
    """The journal of one stream's consumers.  Opening it reads the folder; ``recover`` reads the entries."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        committer: Committer,
        world: World,
        *,
        sync: bool = True,
        synced: bool = False,
        segment_size: int = SEGMENT_SIZE,
        smallest_log: int = SMALLEST_LOG,
        slice_size: int = SLICE_SIZE,
    ) -> None:
        log = open_log(fs, folder, segment_size=segment_size, synced=synced)
        Committing.__init__(self, committer, log, b"", in_memory=False, sync=sync)
        self.failure: StoreError | None = None  # set while the disk does not take writes
        self.damages: list[str] = []  # what a restart could not make good, for people
        self.letters: dict[int, OpenLetter] = {}  # by their numbers: those not durable in their streams
        self.closed = False
        self._folder = folder
        self._world = world
        self._smallest_log = smallest_log
        self._slice_size = slice_size
        self._known: dict[str, _Known] = {}
        self._copies: list[bytes] = []  # entries to be written once more
        self._retry: Cancel | None = None
        self._copier: Cancel | None = None
        # Checkpoints:
        self._written = 0  # bytes, since the last one began
        self._size = 0  # of the last one
        self._untidy = False  # something is damaged: have everything twice again
        self._begun = self._previous = self.log.first_seq  # where this one and the last one begin
        self._left: Iterator[Alive | int] | None = None  # consumers and letters that it has not written
        self._writing = False  # a slice of it
        self._copied = ""  # the consumer whose state is being copied for it
        self._copy = StateCopy()
        self._last = 0  # its last sequence, once it is written

    # -- at a restart -----------------------------------------------------------------------------

    def recover(self) -> dict[str, Recovered]:
        """Return every consumer in the log by name; raise StoreError if a later version wrote it."""
        replay = self._read()
        found: dict[str, Recovered] = {}
        for each in replay.consumers():
            found[each.name] = self._restored(each)
        self.letters = replay.letters
        for number in replay.nameless():
            self._report(f"a consumer is lost, or was never confirmed: number {number} has no configuration")
            self._put_twice(encode_deleted(number, ""))
        for damage in self.log.losses.damages:
            self._report(f"{damage.reason}, {damage.bytes} bytes at {damage.offset} of {damage.path}")
        self._previous = max(self._previous, replay.checkpoint)
        self._written = self.log.record_bytes
        return found

    def _read(self) -> ConsumerReplay:
        replay = ConsumerReplay()
        cursor = Cursor(self.log, self.log.first_seq)
        record = Record()
        text = before = b""
        kind = None
        while cursor.next(record):
            text, before, kind = record.payload(), text, None
            try:
                entry = decode(text)
                kind = entry.kind
                replay.take(entry)
            except UnknownEntryError as error:
                hint = "use the version of Millstream that wrote it"
                raise StoreError("read", self._folder, str(error), seq=record.seq, hint=hint) from error
            except ValueError as error:
                self._report(f"entry {record.seq} makes no sense: {error}")
        if kind in _WRITTEN_TWICE and text != before:  # a crash came before its copy
            self._copy_soon(text)
        return replay

    def _restored(self, each: ReplayedConsumer) -> Recovered:
        try:
            config = decode_written(each.config, ConsumerConfig, MOST_VALUES)
        except JsonError as error:
            raise StoreError("read", self._folder, f"configuration of {each.name}: {error}") from error
        known = _Known(each.number, each.created, each.link, each.reserved)
        self._known[each.name] = known
        torn = each.torn or each.link < 0
        each.state.go_on(each.reserved, torn=torn)
        if torn:
            self._report(f"consumer {each.name} lost track and may deliver again what was acknowledged")
            self.snapshot(each.name, each.state, each.reserved)  # what follows must not hang in the air
        return Recovered(config, each.created, each.state, each.reserved, torn)

    def _report(self, damage: str) -> None:
        _log.error("consumers in %s: %s", self._folder, damage)
        self.damages.append(damage)
        self._untidy = True

    def move(self, folder: str) -> None:
        """Use the new name of the folder."""
        self._folder = folder
        self.log.move(folder)

    # -- what happens -----------------------------------------------------------------------------

    def put_config(
        self,
        name: str,
        config: ConsumerConfig,
        created: int,
        state: ConsumerState | None = None,
        reserved: int = 0,
    ) -> None:
        """Record a new consumer that starts with `state`; without `state`, another configuration."""
        known = self._known.get(name)
        text = encode(config)
        if known is None or known.created != created:
            number = self._next_seq()  # nothing else can ever have it
            known = self._known[name] = _Known(number, created, -1, 0)
            state = state or ConsumerState()
        if state is None:
            self._put_twice(encode_config(known.number, name, created, text))
        else:
            self._put_twice(self._whole(name, known, text, state, max(reserved, known.reserved)))

    def delete(self, name: str) -> None:
        known = self._known.pop(name)
        self._put_twice(encode_deleted(known.number, name))

    def snapshot(self, name: str, state: ConsumerState, reserved: int = 0) -> None:
        """Record all of a consumer's state, independent of the previous one: a reset, a clean stop.

        Without `reserved`, deliveries continue right after those of the state.
        """
        known = self._known[name]
        known.link += 1
        known.reserved = max(reserved, state.delivered_dseq)
        self._put_twice(encode_snapshot(known.number, known.link, Changes.whole(state, known.reserved)))

    def change(self, name: str, changes: Changes) -> None:
        """Record a part of a consumer's state; `reserved` is raised if it falls behind."""
        known = self._known[name]
        known.link += 1
        known.reserved = changes.reserved = max(changes.reserved, known.reserved, changes.delivered_dseq)
        self._put(encode_changes(known.number, known.link, changes))
        if name == self._copied:
            self._copy.add(changes.pending, changes.gone, changes.redelivered)

    def put_letter(self, letter: OpenLetter) -> int:
        """Record a dead letter before its stream has it; return its number for ``letter_stored``."""
        number = self._next_seq()  # nothing else can ever have it
        self.letters[number] = letter
        self._put(encode_letter(number, letter))
        return number

    def move_letter(self, number: int, seq: int) -> None:
        """Record that a letter gets another sequence in its stream, before its stream has it there."""
        letter = self.letters[number] = msgspec.structs.replace(self.letters[number], seq=seq)
        self._put(encode_letter(number, letter))

    def letter_stored(self, number: int) -> None:
        """Record that a letter is durable in its stream, when everything so far is durable."""
        self.when_kept(lambda: self._drop_letter(number))

    def _drop_letter(self, number: int) -> None:
        if self.letters.pop(number, None) is not None and not self.closed:
            self._put(encode_stored(number))

    def when_kept(self, callback: Callable[[], None]) -> None:
        """Call back when everything so far is durable, after however many attempts, or at the end."""
        if self.closed:
            callback()
        else:
            self.on_outcome(partial(self._tell_if_kept, callback))

    def _tell_if_kept(self, callback: Callable[[], None], error: StoreError | None) -> None:
        if error is not None and not self.closed:
            # Without another commit: a timer tries again.
            self.waiters.on_outcome(partial(self._tell_if_kept, callback))
        else:
            callback()

    def _whole(self, name: str, known: _Known, text: bytes, state: ConsumerState, reserved: int) -> bytes:
        known.link += 1
        known.reserved = max(reserved, state.delivered_dseq)
        whole = Changes.whole(state, known.reserved)
        return encode_config(known.number, name, known.created, text, known.link, whole)

    def _next_seq(self) -> int:
        return self.log.last_seq + len(self._copies) + 1

    def _put(self, entry: bytes) -> None:
        copies, self._copies = self._copies, []
        for each in (*copies, entry):
            self.log.append(_SUBJECT, each, 0, 0, len(each), self._world.now_ns(), 0)
            self._written += record_size(len(_SUBJECT), 0, len(each))
        if self._retry is None:  # the next try takes it along
            self.committer.dirty(self)

    def _put_twice(self, entry: bytes) -> None:
        """Write an entry now, and again before the next one, mostly in another commit and sector."""
        self._put(entry)
        self._copy_soon(entry)

    def _copy_soon(self, entry: bytes) -> None:
        self._copies.append(entry)
        if self._copier is None:
            self._copier = self._world.call_later(_COPY_AFTER_S, self._write_copies)

    def _write_copies(self) -> None:
        self._copier = None
        if self._copies:
            self._put(self._copies.pop())

    # -- commits (see ``committer``) --------------------------------------------------------------

    def commit_ended(self) -> None:
        if self.failure is not None:
            _log.info("the states of the consumers in %s can be written again", self._folder)
            self.failure = None
        self.tell_waiters()
        self._go_on_with_checkpoint()

    def commit_failed(self, error: Exception) -> None:
        """Pass the error of a commit to the callers that wait; the bytes are retried."""
        if not isinstance(error, StoreError):
            _log.error("consumers in %s: a commit failed unexpectedly", self._folder, exc_info=error)
            error = StoreError("commit", self._folder, f"{type(error).__name__}: {error}")
        if self.failure is None:
            _log.error("the states of the consumers in %s cannot be written: %s", self._folder, error)
        self.failure = error
        if self._retry is None:
            self._retry = self._world.call_later(_RETRY_S, self._try_again)
        self.waiters.tell_failed(error)

    def _try_again(self) -> None:
        self._retry = None
        self.committer.dirty(self)

    # -- checkpoints ------------------------------------------------------------------------------

    @property
    def checkpointing(self) -> bool:
        return self._left is not None or self._last > 0

    @property
    def due_checkpoint(self) -> bool:
        """Return True if the log has much more than live entries, or contains damage."""
        if self.checkpointing:
            return False
        return self._untidy or self._written > max(self._smallest_log, _GROWTH * self._size)

    def checkpoint(self, consumers: Iterable[Alive]) -> None:
        """Write all consumers again, a slice with each commit; `consumers` is iterated as it proceeds.

        It may yield a consumer that was deleted meanwhile, and need not yield a new one.
        """
        if self.checkpointing:
            return
        self._left = self._everything(consumers)
        self._begun = self._next_seq()
        self._written = self._size = 0
        self._untidy = False
        self._write_slice()

    def _everything(self, consumers: Iterable[Alive]) -> Iterator[Alive | int]:
        yield from consumers
        yield from list(self.letters)  # later ones are behind the beginning of the checkpoint anyway

    def _write_slice(self) -> None:
        assert self._left is not None
        slices.begin(self._world, "checkpoint of consumers", self._write_some(self._left))

    def _write_some(self, left: Iterator[Alive | int]) -> Pieces[None]:
        self._writing = True
        size = self._size
        try:
            for each in left:
                if isinstance(each, int):
                    self._write_letter(each)
                    yield 1
                else:
                    yield from self._write_again(each)
                if self._left is not left:
                    return  # the journal was closed
                if self._size - size >= self._slice_size:
                    break
            else:
                self._put(encode_checkpoint(self._begun))
                self._left = None
                self._last = self.log.last_seq
        finally:
            self._writing = False
        self.committer.dirty(self)

    def _write_again(self, each: Alive) -> Pieces[None]:
        """Write a consumer once more, unless it ends before its state is copied."""
        known = self._known.get(each.name)
        if known is None or known.created != each.created:
            return
        self._copied = each.name
        try:
            last = yield from each.copy_state(self._copy)
            if last is None or self._known.get(each.name) is not known or self._left is None:
                return
            known.link += 1
            last.reserved = known.reserved = max(known.reserved, last.delivered_dseq)
            text = encode(each.config())
            entry = encode_config(known.number, each.name, known.created, text, known.link, last, self._copy)
        finally:
            self._copied = ""
            self._copy.clear()
        self._put(entry)
        self._size += record_size(len(_SUBJECT), 0, len(entry))

    def _write_letter(self, number: int) -> None:
        """Write a letter once more, unless it was stored meanwhile."""
        letter = self.letters.get(number)
        if letter is not None:
            entry = encode_letter(number, letter)
            self._put(entry)
            self._size += record_size(len(_SUBJECT), 0, len(entry))

    def _go_on_with_checkpoint(self) -> None:
        if self._left is not None:
            if not self._writing:
                self._write_slice()
        elif 0 < self._last <= self.log.committed:
            self._last = 0
            if self.log.remove_below(self._previous):
                self.committer.dirty(self)
            self._previous = self._begun

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable and close the files; raise StoreError if that fails."""
        self._left = None
        self._last = 0
        if self._copies:
            self._put(self._copies.pop())
        try:
            self.committer.flush(self)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files without writing more; callers that wait get an error."""
        self.closed = True
        self._left = None
        self._last = 0
        self.committer.forget(self)
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._copier is not None:
            self._copier.cancel()
            self._copier = None
        self.log.close()
        self.waiters.tell_durable()
        self.waiters.tell_failed(StoreError("commit", self._folder, "the stream is closed"))
        self.waiters.drop()
