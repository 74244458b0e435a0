"""Parse messages in the two forms that JetStream sends them, and append them to `Columns`.

`take` continues until an event that the reader must handle, and returns its code:

    NEED_MORE   the parser needs bytes               FULL      the batch is big enough: flush
    OTHER       an operation that is no message      FINISHED  the last sequence of the range was passed
    FOREIGN     a message of another subscription    LOST      a message between two of them did not arrive
    STATUS      a status message

A consumer sends a message under its own subject, with sequence and time in the reply subject.  A direct get
sends it to our inbox, with its position in header lines after the message's own:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<time ns>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>.<seq>.<consumer seq>.<time ns>.<pending>.<…>

    Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Time-Stamp, Nats-Num-Pending, Nats-Last-Sequence

Lines that the server added are in no column, so both forms give the same rows.

Not here: requesting messages, and handling the codes (`readers`).
"""

from typing import Any, Final

from millstream.base.buffer import equal_parts
from millstream.link.errors import ProtocolViolation
from millstream.link.parser import LinkOp, LinkParser
from millstream.protocol.ack_subject import AckNumbers
from millstream.protocol.digits import digits_end, read_number
from millstream.protocol.header_lines import lines_end
from millstream.protocol.headers import VERSION
from millstream.subjects.match import matches
from millstream.tables.columns import Columns
from millstream.tables.memory import find_byte

NEED_MORE: Final = 0
OTHER: Final = 1
FOREIGN: Final = 2
STATUS: Final = 3
FULL: Final = 4
FINISHED: Final = 5
LOST: Final = 6
ADDED: Final = 7  # returned only by `add`: the range is not finished

MAX_ROWS: Final = 10_000  # rows of a batch
MAX_BYTES: Final = 8 * 1024 * 1024

# For C: Python cannot see a C-declared name.
_NEED_MORE = NEED_MORE
_OTHER = OTHER
_FOREIGN = FOREIGN
_STATUS = STATUS
_FULL = FULL
_FINISHED = FINISHED
_LOST = LOST
_ADDED = ADDED
_OP_NEED_MORE = LinkOp.NEED_MORE
_OP_MSG = LinkOp.MSG
_MAX_ROWS = MAX_ROWS
_MAX_BYTES = MAX_BYTES

_CR = ord("\r")
_LF = ord("\n")
_SPACE = ord(" ")
_COLON = ord(":")
_DOT = ord(".")
_DOLLAR = ord("$")

_FIRST_LINE = len(VERSION)
_DIRECT_LINES = 6  # lines that a batched direct get adds
_SIZE_LINES = 1  # lines that a consumer with headers_only adds
_GAPS_KEPT = 100


class Intake:
    """The messages of one range of one stream.

    `direct` selects the form.  `sizes`: the server sends headers only, with the payload's size in a header.
    `patterns` selects subjects where the server did not filter.  Messages beyond `high` and messages seen
    before are dropped.
    """

    def __init__(
        self,
        columns: Columns,
        low: int,
        high: int,
        *,
        direct: bool = False,
        sizes: bool = False,
        patterns: tuple[bytes, ...] = (),
    ) -> None:
        self.columns = columns
        self.received = 0  # messages so far, including dropped ones
        self.last = low - 1  # the sequence before the next message
        self.pending = -1  # from the newest message; -1: unknown
        self.op = 0  # the parser's operation for OTHER
        self.gaps: list[tuple[int, int]] = []  # missing sequences; the first hundred ranges
        self._high = high
        self._delivered = 0
        self._reply_prefix = b""  # prefix of the consumer's replies, up to the dot after its name
        self._direct = direct
        self._sizes = sizes
        self._patterns = patterns
        self._numbers = AckNumbers()

    def flush(self, schema: Any) -> Any:
        """Return the rows as a record batch and start an empty one."""
        return self.columns.flush(schema)

    def take(self, parser: LinkParser, sid: int) -> int:
        """Append messages of a subscription; return one of the codes above."""
        columns = self.columns
        while columns.rows < _MAX_ROWS and columns.volume < _MAX_BYTES:
            op = parser.next()
            if op != _OP_MSG:
                self.op = op
                return _NEED_MORE if op == _OP_NEED_MORE else _OTHER
            if parser.sid != sid:
                return _FOREIGN
            code = self._take_direct(parser) if self._direct else self._take_delivered(parser)
            if code != _ADDED:
                return code
        return _FULL

    def restart(self) -> None:
        """Continue after `last` with a new consumer."""
        self._delivered = 0

    def add(self, subject: bytes, seq: int, time_ns: int, headers: bytes, payload: bytes) -> int:
        """Append one message that came in another way; return ADDED or FINISHED."""
        self.received += 1
        joined = subject + headers + payload
        end = lines_end(joined, len(subject), len(subject) + len(headers))
        return self._row(
            joined, 0, len(subject), seq, time_ns, len(subject), end,
            len(subject) + len(headers), len(payload), len(payload),
        )  # fmt: skip

    def _take_delivered(self, parser: LinkParser) -> int:
        """Append a message from a consumer."""
        p = parser.buffer
        end = parser.reply_start + parser.reply_size
        if parser.reply_size == 0:
            return _STATUS
        numbers = self._numbers
        if not numbers.read(p, self._numbers_start(parser), end):
            raise self._strange_reply(parser)
        self.received += 1
        if numbers.consumer_seq != self._delivered + 1:
            return _LOST
        self._delivered = numbers.consumer_seq
        self.pending = numbers.pending
        size = parser.payload_size
        header_end = lines_end(p, parser.header_start, parser.header_start + parser.header_size)
        if self._sizes:
            start = self._last_lines(p, parser.header_start, header_end, _SIZE_LINES)
            size = self._number_after_colon(p, start, header_end)
            header_end = start
        return self._row(
            p, parser.subject_start, parser.subject_size, numbers.stream_seq, numbers.timestamp_ns,
            parser.header_start, header_end, parser.payload_start, parser.payload_size, size,
        )  # fmt: skip

    def _numbers_start(self, parser: LinkParser) -> int:
        """Return the position of the numbers in a reply subject, after the consumer's fixed prefix."""
        p = parser.buffer
        start = parser.reply_start
        end = start + parser.reply_size
        size = len(self._reply_prefix)
        if 0 < size < parser.reply_size and equal_parts(p, start, self._reply_prefix, size):
            return start + size
        at = self._numbers.find(p, start, end)
        if at < 0 or p[start] != _DOLLAR:
            raise self._strange_reply(parser)
        self._reply_prefix = bytes(p[start:at])
        return at

    def _strange_reply(self, parser: LinkParser) -> ProtocolViolation:
        return ProtocolViolation(f"a consumer's message has the reply subject {parser.reply()!r}")

    def _take_direct(self, parser: LinkParser) -> int:
        """Append a message from a direct get."""
        p = parser.buffer
        begin = parser.header_start
        if parser.header_size <= _FIRST_LINE or p[begin + _FIRST_LINE] == _SPACE:
            return _STATUS
        end = lines_end(p, begin, begin + parser.header_size)
        first = self._last_lines(p, begin, end, _DIRECT_LINES)
        at = find_byte(p, _LF, first, end) + 1  # after Nats-Stream
        subject = find_byte(p, _COLON, at, end) + 2
        at = find_byte(p, _LF, subject, end) + 1
        subject_size = at - 2 - subject
        seq = self._number_after_colon(p, at, end)
        at = find_byte(p, _LF, at, end) + 1
        time_ns = self._time_after_colon(p, at, end)
        at = find_byte(p, _LF, at, end) + 1
        self.pending = self._number_after_colon(p, at, end)
        self.received += 1
        return self._row(
            p, subject, subject_size, seq, time_ns, begin, first,
            parser.payload_start, parser.payload_size, parser.payload_size,
        )  # fmt: skip

    def _last_lines(self, p: bytes | bytearray, start: int, end: int, lines: int) -> int:
        """Return the position of the last `lines` lines of a header block."""
        i = end - 2  # the CR of the last line
        while i > start:
            if p[i - 1] == _LF and p[i - 2] == _CR:
                lines -= 1
                if lines == 0:
                    return i
            i -= 1
        raise ProtocolViolation("the server's own headers are missing from a message")

    def _number_after_colon(self, p: bytes | bytearray, start: int, end: int) -> int:
        i = find_byte(p, _COLON, start, end) + 1
        while i < end and p[i] == _SPACE:
            i += 1
        return max(read_number(p, i, digits_end(p, i, end)), 0)

    def _time_after_colon(self, p: bytes | bytearray, start: int, end: int) -> int:
        """Parse `Nats-Time-Stamp: 2026-01-02T03:04:05.6Z`; return nanoseconds since 1970."""
        i = find_byte(p, _COLON, start, end) + 2
        if i < 2 or i + 20 > end:
            raise ProtocolViolation("a message has no time stamp")
        year = read_number(p, i, i + 4)
        month = read_number(p, i + 5, i + 7)
        day = read_number(p, i + 8, i + 10)
        # Days since 1970 in the proleptic Gregorian calendar, with years that begin in March.
        if month <= 2:
            year -= 1
            month += 12
        days = (
            365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
        )
        seconds = (
            read_number(p, i + 11, i + 13) * 3600
            + read_number(p, i + 14, i + 16) * 60
            + read_number(p, i + 17, i + 19)
        )
        i += 19
        fraction = 0
        scale = 1_000_000_000
        if p[i] == _DOT:
            stop = digits_end(p, i + 1, end)
            fraction = read_number(p, i + 1, stop)
            for _ in range(stop - i - 1):
                scale //= 10
        return (days * 86400 + seconds) * 1_000_000_000 + fraction * scale

    def _row(
        self,
        p: bytes | bytearray,
        subject: int,
        subject_size: int,
        seq: int,
        time_ns: int,
        header: int,
        header_end: int,
        payload: int,
        payload_size: int,
        size: int,
    ) -> int:
        if seq <= self.last:
            return _ADDED
        if seq > self.last + 1:
            self._note_gap(seq)
        if seq > self._high:
            self.last = self._high
            return _FINISHED
        self.last = seq
        if not self._patterns or self._is_wanted(p[subject : subject + subject_size]):
            self.columns.add(
                p, subject, subject_size, seq, time_ns, header, header_end, payload, payload_size, size
            )
        return _FINISHED if seq == self._high else _ADDED

    def _note_gap(self, seq: int) -> None:
        if len(self.gaps) < _GAPS_KEPT:
            self.gaps.append((self.last + 1, min(seq - 1, self._high)))

    def _is_wanted(self, subject: bytes | bytearray) -> bool:
        return any(matches(bytes(subject), pattern) for pattern in self._patterns)
