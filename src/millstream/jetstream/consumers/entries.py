"""The entries of a consumers' journal as bytes; ``docs/formats/consumers.md`` has the table.

    +------+----------+--------------------------------------------------------------------+
    | head | number   | CONFIG      created, name, JSON of the configuration, [section]     |
    | u8   | of the   | SNAPSHOT    section: the whole state                                |
    |      | consumer | CHANGES     section: what is different                              |
    |      |          | DELETED     name                                                    |
    |      | sequence | CHECKPOINT  everything alive was written again, starting there      |
    |      |          | LETTER      a dead letter; the number is its own                     |
    |      |          | STORED      the letter of that number is durable in its stream       |
    +------+----------+--------------------------------------------------------------------+
     version in the top 4 bits, kind in the others

Numbers are varints: seven bits per byte, lowest first.  Neighbours in a list are usually neighbours in the
stream too, so lists are runs, each with its length and its distance to the previous run: a thousand messages
that were delivered together take ten bytes.

A state of many messages is encoded in pieces (``StateCopy``).

There is no checksum, because the log has one.  Compiled, because deliveries and acks pass through it.
"""

from enum import IntEnum

import cython

from millstream.base.buffer import GrowingBuffer
from millstream.jetstream.consumers.saved_state import Changes, OpenLetter

VERSION = 1


class EntryKind(IntEnum):
    CONFIG = 1
    SNAPSHOT = 2
    CHANGES = 3
    DELETED = 4
    CHECKPOINT = 5
    LETTER = 6
    STORED = 7


class UnknownEntryError(ValueError):
    """An entry is intact but of a version or kind that this version does not know."""


_MASK = 0xFFFF_FFFF_FFFF_FFFF
_MOST = 1 << 28  # numbers in a list: so that a wrong length cannot ask for all memory there is
_VERSION = VERSION
_CONFIG = int(EntryKind.CONFIG)
_SNAPSHOT = int(EntryKind.SNAPSHOT)
_CHANGES = int(EntryKind.CHANGES)
_DELETED = int(EntryKind.DELETED)
_CHECKPOINT = int(EntryKind.CHECKPOINT)
_LETTER = int(EntryKind.LETTER)
_STORED = int(EntryKind.STORED)
_KINDS = {int(kind): kind for kind in EntryKind}


class ConsumerEntry:
    """One decoded entry."""

    def __init__(self, kind: EntryKind, number: int) -> None:
        self.kind = kind
        self.number = number  # of a consumer or letter; of a CHECKPOINT, its first sequence
        self.name = ""
        self.created = 0
        self.config = b""
        self.link = 0
        self.changes: Changes | None = None
        self.letter: OpenLetter | None = None


def encode_config(
    number: int,
    name: str,
    created: int,
    config: bytes,
    link: int = 0,
    state: Changes | None = None,
    copy: "StateCopy | None" = None,
) -> bytes:
    """Encode a configuration, with the whole state if given; a copy replaces the lists of the state."""
    out = EntryWriter(_CONFIG, number)
    out.put_varint(created)
    out.put_bytes(name.encode())
    out.put_bytes(config)
    if state is not None:
        if copy is not None:
            out.put_copy(link, state, copy)
        else:
            out.put_section(link, state)
    return out.take()


def encode_snapshot(number: int, link: int, state: Changes) -> bytes:
    out = EntryWriter(_SNAPSHOT, number)
    out.put_section(link, state)
    return out.take()


def encode_changes(number: int, link: int, changes: Changes) -> bytes:
    out = EntryWriter(_CHANGES, number)
    out.put_section(link, changes)
    return out.take()


def encode_deleted(number: int, name: str) -> bytes:
    out = EntryWriter(_DELETED, number)
    out.put_bytes(name.encode())
    return out.take()


def encode_checkpoint(first_seq: int) -> bytes:
    return EntryWriter(_CHECKPOINT, first_seq).take()


def encode_letter(number: int, letter: OpenLetter) -> bytes:
    out = EntryWriter(_LETTER, number)
    out.put_varint(letter.created)
    out.put_bytes(letter.consumer.encode())
    out.put_varint(letter.sseq)
    out.put_bytes(letter.identity.encode())
    out.put_varint(letter.seq)
    out.put_bytes(letter.subject)
    out.put_bytes(letter.block)
    out.put_bytes(letter.payload)
    return out.take()


def encode_stored(number: int) -> bytes:
    return EntryWriter(_STORED, number).take()


def decode(data: bytes) -> ConsumerEntry:
    """Decode an entry; raise UnknownEntryError for a later version, ValueError if it is invalid."""
    reader = ConsumerEntryReader(data)
    head = reader.byte()
    kind = head & 0x0F
    if head >> 4 != _VERSION or kind < _CONFIG or kind > _STORED:
        raise UnknownEntryError(f"there is no kind {kind} of entry in version {head >> 4}")
    entry = ConsumerEntry(_KINDS[kind], reader.varint())
    if kind == _CONFIG:
        entry.created = reader.varint()
        entry.name = reader.bytes().decode()
        entry.config = reader.bytes()
        if reader.rest():
            reader.section(entry)
    elif kind == _DELETED:
        entry.name = reader.bytes().decode()
    elif kind == _LETTER:
        entry.letter = reader.letter()
    elif kind != _CHECKPOINT and kind != _STORED:
        reader.section(entry)
    if reader.rest():
        raise ValueError("an entry has more bytes than it should")
    return entry


class NumberBuffer(GrowingBuffer):
    """Numbers and lists of numbers, encoded."""

    def put_varint(self, value: int) -> None:
        self.reserve(10)
        rest = value
        if cython.compiled:
            target = self._store
            position = self.size
            while rest >= 0x80:
                target[position] = rest & 0x7F | 0x80
                rest >>= 7
                position += 1
            target[position] = rest
            self.size = position + 1
        else:
            if not 0 <= value <= _MASK:
                raise OverflowError(f"{value} does not fit into 64 bits")
            while rest >= 0x80:
                self.put_little(rest & 0x7F | 0x80, 1)
                rest >>= 7
            self.put_little(rest, 1)

    def put_step(self, step: int) -> None:
        """Append a difference modulo 2^64, short if it is small in either direction."""
        down = _MASK if step >> 63 else 0
        self.put_varint(((step << 1) & _MASK) ^ down)

    def put_count(self, count: int) -> None:
        if count > _MOST:
            raise ValueError(f"an entry cannot list {count} messages")
        self.put_varint(count)

    def put_pending(self, rows: list[tuple[int, int, int]], sseq: int, dseq: int, at: int) -> None:
        """Append runs of messages delivered one after the other at the same time; count from another one."""
        count = len(rows)
        moment = at & _MASK
        index = 0
        while index < count:
            first_sseq, first_dseq, first_at = rows[index]
            last_sseq = first_sseq
            last_dseq = first_dseq
            down = False
            end = index + 1
            while end < count:
                next_sseq, next_dseq, next_at = rows[end]
                if next_at != first_at:
                    break
                if end == index + 1:
                    down = next_sseq < first_sseq
                if down:
                    if next_sseq + 1 != last_sseq or next_dseq + 1 != last_dseq:
                        break
                elif next_sseq != last_sseq + 1 or next_dseq != last_dseq + 1:
                    break
                last_sseq = next_sseq
                last_dseq = next_dseq
                end += 1
            self.put_varint((end - index) << 1 | down)
            self.put_step((first_sseq - sseq) & _MASK)
            self.put_step((first_dseq - dseq) & _MASK)
            first_moment = first_at & _MASK
            self.put_step((first_moment - moment) & _MASK)
            sseq = last_sseq
            dseq = last_dseq
            moment = first_moment
            index = end

    def put_gone(self, sseqs: list[int], sseq: int) -> None:
        """Append runs of neighbours."""
        count = len(sseqs)
        index = 0
        while index < count:
            first = sseqs[index]
            last = first
            down = False
            end = index + 1
            while end < count:
                following = sseqs[end]
                if end == index + 1:
                    down = following < first
                if (following + 1 != last) if down else (following != last + 1):
                    break
                last = following
                end += 1
            self.put_varint((end - index) << 1 | down)
            self.put_step((first - sseq) & _MASK)
            sseq = last
            index = end

    def put_redelivered(self, rows: list[tuple[int, int]], sseq: int) -> None:
        for row in rows:
            next_sseq, times = row
            self.put_step((next_sseq - sseq) & _MASK)
            self.put_varint(times)
            sseq = next_sseq


class StateCopy:
    """The lists of a whole state, gathered in pieces while the state changes.

    Of a message that was added more than once, the last row counts, and one that is gone is not pending: it
    must not be added again after that.  Lists are encoded as they come, relative to their first rows, which
    ``EntryWriter.put_copy`` encodes relative to the floor that the state has in the end.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.pending_rows = self.gone_rows = self.redelivered_rows = 0
        self.pending = NumberBuffer()
        self.gone = NumberBuffer()
        self.redelivered = NumberBuffer()
        self.first_pending = self.last_pending = (0, 0, 0)
        self.first_gone = self.last_gone = 0
        self.first_redelivered = self.last_redelivered = (0, 0)

    def add(
        self, pending: list[tuple[int, int, int]], gone: list[int], redelivered: list[tuple[int, int]]
    ) -> None:
        """Add rows of ``Changes``."""
        if pending:
            if not self.pending_rows:
                self.first_pending = self.last_pending = pending[0]
                self.pending_rows = 1
                pending = pending[1:]
            sseq, dseq, at = self.last_pending
            self.pending.put_pending(pending, sseq, dseq, at)
            self.pending_rows += len(pending)
            self.last_pending = pending[-1] if pending else self.last_pending
        if gone:
            if not self.gone_rows:
                self.first_gone = self.last_gone = gone[0]
                self.gone_rows = 1
                gone = gone[1:]
            self.gone.put_gone(gone, self.last_gone)
            self.gone_rows += len(gone)
            self.last_gone = gone[-1] if gone else self.last_gone
        if redelivered:
            if not self.redelivered_rows:
                self.first_redelivered = self.last_redelivered = redelivered[0]
                self.redelivered_rows = 1
                redelivered = redelivered[1:]
            self.redelivered.put_redelivered(redelivered, self.last_redelivered[0])
            self.redelivered_rows += len(redelivered)
            self.last_redelivered = redelivered[-1] if redelivered else self.last_redelivered


class EntryWriter(NumberBuffer):
    """An entry that is being encoded."""

    def __init__(self, kind: int, number: int) -> None:
        GrowingBuffer.__init__(self)
        self.reserve(1)
        self.put_little(_VERSION << 4 | kind, 1)
        self.put_varint(number)

    def put_bytes(self, data: bytes) -> None:
        self.put_varint(len(data))
        self.append(data)

    def put_section(self, link: int, changes: Changes) -> None:
        self._put_head(link, changes)
        self.put_count(len(changes.pending))
        self.put_pending(changes.pending, changes.floor_sseq, changes.floor_dseq, 0)
        self.put_count(len(changes.gone))
        self.put_gone(changes.gone, changes.floor_sseq)
        self.put_count(len(changes.redelivered))
        self.put_redelivered(changes.redelivered, changes.floor_sseq)

    def put_copy(self, link: int, changes: Changes, copy: StateCopy) -> None:
        """Append a section whose lists were copied before."""
        self._put_head(link, changes)
        self.put_count(copy.pending_rows)
        if copy.pending_rows:
            self.put_pending([copy.first_pending], changes.floor_sseq, changes.floor_dseq, 0)
            self._put_all(copy.pending)
        self.put_count(copy.gone_rows)
        if copy.gone_rows:
            self.put_gone([copy.first_gone], changes.floor_sseq)
            self._put_all(copy.gone)
        self.put_count(copy.redelivered_rows)
        if copy.redelivered_rows:
            self.put_redelivered([copy.first_redelivered], changes.floor_sseq)
            self._put_all(copy.redelivered)

    def _put_head(self, link: int, changes: Changes) -> None:
        self.put_varint(link)
        self.put_varint(changes.delivered_sseq)
        self.put_varint(changes.delivered_dseq)
        self.put_varint(changes.floor_sseq)
        self.put_varint(changes.floor_dseq)
        self.put_varint(changes.reserved)

    def _put_all(self, other: NumberBuffer) -> None:
        self.reserve(other.size)
        self.put_part(other, 0, other.size)


class ConsumerEntryReader:
    """A position in an entry."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)

    def rest(self) -> int:
        return self._end - self._at

    def byte(self) -> int:
        if self._at >= self._end:
            raise ValueError("an entry is cut")
        value = self._data[self._at]
        self._at += 1
        return value

    def varint(self) -> int:
        value = 0
        shift = 0
        while True:
            byte = self.byte()
            if shift == 63 and byte > 1:
                raise ValueError("a number has more than 64 bits")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def step(self) -> int:
        """Read a number of ``put_step``."""
        value = self.varint()
        return (value >> 1) ^ (_MASK if value & 1 else 0)

    def bytes(self) -> bytes:
        size = self.varint()
        if size > self._end - self._at:
            raise ValueError("an entry is cut")
        start = self._at
        self._at += size
        return self._data[start : self._at]

    def letter(self) -> OpenLetter:
        created = self.varint()
        consumer = self.bytes().decode()
        sseq = self.varint()
        identity = self.bytes().decode()
        seq = self.varint()
        subject = self.bytes()
        block = self.bytes()
        return OpenLetter(consumer, created, sseq, identity, seq, subject, block, self.bytes())

    def section(self, entry: ConsumerEntry) -> None:
        changes = Changes()
        entry.link = self.varint()
        changes.delivered_sseq = self.varint()
        changes.delivered_dseq = self.varint()
        changes.floor_sseq = self.varint()
        changes.floor_dseq = self.varint()
        changes.reserved = self.varint()
        changes.pending = self._pending(changes.floor_sseq, changes.floor_dseq)
        changes.gone = self._gone(changes.floor_sseq)
        changes.redelivered = self._redelivered(changes.floor_sseq)
        entry.changes = changes

    def _count(self) -> int:
        count = self.varint()
        if count > _MOST:
            raise ValueError("an entry lists too many messages")
        return count

    def _pending(self, sseq: int, dseq: int) -> list[tuple[int, int, int]]:
        rows = []
        moment = 0
        left = self._count()
        while left > 0:
            head = self.varint()
            length = self._length(head, left)
            way = _MASK if head & 1 else 1
            # One step before the run, so that every message is one step on.
            sseq = (sseq + self.step() - way) & _MASK
            dseq = (dseq + self.step() - way) & _MASK
            moment = (moment + self.step()) & _MASK
            at = _signed(moment)
            for _ in range(length):
                sseq = (sseq + way) & _MASK
                dseq = (dseq + way) & _MASK
                rows.append((sseq, dseq, at))
            left -= length
        return rows

    def _gone(self, sseq: int) -> list[int]:
        sseqs = []
        left = self._count()
        while left > 0:
            head = self.varint()
            length = self._length(head, left)
            way = _MASK if head & 1 else 1
            sseq = (sseq + self.step() - way) & _MASK
            for _ in range(length):
                sseq = (sseq + way) & _MASK
                sseqs.append(sseq)
            left -= length
        return sseqs

    def _length(self, head: int, left: int) -> int:
        length = head >> 1
        if length == 0 or length > left:
            raise ValueError("a run has the wrong length")
        return length

    def _redelivered(self, sseq: int) -> list[tuple[int, int]]:
        rows = []
        left = self._count()
        while left > 0:
            sseq = (sseq + self.step()) & _MASK
            times = self.varint()
            rows.append((sseq, times))
            left -= 1
        return rows


def _signed(value: int) -> int:
    """Convert a number modulo 2^64 to a signed one."""
    if not cython.compiled and value >> 63:
        return value - (1 << 64)
    return value
