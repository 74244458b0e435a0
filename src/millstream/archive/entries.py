"""The inner layer of a current archive: consecutive entries.

    "NATSARC1"
    name size   timestamp   sequence   header size   body size   name   headers   body
    uvarint     varint      uvarint    uvarint       uvarint
    ...

The name of a message is its subject; timestamp, sequence, headers and body are the message's own.  Other
entries have sequence 0.  An entry of zeros ends the archive, so a truncated one is detected.

Compiled, because every message of a snapshot or restore goes through it.  Not here: which entries there are
(``writer``, and the modules that read an archive).
"""

from millstream.archive.errors import invalid
from millstream.base.buffer import GrowingBuffer

MAGIC = b"NATSARC1"
MAX_NAME = 1 << 20
MAX_ENTRY = 256 * 1024 * 1024  # bytes of an entry that is not a message; `LoadLimits` bounds messages

_MAX_NAME = MAX_NAME
_LONGEST_HEAD = 50
_MORE = -1
_TOP = 1 << 63


class EntryBuffer(GrowingBuffer):
    """Entries to be written."""

    def add(
        self,
        name: bytes,
        timestamp: int,
        seq: int,
        source: bytes,
        start: int,
        header_size: int,
        size: int,
    ) -> None:
        """Add an entry whose headers and body are ``source[start:start + size]``."""
        name_size = len(name)
        if start < 0 or size < 0 or header_size > size or start + size > len(source):
            raise ValueError("headers and body do not lie within their source")
        self.begin(name_size, timestamp, seq, header_size, size)
        self.put(name, 0, name_size)
        self.put(source, start, size)

    def begin(self, name_size: int, timestamp: int, seq: int, header_size: int, size: int) -> None:
        """Begin an entry: the caller puts its name, then `size` bytes of headers and body."""
        self.reserve(_LONGEST_HEAD + name_size + size)
        self._put_number(name_size)
        if timestamp >= 0:
            self._put_number(timestamp << 1)
        else:
            self._put_number((-(timestamp + 1) << 1) | 1)
        self._put_number(seq)
        self._put_number(header_size)
        self._put_number(size - header_size)

    def _put_number(self, value: int) -> None:
        """Append a uvarint; the room must be reserved."""
        while value >= 0x80:
            self.put_little((value & 0x7F) | 0x80, 1)
            value >>= 7
        self.put_little(value, 1)


class EntryReader:
    """Reads entries from bytes as they arrive; ``next`` steps to a complete entry."""

    def __init__(self) -> None:
        self.buf = b""  # contains the current entry
        self.timestamp = 0
        self.seq = 0
        self.name_start = 0
        self.name_size = 0
        self.header_size = 0
        self.body_start = 0  # start of headers and body
        self.body_size = 0  # bytes of headers and body
        self.most = MAX_ENTRY  # a larger entry is not read; `too_large` is set
        self.too_large = False  # of the current entry only the bytes are missing
        self._at = 0
        self._begun = False
        self._number = 0  # the last number read
        self.cut = False  # of the next entry only bytes are missing

    def feed(self, data: bytes) -> None:
        self.buf = self.buf[self._at :] + data if self._at < len(self.buf) else data
        self._at = 0

    @property
    def between(self) -> bool:
        """Return True if no bytes of an incomplete entry are left."""
        return self._at >= len(self.buf)

    def next(self) -> bool:
        """Step to the next entry; return False if it is incomplete."""
        end = len(self.buf)
        at = self._at
        self.cut = False
        if not self._begun:
            if end < len(MAGIC):
                return False
            if not self.buf.startswith(MAGIC):
                raise invalid()
            self._begun = True
            self._at = at = len(MAGIC)
        at = self._read_number(at, end)
        if at == _MORE:
            return False
        name_size = self._number
        at = self._read_number(at, end)
        if at == _MORE:
            return False
        twisted = self._number
        at = self._read_number(at, end)
        if at == _MORE:
            return False
        seq = self._number
        at = self._read_number(at, end)
        if at == _MORE:
            return False
        header_size = self._number
        at = self._read_number(at, end)
        if at == _MORE:
            return False
        body_size = self._number
        if (
            name_size > _MAX_NAME
            or header_size >= _TOP
            or body_size >= _TOP
            or header_size + body_size >= _TOP
        ):
            raise invalid()
        if name_size > end - at:
            return False
        self.timestamp = _untwist(twisted)
        self.seq = seq
        self.name_start = at
        self.name_size = name_size
        if header_size + body_size > self.most:
            self.too_large = True
            return True
        self.header_size = header_size
        self.body_start = at + name_size
        self.body_size = header_size + body_size
        if self.body_size > end - self.body_start:
            self.cut = True
            return False
        self._at = self.body_start + self.body_size
        return True

    def is_end(self) -> bool:
        """Return True if the entry ends the archive."""
        return self.seq == 0 and self.timestamp == 0 and self.body_size == 0 and not self.too_large

    def name(self) -> bytes:
        return self.buf[self.name_start : self.name_start + self.name_size]

    def headers(self) -> bytes:
        return self.buf[self.body_start : self.body_start + self.header_size]

    def body(self) -> bytes:
        """Return the body without headers."""
        return self.buf[self.body_start + self.header_size : self.body_start + self.body_size]

    def _read_number(self, at: int, end: int) -> int:
        """Read a uvarint into `_number`; return its end, or -1 if it is incomplete."""
        p = self.buf
        value = 0
        shift = 0
        while at < end:
            byte = p[at]
            at += 1
            if shift == 63 and byte > 1:
                raise invalid()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._number = value
                return at
            shift += 7
            if shift > 63:
                raise invalid()
        return _MORE


def _untwist(value: int) -> int:
    """Decode a zigzag-encoded number, whose lowest bit is the sign."""
    half = value >> 1
    if value & 1:
        return -half - 1
    return half
