"""One record of a log: how it is written and read.

Little-endian:

    +----------+---------+---------+---------+----------+------------+---------+---------+------+
    | size u32 | crc u32 | seq u64 | ts  i64 | slen u16 | [hlen u32] | subject | headers | body |
    +----------+---------+---------+---------+----------+------------+---------+---------+------+
      kind in its top 4 bits     ns since 1970                only kind HEADERS

`size` is that of the whole record.  The checksum (CRC-32C) covers everything after it; size, kind and the
record's own place in its file are mixed in.  So neither a record with a damaged length nor a copy of a record
in a payload passes by accident, which matters when a damaged file is searched for the next valid record.

    MESSAGE, HEADERS  a stored message
    REMOVED           the body lists `seq` sequences that were removed (``numbers.pack_rising``)
    FLOOR             everything below `seq` was removed
    SKIP              sequences up to and including `seq` are used; at the end of a commit, the body says up
                      to where the file was durable when it began
    ERASED            was a message; its content was overwritten on request
    ERASE             like REMOVED, and the content of these is to be overwritten

Not here: where a record lies (``segment``), what removing one means (``log``).
"""

import os
from enum import IntEnum

import cython

from millstream.base.budget import BUDGET
from millstream.base.buffer import GrowingBuffer, read_little
from millstream.base.checksum import crc_of


class Kind(IntEnum):
    MESSAGE = 0
    HEADERS = 1
    REMOVED = 2
    FLOOR = 3
    SKIP = 4
    ERASED = 5
    ERASE = 6


MAX_RECORD = (1 << 28) - 1
MAX_SUBJECT = (1 << 16) - 1
HEADER_SIZE = 26
COMMIT_START = 8  # bytes: the body of a SKIP that ends a commit

_MESSAGE = int(Kind.MESSAGE)
_HEADERS = int(Kind.HEADERS)
_ERASED = int(Kind.ERASED)
_LAST_KIND = int(Kind.ERASE)
_HEADER_SIZE = HEADER_SIZE
_SIZE_MASK = MAX_RECORD
_MAX_SUBJECT = MAX_SUBJECT
_KIND_SHIFT = 28

_QUICK_SEAL = 16 * 1024  # bytes; checksums of fewer are not worth giving the interpreter to others
_LARGE_RECORD = 64 * 1024
_SEALED_AT_ONCE = 4 * 1024 * 1024  # bytes, in less than a millisecond
_MOST_SPARES = 16  # pieces of such memory, so that thousands of streams do not search a long list
_SMALLEST_SPARE = 2048  # smaller memory is as quickly had from the system
_SMALL_SPARE = 2 * 1024 * 1024  # memory of this size is kept although nothing waits for the disk

WHOLE = 1  # a record is there and sound
CUT = 0  # the bytes end before the record does
DAMAGED = -1  # what is there is no record
_WHOLE = WHOLE
_CUT = CUT
_DAMAGED = DAMAGED


def record_size(subject_size: int, header_size: int, body_size: int) -> int:
    """Return the size of a message's record; `header_size` 0 means without headers."""
    return _HEADER_SIZE + (4 + header_size if header_size > 0 else 0) + subject_size + body_size


_spare: list[bytearray] = []
_SPARES = BUDGET.spares


class RecordBuffer(GrowingBuffer):
    """Records to be written; ``seal``, which may run in another thread, fills in checksums.

    Memory of written buffers is reused (``recycle``), because new memory costs more than filling it.
    """

    def __init__(self) -> None:
        GrowingBuffer.__init__(self)
        self.base = 0  # where its first byte will lie in the file
        self.room = 0  # bytes by which the file may still grow behind it
        self.filled = 0  # up to where the file has zeros (see ``fill``)
        self.next_seq = 0  # for the end mark
        self._sealed = 0

    def add(
        self,
        kind: int,
        seq: int,
        timestamp: int,
        subject: bytes,
        source: bytes,
        start: int,
        header_size: int,
        size: int,
    ) -> int:
        """Append a record whose headers and body are ``source[start:start + size]``; return its size."""
        subject_size = len(subject)
        total = _HEADER_SIZE + subject_size + size
        if header_size > 0:
            total += 4
            if kind == _MESSAGE:
                kind = _HEADERS
        if start < 0 or size < 0 or header_size > size or start + size > len(source):
            raise ValueError("headers and body do not lie within their source")
        if subject_size > _MAX_SUBJECT or total > _SIZE_MASK:
            raise ValueError(f"a record cannot have {total} bytes, or a subject of {subject_size}")
        if self._capacity == 0 and _spare:
            self._store = _spare.pop() if total < _LARGE_RECORD else _spare.pop(_largest())
            self._capacity = len(self._store)
            _SPARES.take(-self._capacity)
        self.reserve(total)
        self.put_little(total | (kind << _KIND_SHIFT), 4)
        self.put_little(0, 4)
        self.put_little(seq, 8)
        self.put_little(timestamp, 8)
        self.put_little(subject_size, 2)
        if header_size > 0:
            self.put_little(header_size, 4)
        self.put(subject, 0, subject_size)
        self.put(source, start, size)
        if total >= _LARGE_RECORD and self.size - self._sealed <= _SEALED_AT_ONCE:
            # It is in the processor's cache now, and the thread that writes has more to do than this one.
            seal_records(self._store, self._sealed, self.size, self.base)
            self._sealed = self.size
        return total

    def seal(self) -> None:
        """Fill in the checksums of all records added since the last call."""
        p = self._store
        end = self.size
        at = self._sealed
        base = self.base
        if end - at < _QUICK_SEAL:
            seal_records(p, at, end, base)
        else:
            with cython.nogil:  # the loop thread goes on meanwhile
                seal_records(p, at, end, base)
        self._sealed = end

    def recycle(self) -> None:
        """Leave the memory to the next buffer; its content is no longer needed."""
        store = self._store
        self._store = bytearray()
        self.size = self._capacity = self._sealed = 0
        if len(store) < _SMALLEST_SPARE or len(_spare) >= _MOST_SPARES:
            return
        try:
            del store[-1:]  # somebody who looks at it still would keep it from growing
        except BufferError:
            return
        if _SPARES.used + len(store) <= _SPARES.limit:
            _SPARES.take(len(store))
            _spare.append(store)

    def slice(self, start: int, size: int) -> bytes:
        """Return a copy of some of the bytes."""
        return bytes(self._store[start : start + size])


def _largest() -> int:
    """Return the index of the largest spare memory, which further large records will need."""
    return max(range(len(_spare)), key=lambda index: len(_spare[index]))


def drop_large_spares() -> None:
    """Free large pieces of spare memory; called when there is time."""
    for _ in range(len(_spare)):
        try:
            piece = _spare.pop(0)
        except IndexError:  # another thread took it
            return
        if len(piece) <= _SMALL_SPARE:
            _spare.append(piece)
        else:
            _SPARES.take(-len(piece))


def has_large_spares() -> bool:
    """Return True if ``drop_large_spares`` would free something."""
    for piece in _spare:  # noqa: SIM110 - compiled, a loop is quicker than a generator
        if len(piece) > _SMALL_SPARE:
            return True
    return False


def seal_records(p: bytearray, at: int, end: int, base: int) -> None:
    """Fill in the checksums of the records in ``p[at:end]``, which will be at `base` in their file."""
    while at < end:
        size = (p[at] | (p[at + 1] << 8) | (p[at + 2] << 16) | (p[at + 3] << 24)) & _SIZE_MASK
        _put_little(p, at + 4, _crc_of_record(p, at, size, base + at), 4)
        at += size


def end_mark(seq: int, position: int) -> bytes:
    """Return the end mark between the last record and zeros; `seq` is the next sequence.

    It looks like the beginning of a record longer than any file, which is always cut off.
    """
    mark = bytearray(_HEADER_SIZE)
    p = mark
    _put_little(p, 0, _SIZE_MASK, 4)
    _put_little(p, 8, seq, 8)
    _put_little(p, 4, _crc_of_record(p, 0, _HEADER_SIZE, position), 4)
    return bytes(mark)


def _put_little(p: bytearray, at: int, value: int, count: int) -> None:
    for i in range(count):
        p[at + i] = (value >> (8 * i)) & 0xFF


def seq_in_mark(data: bytes, at: int) -> int:
    """Return the sequence in the end mark at `at`; 0 if there is no valid one."""
    if int.from_bytes(data[at : at + 4], "little") != MAX_RECORD:
        return 0
    seq = int.from_bytes(data[at + 8 : at + 16], "little")
    return seq if data[at : at + _HEADER_SIZE] == end_mark(seq, at) else 0


def erased_record(seq: int, timestamp: int, size: int, position: int) -> bytes:
    """Return a record of the same size with only its sequence and time."""
    buffer = RecordBuffer()
    buffer.base = position
    noise = os.urandom(size - _HEADER_SIZE)
    buffer.add(int(Kind.ERASED), seq, timestamp, b"", noise, 0, 0, len(noise))
    buffer.seal()
    return buffer.take()


def blank_record(data: bytearray, at: int, size: int, seq: int, timestamp: int, position: int) -> None:
    """Turn ``data[at : at + size]``, the record of message `seq`, into an ERASED one without content.

    It keeps its time if that is readable, and gets `timestamp` otherwise.  `position` is its place in the
    file.
    """
    if read_little(data, at, 4) & _SIZE_MASK == size and read_little(data, at + 8, 8) == seq:
        timestamp = _read_signed(data, at + 16)
    buffer = RecordBuffer()
    buffer.base = position
    buffer.add(_ERASED, seq, timestamp, b"", bytes(size - _HEADER_SIZE), 0, 0, size - _HEADER_SIZE)
    buffer.seal()
    data[at : at + size] = buffer.take()


def moved_record(data: bytes, position: int, new_position: int) -> bytes:
    """Return the record at `position` as it must be at another position of another file."""
    crc = int.from_bytes(data[4:8], "little") ^ position ^ new_position
    return data[:4] + crc.to_bytes(4, "little") + data[8:]


def _crc_of_record(p: bytes | bytearray, at: int, size: int, position: int) -> int:
    """Return the checksum; size and kind are included, the checksum field is not."""
    return crc_of(p, at + 8, at + size) ^ crc_of(p, at, at + 4) ^ position


class Record:
    """A view of one record in `buf`, valid until the next ``read``."""

    def __init__(self) -> None:
        self.buf = b""
        self.kind = 0
        self.start = 0
        self.size = 0
        self.seq = 0
        self.timestamp = 0
        self.subject_start = 0
        self.subject_size = 0
        self.header_size = 0  # 0: no headers
        self.body_start = 0  # of headers and payload together
        self.body_size = 0

    def read(self, buf: bytes, at: int, end: int, verify: bool, base: int = 0) -> int:
        """Parse the record at `at`; return WHOLE, CUT or DAMAGED.  `base` is the file offset of `buf`."""
        if end - at < _HEADER_SIZE:
            return _CUT
        p = buf
        first = p[at] | (p[at + 1] << 8) | (p[at + 2] << 16) | (p[at + 3] << 24)
        size = first & _SIZE_MASK
        kind = first >> _KIND_SHIFT
        subject_size = p[at + 24] | (p[at + 25] << 8)
        if kind > _LAST_KIND or size < _HEADER_SIZE + subject_size:
            return _DAMAGED
        if end - at < size:
            return _CUT
        if verify and read_little(p, at + 4, 4) != _crc_of_record(p, at, size, base + at):
            return _DAMAGED
        position = at + _HEADER_SIZE
        header_size = 0
        if kind == _HEADERS:
            if size < _HEADER_SIZE + subject_size + 4:
                return _DAMAGED
            header_size = read_little(p, position, 4)
            position += 4
            if header_size > size - _HEADER_SIZE - 4 - subject_size:
                return _DAMAGED
        self.buf = buf
        self.kind = kind
        self.start = at
        self.size = size
        self.seq = read_little(p, at + 8, 8)
        self.timestamp = _read_signed(p, at + 16)
        self.subject_start = position
        self.subject_size = subject_size
        self.header_size = header_size
        self.body_start = position + subject_size
        self.body_size = at + size - self.body_start
        return _WHOLE

    def is_message(self) -> bool:
        return self.kind <= _HEADERS

    def is_numbered(self) -> bool:
        """Return True for a message, live or erased: its sequence is its own."""
        return self.kind <= _HEADERS or self.kind == _ERASED

    def subject(self) -> bytes:
        return self.buf[self.subject_start : self.subject_start + self.subject_size]

    def headers(self) -> bytes:
        return self.buf[self.body_start : self.body_start + self.header_size]

    def payload(self) -> bytes:
        return self.buf[self.body_start + self.header_size : self.body_start + self.body_size]


def size_in(p: bytes, at: int) -> int:
    """Return the size in the header of the record at `at`, of which four bytes must exist."""
    return (p[at] | (p[at + 1] << 8) | (p[at + 2] << 16) | (p[at + 3] << 24)) & _SIZE_MASK


def seq_in(p: bytes, at: int, end: int) -> int:
    """Return the unverified sequence of the record at `at`; 0 if it is not a message, live or erased."""
    if end - at < _HEADER_SIZE:
        return 0
    kind = p[at + 3] >> 4
    return read_little(p, at + 8, 8) if kind <= _HEADERS or kind == _ERASED else 0


def time_in(p: bytes, at: int, end: int) -> int:
    """Return the unverified time of the record at `at`; 0 if it is cut."""
    return _read_signed(p, at + 16) if end - at >= _HEADER_SIZE else 0


def _read_signed(p: bytes | bytearray, at: int) -> int:
    if cython.compiled:
        return read_little(p, at, 8)  # the type says the rest
    return int.from_bytes(p[at : at + 8], "little", signed=True)
