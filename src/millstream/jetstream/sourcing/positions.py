"""The positions of a stream's sources, across restarts.

Every message from a source records its position in a header, so the last message of each source gives the
position of that source.  But messages are removed: consumed, expired, purged.  Positions that would be lost
are kept beside the log, in a small file:

    sources.json   <crc32c of the rest, 8 hex digits> <JSON>
                   {"before": {"seq": 120, "sources": {...}}, "now": {"seq": 150, "sources": {...}}}

It is written before the commit that removes messages, so it may describe messages that a crash keeps out of
the log.  Therefore it has two entries: `now` is valid if the log reaches its `seq`; otherwise `before` is,
which the log had reached when `now` was written.  Headers give the positions after that `seq`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

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


class PositionsEntry(Struct):
    """The positions of all sources when the stream's last sequence was `seq`."""

    seq: UInt64 = always(0)
    sources: dict[str, StoredPosition] = no_members()


class Kept(Struct):
    before: PositionsEntry = always_new(PositionsEntry)
    now: PositionsEntry = always_new(PositionsEntry)


class Positions:
    """The positions of one stream's sources; `current` returns them by index name."""

    def __init__(self, log: Log, current: Callable[[], dict[str, StoredPosition]]) -> None:
        self._log = log
        self._current = current
        self._kept = Kept()
        self._removed = 0  # sequences without a message when the file was written

    # -- writing ----------------------------------------------------------------------------------

    def due(self) -> bool:
        """Return True if the next commit could lose a position, or a restart would read too many headers."""
        log, now = self._log, self._kept.now
        return log.last_seq - log.messages != self._removed or log.last_seq - now.seq > _WRITE_EVERY

    def next_write(self, fs: FileSystem, folder: str) -> Callable[[], None]:
        """Return the write to run, in any thread, before the next commit; it is durable afterwards."""
        log, kept = self._log, self._kept
        reached = kept.now if kept.now.seq <= log.committed else kept.before
        self._kept = Kept(before=reached, now=PositionsEntry(seq=log.last_seq, sources=self._current()))
        self._removed = log.last_seq - log.messages
        text = encode(self._kept)
        data = b"%08x %b" % (crc32c(text), text)
        return lambda: fs.replace(f"{folder}/{_FILE}", data)

    # -- reading ----------------------------------------------------------------------------------

    def load(self, fs: FileSystem, folder: str) -> None:
        """Load the file, if it exists."""
        try:
            data = fs.read_all(f"{folder}/{_FILE}")
        except StoreError:
            return
        text = data[9:]
        try:
            if data[:9] == b"%08x " % crc32c(text):
                self._kept = decode_lenient(text, Kept, MOST_VALUES)
                return
        except JsonError:
            pass
        _log.error("%s/%s is damaged: sources go on behind the messages that are there", folder, _FILE)

    def find(self, origins: Iterable[Origin]) -> dict[str, StoredPosition]:
        """Return the positions of these sources; sources without a message so far are left out."""
        log, kept = self._log, self._kept
        entry = kept.now if kept.now.seq <= log.last_seq else kept.before
        missing = {origin.index_name: origin for origin in origins}
        found = self._scan(missing, entry.seq)
        for name in missing.keys() - found.keys():
            if name in entry.sources:
                found[name] = entry.sources[name]
        left = {name: origin for name, origin in missing.items() if name not in found}
        if left and entry.seq:
            found.update(self._scan(left, 0, entry.seq))
        return found

    def _scan(
        self, wanted: dict[str, Origin], above: int, upto: int | None = None
    ) -> dict[str, StoredPosition]:
        """Read the headers of messages backwards, down to `above`."""
        log = self._log
        left = dict(wanted)
        found: dict[str, StoredPosition] = {}
        record = Record()
        last = log.last_seq if upto is None else upto
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
                    _take(record.headers(), left, found)
        return found


def _take(block: bytes, left: dict[str, Origin], found: dict[str, StoredPosition]) -> None:
    """Move a source from `left` to `found` if the message is of it."""
    value = headers.find(block, _HEADER) if _HEADER in block else None
    position = source_header.parse(value.decode(errors="replace")) if value else None
    if position is None:
        return
    if position.index_name:
        if position.index_name in left:
            del left[position.index_name]
            found[position.index_name] = StoredPosition(position.seq, position.identity)
        return
    for name, origin in list(left.items()):  # an old header names only the stream
        external = origin.config.external
        names_of = {origin.name}
        if external is not None:
            names_of.add(f"{origin.name}:{short_hash(external.api)}")
        if position.origin in names_of:
            del left[name]
            found[name] = StoredPosition(position.seq)
