"""Deliberate bugs in what stores and limits messages; ``mutations`` runs them."""

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
from millstream.jetstream.stream.retention import Retention
from millstream.jetstream.stream.stream import Stream
from millstream.store import purge
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
    """Ignore the limit for a subject if there is one for the whole stream."""
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
        _rollup_of_all_subjects,
        _rollup_leaves,
        _no_marker,
        _lives_for_ever_forgotten,
        _ttl_too_short,
        _transform_forgotten_by_rules,
        _sealed_accepts,
        _batch_skips_expectations,
        _batch_takes_duplicates,
    )
}
