"""The positions of a stream's sources, across restarts.

Every message from a source records its position in a header, so the last message of each source gives the
position of that source.  But messages are removed: consumed, expired, purged.  Positions that would be lost
are kept beside the log, in a small file:

    sources.json   <crc32c of the rest, 8 hex digits> <JSON>
                   {"before": {"seq": 120, "sources": {...}}, "now": {"seq": 150, "sources": {...}},
                    "skipped": {"<source>": "123-130:88 135-135:90"}}

It is written before the commit that removes messages, so it may describe messages that a crash keeps out of
the log.  Therefore it has two entries: `now` is valid if the log reaches its `seq`; otherwise `before` is,
which the log had reached when `now` was written.

A crash may also leave a part of that commit in the log.  Removals are the last records of a commit, so all
messages of such a part are there, and their headers give the positions after `before`.  Messages without
interest have no header: each uses up one sequence and is not stored.  `skipped` lists those of the commit, as
ranges of sequences with the position of the source at their end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base.checksum import crc32c
from millstream.base.ids import short_hash
from millstream.golang.json import MOST_VALUES
from millstream.jetstream.publish.candidate import MARK_SOURCE
from millstream.jetstream.sourcing import source_header
from millstream.jsapi import headers as names
from millstream.jsapi.codec import JsonError, decode_lenient, encode
from millstream.jsapi.go_types import Struct, UInt64, always, always_new, no_members
from millstream.protocol import headers
from millstream.store.errors import StoreError
from millstream.store.marks import marked_ranges
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.sourcing.origin import Origin
    from millstream.store.fs import FileSystem
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")

_FILE: Final = "sources.json"
_HEADER: Final = names.STREAM_SOURCE.encode()
_WRITE_EVERY: Final = 100_000  # messages; a restart reads at most this many headers


class StoredPosition(Struct):
    """The position of one source."""

    seq: UInt64 = always(0)
    identity: str = ""


_Sighting = tuple[int, StoredPosition]  # with the sequence in the log of the message that gives it


class PositionsEntry(Struct):
    """The positions of all sources when the stream's last sequence was `seq`."""

    seq: UInt64 = always(0)
    sources: dict[str, StoredPosition] = no_members()


class Kept(Struct):
    before: PositionsEntry = always_new(PositionsEntry)
    now: PositionsEntry = always_new(PositionsEntry)
    skipped: dict[str, str] = no_members()


class SkippedRange(NamedTuple):
    """Sequences used up by successive messages of a source; `position` is that of the last one."""

    first: int
    last: int
    position: int


class Positions:
    """The positions of one stream's sources, by index name."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._kept = Kept()  # the content of the file, or of the one that is being written
        self._reached = PositionsEntry()  # of the last commit that has ended
        self._begun = PositionsEntry()  # of the last commit
        self._skipped: dict[str, list[SkippedRange]] = {}  # since `_reached`
        self._removed = 0  # sequences without a message when the file was written
        self._outdated = False  # the file must be written before the next commit
        self._recovered: dict[str, StoredPosition] | None = None

    def skipped(self, name: str, position: int) -> None:
        """Record that a message of a source used up the log's last sequence and is not stored."""
        ranges = self._skipped.setdefault(name, [])
        seq = self._log.last_seq
        first = seq
        if ranges and ranges[-1].last + 1 == seq and ranges[-1].position + 1 == position:
            first = ranges.pop().first
        ranges.append(SkippedRange(first, seq, position))

    # -- writing ----------------------------------------------------------------------------------

    def commit_begins(self, current: dict[str, StoredPosition]) -> None:
        """Record the present positions, which the log reaches with the commit that begins."""
        log = self._log
        if self._begun.seq <= log.committed:
            self._reached = self._begun
        if not log.committed:  # it is empty
            self._reached = PositionsEntry(sources=dict.fromkeys(current, StoredPosition()))
        self._begun = PositionsEntry(seq=log.last_seq, sources=current)
        if self._skipped:
            above = self._reached.seq
            left = {
                name: [each for each in ranges if each.last > above] for name, ranges in self._skipped.items()
            }
            self._skipped = {name: ranges for name, ranges in left.items() if ranges}

    def due(self) -> bool:
        """Return True if the next commit could lose a position, or a restart would read too many headers."""
        log, now = self._log, self._kept.now
        return (
            self._outdated
            or log.last_seq - log.messages != self._removed
            or log.last_seq - now.seq > _WRITE_EVERY
        )

    def next_write(self, fs: FileSystem, folder: str) -> Callable[[], None]:
        """Return the write to run, in any thread, before the commit that begins; it is durable afterwards.

        It is due again until it has succeeded.
        """
        log = self._log
        kept = self._kept = Kept(before=self._reached, now=self._begun)
        skipped = {name: tuple(ranges) for name, ranges in self._skipped.items()}
        self._removed = log.last_seq - log.messages
        self._outdated = True

        def write() -> None:
            kept.skipped = {name: _format_ranges(ranges) for name, ranges in skipped.items()}
            text = encode(kept)
            fs.replace(f"{folder}/{_FILE}", b"%08x %b" % (crc32c(text), text))
            self._outdated = False

        return write

    # -- reading ----------------------------------------------------------------------------------

    def recover(self, fs: FileSystem, folder: str, origins: Iterable[Origin], *, first_seq: int = 1) -> None:
        """Find the positions after a restart, before anything is removed from the log.

        `first_seq` is the sequence that the log began with.
        """
        sound = self._load(fs, folder)
        origins = list(origins)
        last = self._log.losses.last_untorn(self._log.last_seq)
        found = self.find(origins, last)
        if sound and self._only_lost(last, first_seq):
            # Nothing was removed, so a source without a message here is at its beginning.
            found = {origin.index_name: StoredPosition() for origin in origins} | found
        # A later log may reach the sequence of an entry that this one has not reached, with other messages.
        self._outdated = self._kept.now.seq > last
        self._reached = self._begun = PositionsEntry(seq=last, sources=found)
        if self._outdated:
            self._kept = Kept(before=self._reached, now=self._reached)
        self._recovered = found
        if last < self._log.last_seq:  # before ``discard_torn``, which hides what was torn
            self.next_write(fs, folder)()

    def _only_lost(self, last: int, first_seq: int) -> bool:
        """Return True if the log lacks only what was damaged, or torn by a power loss.

        Where messages were removed, nobody knows whether some of them were from a source.
        """
        losses = self._log.losses
        if last < first_seq:
            return bool(losses.torn)
        return bool(losses.damages) and self._log.has_removed_none(first_seq)

    def take_recovered(self) -> dict[str, StoredPosition] | None:
        """Return the positions that ``recover`` found, once; None if there are none to take."""
        found, self._recovered = self._recovered, None
        return found

    def _load(self, fs: FileSystem, folder: str) -> bool:
        """Load the file, if it exists; return False if it is damaged."""
        try:
            data = fs.read_all(f"{folder}/{_FILE}")
        except StoreError:
            return True
        text = data[9:]
        try:
            if data[:9] == b"%08x " % crc32c(text):
                self._kept = decode_lenient(text, Kept, MOST_VALUES)
                return True
        except JsonError:
            pass
        _log.error("%s/%s is damaged: sources go on behind the messages that are there", folder, _FILE)
        return False

    def find(self, origins: Iterable[Origin], last: int | None = None) -> dict[str, StoredPosition]:
        """Return the positions of these sources; sources of which nothing is known are left out.

        Only sequences up to `last` count, if it is given.
        """
        kept = self._kept
        last = self._log.last_seq if last is None else last
        wanted = {origin.index_name: origin for origin in origins}
        if kept.now.seq <= last:
            entry, later = kept.now, {}
        else:
            entry, later = kept.before, _last_skipped(kept, last)
        # A log that has not even reached `before` lost messages, and only headers tell which it has.
        above = entry.seq if entry.seq <= last else 0
        later = {name: each for name, each in later.items() if name in wanted}
        for name, each in self._scan(wanted, above, last).items():
            if name not in later or each[0] > later[name][0]:
                later[name] = each
        found = {name: position for name, (_, position) in later.items()}
        for name in wanted.keys() - found.keys():
            if name in entry.sources:
                found[name] = entry.sources[name]
        left = {name: origin for name, origin in wanted.items() if name not in found}
        if left and above:
            found.update((name, position) for name, (_, position) in self._scan(left, 0, above).items())
        return found

    def _scan(self, wanted: dict[str, Origin], above: int, last: int) -> dict[str, _Sighting]:
        """Read the headers of messages backwards, from `last` down to `above`."""
        log = self._log
        left = dict(wanted)
        found: dict[str, _Sighting] = {}
        record = Record()
        for part in reversed(marked_ranges(log)):
            if not left or part.last <= above:
                break
            if part.first > last or not part.marks & MARK_SOURCE:
                continue
            seqs = list(log.sequences(max(part.first, above + 1), min(part.last, last)))
            for seq in reversed(seqs):
                if not left:
                    break
                if log.get(seq, record) and record.header_size:
                    _take(seq, record.headers(), left, found)
        return found


def _format_ranges(ranges: Iterable[SkippedRange]) -> str:
    return " ".join(f"{first}-{last}:{position}" for first, last, position in ranges)


def _last_skipped(kept: Kept, last_seq: int) -> dict[str, _Sighting]:
    """Return the last message of each source that was not stored, up to this sequence of the log."""
    found: dict[str, _Sighting] = {}
    for name, text in kept.skipped.items():
        known = kept.now.sources.get(name, StoredPosition())
        for each in text.split():
            first, last, position = map(int, each.replace(":", "-").split("-"))
            if first > last_seq:
                break
            seq = min(last, last_seq)
            found[name] = seq, StoredPosition(position - (last - seq), known.identity)
    return found


def _take(seq: int, block: bytes, left: dict[str, Origin], found: dict[str, _Sighting]) -> None:
    """Move a source from `left` to `found` if the message is of it."""
    value = headers.find(block, _HEADER) if _HEADER in block else None
    position = source_header.parse(value.decode(errors="replace")) if value else None
    if position is None:
        return
    if position.index_name:
        if position.index_name in left:
            del left[position.index_name]
            found[position.index_name] = seq, StoredPosition(position.seq, position.identity)
        return
    for name, origin in list(left.items()):  # an old header names only the stream
        external = origin.config.external
        names_of = {origin.name}
        if external is not None:
            names_of.add(f"{origin.name}:{short_hash(external.api)}")
        if position.origin in names_of:
            del left[name]
            found[name] = seq, StoredPosition(position.seq)
