"""Deliberate bugs in what stores, limits, reads and follows streams; ``mutations`` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.dedupe.recent import RecentIds
from millstream.jetstream.dedupe.window import Dedupe
from millstream.jetstream.publish import atomic_batch, rules
from millstream.jetstream.publish.ingest import Ingest
from millstream.jetstream.publish.limits import LimitBook
from millstream.jetstream.publish.refusals import FULL, ROOM, Refusals
from millstream.jetstream.publish.rollups import Rollups
from millstream.jetstream.publish.ttl import TtlExpiry
from millstream.jetstream.read import direct_batches, lookup
from millstream.jetstream.snapshots.messages import MessageLoader
from millstream.jetstream.sourcing.inflow import Inflow
from millstream.jetstream.sourcing.inflows import Inflows
from millstream.jetstream.sourcing.intake import OriginIntake, SourceIntake
from millstream.jetstream.sourcing.positions import Positions
from millstream.jetstream.stream import api
from millstream.jetstream.stream.commits import StreamCommits
from millstream.jetstream.stream.retention import Retention
from millstream.jetstream.stream.stream import Stream
from millstream.store import lasts, purge
from millstream.store.log import Log
from millstream.store.log_removal import LogRemoval

Replaced = tuple[Any, str, Any]  # owner, name, and what it is replaced by


def _right_expectation_refused() -> list[Replaced]:
    original = Ingest._expect

    def expect(self: Any, subject: bytes, p: bytes, at: int, end: int) -> bool:
        passes = original(self, subject, p, at, end)
        if passes and subject and not self._disappointed:
            last = self._log.last_of(subject)
            if last and last < self._log.committed - 1:
                self._disappointed, self._last = True, last
        return passes

    return [(Ingest, "_expect", expect)]


def _wrong_last_told() -> list[Replaced]:
    original = Refusals.refuse_expectation

    def refuse(self: Any, frame: Any, last: int) -> None:
        original(self, frame, max(last - 1, 0))

    return [(Refusals, "refuse_expectation", refuse)]


def _last_of_stream_expected_of_subject() -> list[Replaced]:
    def last_of(log: Any, pattern: bytes) -> int:
        return int(log.last_seq)

    class Lasts:
        pass

    Lasts.last_of = staticmethod(last_of)  # type: ignore[attr-defined]
    return [(rules, "lasts", Lasts)]


def _last_id_of_an_earlier_message() -> list[Replaced]:
    return [(Dedupe, "id_of", lambda self, last_seq: self._last_id)]


def _ids_known_for_ever() -> list[Replaced]:
    original = RecentIds.find

    def find(self: Any, high: int, low: int, oldest_ns: int) -> int:
        return original(self, high, low, 0)

    return [(RecentIds, "find", find), (RecentIds, "forget_old", lambda self, oldest_ns: None)]


def _window_not_updated() -> list[Replaced]:
    original = Stream.configure

    def configure(self: Any, config: Any) -> None:
        before = self.dedupe.window_ns
        started = self._started
        original(self, config)
        if started:
            self.dedupe.window_ns = before

    return [(Stream, "configure", configure)]


def _payload_cut() -> list[Replaced]:
    original = Log.append

    def append(
        self: Any, subject: bytes, source: bytes, start: int, header: int, size: int, *more: Any
    ) -> Any:
        return original(self, subject, source, start, header, size - (size > 650), *more)

    return [(Log, "append", append)]


def _headers_left_out() -> list[Replaced]:
    """A source copies a message without the headers of its publisher."""
    original = OriginIntake._is_plain

    def keep(self: Any, subject: bytes, frame: Any, sseq: int, timestamp: int) -> bool:
        return self._store(subject, b"", frame.payload(), sseq, timestamp)

    return [(SourceIntake, "_keep", keep), (OriginIntake, "_is_plain", original)]


def _limit_not_enforced_after_update() -> list[Replaced]:
    def enforce(self: Any) -> Iterator[None]:
        yield from ()

    return [(Retention, "enforce", enforce)]


def _one_more_of_subject() -> list[Replaced]:
    def keep(self: Any, most: int) -> bool:
        return original(self, most + 1)

    original = Log.keep_of_newest
    return [(Log, "keep_of_newest", keep)]


def _limit_of_subject_forgotten() -> list[Replaced]:
    """With a limit for the whole stream, that for a subject does not count."""
    return [(Retention, "_has_excess", lambda self, subject: False)]


def _bytes_displace_too_many() -> list[Replaced]:
    original = Retention._make_room

    def make_room(self: Any, subject: bytes) -> None:
        config, log = self._stream.config, self._stream.log
        if config.max_bytes > 0 and log.messages > 1 and self._excess():
            log.remove(log.first_seq)
            if log.messages > 1:
                log.remove(log.first_seq)
        original(self, subject)

    return [(Retention, "_make_room", make_room)]


def _bytes_not_limited() -> list[Replaced]:
    original = LimitBook.whole

    def whole(self: Any, config: Any) -> Any:
        return original(self, config) if config.max_msgs > 0 else ()

    return [(LimitBook, "whole", whole)]


def _full_takes_one_more() -> list[Replaced]:
    original = Refusals.configure

    def configure(
        self: Any, stream: str, messages: int, size: int, of_subject: int, *a: Any, **k: Any
    ) -> None:
        original(self, stream, messages + bool(messages), size, of_subject, *a, **k)

    return [(Refusals, "configure", configure)]


def _full_too_early() -> list[Replaced]:
    original = Refusals.check

    def check(self: Any, log: Any, subject: bytes, frame: Any, answers: bool) -> int:
        found = original(self, log, subject, frame, answers)
        if found == ROOM and 1 < self._messages == log.messages + 1:
            return int(self._refuse_full("maximum messages exceeded", frame, answers))
        return found

    assert FULL
    return [(Refusals, "check", check)]


def _size_not_limited() -> list[Replaced]:
    original = Stream._choose_path

    def choose(self: Any) -> None:
        original(self)
        self.ingest.max_size = 0

    return [(Stream, "_choose_path", choose)]


def _update_not_written() -> list[Replaced]:
    return [(AccountJetStream, "_write_config", lambda self, stream, config: None)]


def _purge_keeps_one_less() -> list[Replaced]:
    original = Retention.purge_in_steps

    def purge_in_steps(self: Any, subject: Any, below: int, keep: int) -> Any:
        return original(self, subject, below, keep - (keep > 1))

    return [(Retention, "purge_in_steps", purge_in_steps)]


def _purge_of_subject_keeps_oldest() -> list[Replaced]:
    def of_subject(log: Any, subject: bytes, end: int, most: int) -> Iterator[int]:
        removed = 0
        while removed != most and 0 < (seq := log.last_of(subject)) < end and log.remove(seq):
            removed += 1
            yield 1
        return removed

    return [(purge, "_of_subject", of_subject)]


def _purge_of_subject_leaves_some() -> list[Replaced]:
    original = purge._of_subject

    def of_subject(log: Any, subject: bytes, end: int, most: int) -> Iterator[int]:
        return (yield from original(log, subject, end, min(most, 2) if most >= 0 else 2))

    return [(purge, "_of_subject", of_subject)]


def _erased_neighbour() -> list[Replaced]:
    original = LogRemoval.erase

    def erase(self: Any, seq: int) -> bool:
        found = original(self, seq)
        if seq % 3 == 0:
            self.remove(seq - 1)
        return found

    return [(LogRemoval, "erase", erase)]


def _last_of_subject_stale() -> list[Replaced]:
    original = lasts.last_of

    def last_of(log: Any, pattern: bytes) -> int:
        seq = int(original(log, pattern))
        first = int(log.first_of(pattern)) if pattern and b"*" not in pattern and b">" not in pattern else 0
        return first or seq

    return [(lasts, "last_of", last_of)]


def _uncommitted_not_read() -> list[Replaced]:
    """A reader that looks for the last message of a subject gets the last one that is durable."""

    def last_of(log: Any, pattern: bytes) -> int:
        seq = int(original(log, pattern))
        while seq > log.committed - 1 and seq:
            seq = int(log.last_match(seq - 1, pattern))
        return seq

    original = lasts.last_of
    return [(lasts, "last_of", last_of)]


def _next_of_subject_skips() -> list[Replaced]:
    original = Log.next_match

    def next_match(self: Any, seq: int, pattern: bytes) -> int:
        found = int(original(self, seq, pattern))
        return int(original(self, found + 1, pattern)) or found if found == seq and seq > 3 else found

    return [(Log, "next_match", next_match)]


def _start_time_one_late() -> list[Replaced]:
    original = lookup.first_at_or_after

    def first_at_or_after(log: Any, timestamp: int) -> int:
        return int(original(log, timestamp)) + 1

    return [(lookup, "first_at_or_after", first_at_or_after)]


def _several_lasts_miss_one() -> list[Replaced]:
    original = lasts.last_of_each

    def last_of_each(log: Any, *more: Any) -> Any:
        found = yield from original(log, *more)
        return found[1:] if found and len(found) > 1 else found

    from millstream.jetstream.read import direct

    replaced: list[Replaced] = [(lasts, "last_of_each", last_of_each)]
    if hasattr(direct, "last_of_each"):
        replaced.append((direct, "last_of_each", last_of_each))
    return replaced


def _batch_leaves_out_late() -> list[Replaced]:
    return [(direct_batches.DirectBatches, "_wait_for_late", lambda self, walk: False)]


def _subjects_not_discounted() -> list[Replaced]:
    return [(Log, "subject_count", property(lambda self: min(self.messages, self.index.subjects + 1)))]


def _bytes_not_discounted() -> list[Replaced]:
    original = StreamCommits.bytes

    def size(self: Any) -> int:
        found = int(original(self))
        return found + 30 if self.log.last_seq > self.log.messages else found

    return [(StreamCommits, "bytes", size)]


def _first_time_kept() -> list[Replaced]:
    original = Stream._first_time

    def first_time(self: Any) -> Any:
        if self._first_read[0] and self.log.messages:
            return self._first_read[1]
        return original(self)

    return [(Stream, "_first_time", first_time)]


def _deleted_list_short() -> list[Replaced]:
    original = api.first_missing

    def first_missing(log: Any, most: int) -> Any:
        found = yield from original(log, most)
        return found[:-1]

    return [(api, "first_missing", first_missing)]


def _one_name_left_out() -> list[Replaced]:
    original = api.StreamApi._matching

    def matching(self: Any, subject: str, offset: int, count: int) -> Any:
        page, total = yield from original(self, subject, offset, count)
        return (page[:-1] if len(page) > 4 else page), total

    return [(api.StreamApi, "_matching", matching)]


def _rollup_of_all_subjects() -> list[Replaced]:
    def remove_few(self: Any, subject: bytes, seq: int) -> None:
        self._stream.log.remove_below(seq)

    return [(Rollups, "remove_few", remove_few)]


def _rollup_leaves() -> list[Replaced]:
    original = Rollups.remove_few

    def remove_few(self: Any, subject: bytes, seq: int) -> None:
        if seq % 3:
            original(self, subject, seq)

    return [(Rollups, "remove_few", remove_few)]


def _no_marker() -> list[Replaced]:
    return [(TtlExpiry, "_subject_to_mark", lambda self, seq: None)]


def _lives_for_ever_forgotten() -> list[Replaced]:
    return [(Retention, "_lives_forever", lambda self, record: False)]


def _ttl_too_short() -> list[Replaced]:
    original = TtlExpiry.add

    def add(self: Any, seq: int, timestamp: int, ttl_s: int) -> None:
        original(self, seq, timestamp, ttl_s // 2)

    return [(TtlExpiry, "add", add)]


def _transform_forgotten_by_rules() -> list[Replaced]:
    """The slow path stores a message under the subject that it was published on."""
    book = rules.RuleBook(tuple(each for each in rules.RULES if each.name != "subject_transform"))
    book.applying = rules.book.applying  # type: ignore[method-assign]
    return [(rules, "book", book)]


def _sealed_accepts() -> list[Replaced]:
    chosen = tuple(each for each in rules.RULES if each.name != "sealed")
    return [(rules, "book", rules.RuleBook(chosen))]


def _sources_share_a_position() -> list[Replaced]:
    original = Positions.find

    def find(self: Any, *more: Any) -> Any:
        found = original(self, *more)
        latest = max(found.values(), key=lambda each: each.seq, default=None)
        return dict.fromkeys(found, latest)

    return [(Positions, "find", find)]


def _second_source_starts_over() -> list[Replaced]:
    original = Positions.take_recovered

    def take_recovered(self: Any) -> Any:
        found = original(self)
        return dict(list(found.items())[:1]) if found else found

    return [(Positions, "take_recovered", take_recovered)]


def _renaming_forgotten() -> list[Replaced]:
    original = OriginIntake.target

    def target(self: Any, subject: bytes) -> bytes:
        return subject if self.sseq % 4 == 0 else original(self, subject)

    return [(OriginIntake, "target", target)]


def _start_of_mirror_forgotten() -> list[Replaced]:
    from millstream.jetstream.sourcing.origin import OriginStart

    original = Inflow._where_to_start

    def where(self: Any) -> Any:
        log = self._stream.log
        return original(self) if log.messages else OriginStart()

    return [(Inflow, "_where_to_start", where)]


def _promoted_still_follows() -> list[Replaced]:
    original = Inflows.configure

    def configure(self: Any) -> None:
        if self._stream.config.mirror is None and any(
            each.origin.kind.name == "MIRROR" for each in self._inflows.values()
        ):
            return
        original(self)

    return [(Inflows, "configure", configure)]


def _gap_at_origin_closed() -> list[Replaced]:
    """A copy of a stream numbers its messages anew, wherever one was removed."""
    original = MessageLoader.add

    def add(
        self: Any, subject: bytes, source: bytes, start: int, head: int, size: int, seq: int, at: int
    ) -> None:
        last = self.log.state.last_seq
        original(self, subject, source, start, head, size, last + 1 if last > 2 else seq, at)

    return [(MessageLoader, "add", add)]


def _end_of_copy_unused() -> list[Replaced]:
    return [(MessageLoader, "skip_to", lambda self, seq, timestamp=0: None)]


def _batch_skips_expectations() -> list[Replaced]:
    original = rules._expect_last_of_subject

    def expect(stream: Any, message: Any, ahead: Any) -> None:
        if ahead is None:
            original(stream, message, ahead)

    chosen = tuple(
        rules.msgspec.structs.replace(each, check=expect) if each.check is original else each  # type: ignore[attr-defined]
        for each in rules.RULES
    )
    return [(rules, "book", rules.RuleBook(chosen))]


def _batch_takes_duplicates() -> list[Replaced]:
    original = rules._refuse_duplicate

    def refuse(stream: Any, message: Any, ahead: Any) -> None:
        if ahead is None:
            original(stream, message, ahead)

    import msgspec

    chosen = tuple(
        msgspec.structs.replace(each, check=refuse) if each.check is original else each
        for each in rules.RULES
    )
    assert atomic_batch
    return [(rules, "book", rules.RuleBook(chosen))]


STREAM_MUTATIONS: dict[str, Callable[[], list[Replaced]]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _right_expectation_refused,
        _wrong_last_told,
        _last_of_stream_expected_of_subject,
        _last_id_of_an_earlier_message,
        _ids_known_for_ever,
        _window_not_updated,
        _payload_cut,
        _headers_left_out,
        _limit_not_enforced_after_update,
        _one_more_of_subject,
        _limit_of_subject_forgotten,
        _bytes_displace_too_many,
        _bytes_not_limited,
        _full_takes_one_more,
        _full_too_early,
        _size_not_limited,
        _update_not_written,
        _purge_keeps_one_less,
        _purge_of_subject_keeps_oldest,
        _purge_of_subject_leaves_some,
        _erased_neighbour,
        _last_of_subject_stale,
        _uncommitted_not_read,
        _next_of_subject_skips,
        _start_time_one_late,
        _several_lasts_miss_one,
        _batch_leaves_out_late,
        _subjects_not_discounted,
        _bytes_not_discounted,
        _first_time_kept,
        _deleted_list_short,
        _one_name_left_out,
        _rollup_of_all_subjects,
        _rollup_leaves,
        _no_marker,
        _lives_for_ever_forgotten,
        _ttl_too_short,
        _transform_forgotten_by_rules,
        _sealed_accepts,
        _sources_share_a_position,
        _second_source_starts_over,
        _renaming_forgotten,
        _start_of_mirror_forgotten,
        _promoted_still_follows,
        _gap_at_origin_closed,
        _end_of_copy_unused,
        _batch_skips_expectations,
        _batch_takes_duplicates,
    )
}
