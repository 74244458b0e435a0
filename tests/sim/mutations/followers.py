"""Deliberate bugs in what reads and follows streams; ``mutations`` runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.jetstream.publish import slow_path
from millstream.jetstream.read import lookup
from millstream.jetstream.snapshots import contents
from millstream.jetstream.snapshots.messages import MessageLoader
from millstream.jetstream.sourcing.inflow import Inflow
from millstream.jetstream.sourcing.inflows import Inflows
from millstream.jetstream.sourcing.intake import OriginIntake, SourceIntake
from millstream.jetstream.sourcing.positions import Positions
from millstream.jetstream.stream import api
from millstream.jetstream.stream.commits import StreamCommits
from millstream.jetstream.stream.stream import Stream
from millstream.store import lasts
from millstream.store.log import Log

Replaced = tuple[Any, str, Any]  # owner, name, and what it is replaced by


def _headers_left_out() -> list[Replaced]:
    """A source copies a message without the headers of its publisher."""
    original = OriginIntake._is_plain

    def keep(self: Any, subject: bytes, frame: Any, sseq: int, timestamp: int) -> bool:
        return self._store(subject, b"", frame.payload(), sseq, timestamp)

    return [(SourceIntake, "_keep", keep), (OriginIntake, "_is_plain", original)]


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


def _copied_consumer_starts_over() -> list[Replaced]:
    from millstream.jetstream.consumers.ledger import Ledger
    from millstream.jetstream.consumers.state_saver import portable_state_of

    return [(contents, "portable_state_of", lambda ledger: portable_state_of(Ledger()))]


def _new_origin_not_noticed() -> list[Replaced]:
    original, take = Inflow._know, Inflow._take_error

    def know(self: Any, identity: str) -> None:
        self.identity, self._recreated = identity, False
        original(self, identity)

    def take_error(self: Any, error: Any) -> None:
        before = self.intake.sseq
        take(self, error)
        self.intake.sseq = before

    return [(Inflow, "_know", know), (Inflow, "_take_error", take_error)]


def _positions_not_written() -> list[Replaced]:
    return [(Positions, "due", lambda self: False)]


def _new_source_begins_all_again() -> list[Replaced]:
    original = Inflows._adding

    def configure(self: Any) -> None:
        if self._started:
            for inflow in self._inflows.values():
                inflow.stop()
            self._inflows = {}
            for _ in original(self, list(self._origins()), {}):
                pass

    return [(Inflows, "configure", configure)]


def _refused_value_said_missing() -> list[Replaced]:
    return [(lookup, "is_refused", lambda stream, seq: False)]


def _copies_of_messages_misnumbered() -> list[Replaced]:
    original = slow_path.Publishing.store

    def store(self: Any, message: Any, *more: Any) -> Any:
        log = self._stream.log
        found = original(self, message, *more)
        if log.last_seq % 3 == 0 and self._stream.config.subject_transform is not None:
            log.remove(log.last_seq - 1)
        return found

    return [(slow_path.Publishing, "store", store)]


FOLLOWER_MUTATIONS: dict[str, Callable[[], list[Replaced]]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _headers_left_out,
        _last_of_subject_stale,
        _uncommitted_not_read,
        _next_of_subject_skips,
        _start_time_one_late,
        _several_lasts_miss_one,
        _subjects_not_discounted,
        _bytes_not_discounted,
        _first_time_kept,
        _deleted_list_short,
        _one_name_left_out,
        _sources_share_a_position,
        _second_source_starts_over,
        _renaming_forgotten,
        _start_of_mirror_forgotten,
        _promoted_still_follows,
        _gap_at_origin_closed,
        _end_of_copy_unused,
        _copied_consumer_starts_over,
        _new_origin_not_noticed,
        _positions_not_written,
        _new_source_begins_all_again,
        _refused_value_said_missing,
        _copies_of_messages_misnumbered,
    )
}
