"""Turn a record in the log into the response of a direct get.

Header lines after the message's own contain its position:

    Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Time-Stamp     in every response
    Nats-Num-Pending, Nats-Last-Sequence                          also in a response of a batch

Compiled, because it is on the path of a message.  ``run`` sends a batch in log order, one message after the
other; ``direct`` and ``direct_batches`` handle requests and turns.
"""

from typing import Any

from millstream.base.buffer import GrowingBuffer, digits_of, equal_bytes, has_line_like
from millstream.golang.time import format_time
from millstream.protocol import headers
from millstream.protocol.outlet import LONG, Outlet, long_part, send_long
from millstream.protocol.parser import Frame
from millstream.store.cursor import Cursor
from millstream.store.log import Log
from millstream.store.record import Record

# Why ``run`` stopped.
OVER = 0  # the batch has as many messages, or bytes, as it may have
DONE = 1  # as many as it was to send at a time
END = 2  # nothing more is durable
NOBODY = 3  # no one takes it
TIRED = 4  # it passed over so many messages of others that those should have their turn

_OVER = OVER
_DONE = DONE
_END = END
_NOBODY = NOBODY
_TIRED = TIRED

_SUBJECT = b"\r\nNats-Subject: "
_SEQUENCE = b"\r\nNats-Sequence: "
_TIME = b"\r\nNats-Time-Stamp: "
_LEFT = b"\r\nNats-Num-Pending: "
_LAST = b"\r\nNats-Last-Sequence: "
_END_OF_BLOCK = b"\r\n\r\n"
_CRLF = b"\r\n"
_FIRST_LINE = headers.START
_POINT = ord(".")
_ZONE = ord("Z")
_ZEROS = b"00000000"
_VERSION = headers.VERSION
_TWO_ENDS = b"\n\n"
_OURS = (
    b"Nats-Stream",
    b"Nats-Subject",
    b"Nats-Sequence",
    b"Nats-Time-Stamp",
    b"Nats-Num-Pending",
    b"Nats-Last-Sequence",
    b"Nats-UpTo-Sequence",
)
_LONG = LONG
_SECOND = 1_000_000_000
_DAY = 86_400  # seconds
_TIME_OF_DAY = len("00:00:00Z")
_TWO_DIGITS = b"".join(b"%02d" % number for number in range(60))
_COLON = ord(":")
_FRACTION_DIGITS = 9
_MOST_LINES = 256  # bytes of all lines but the names of stream and subject
_REACH = 100_000  # messages that are not wanted and are passed over at a time: a few milliseconds


class DirectBatch:
    """The progress of one batch, and its receiver."""

    def __init__(self, reply: bytes, outlet: Outlet, left: int, left_bytes: int, pending: int) -> None:
        self.reply = reply
        self.outlet = outlet
        self.request: Any = None  # ports.Request: who asked, for what is said about the batch
        self.bare = False  # without any headers, and without counting down
        self.left = left  # messages that may still go out
        self.left_bytes = left_bytes  # the message that uses them up is the last
        self.pending = pending  # messages that are there from here on
        self.last = 0  # the sequence of the message before


class DirectSending:
    """Sends the responses of one stream."""

    def __init__(self, stream: bytes) -> None:
        self.sent = 0  # messages of the last run
        self.sent_bytes = 0
        self.reach = _REACH
        self._stream = b"Nats-Stream: " + stream
        self._record = Record()
        self._frame = Frame()
        self._buffer = GrowingBuffer()
        self._payload: Any = None  # of a long message; the frame has the rest
        self._day = -1  # that `_day_text` is for
        self._day_text = b"1969-12-31T"

    def run(self, cursor: Cursor, batch: DirectBatch, most: int, most_bytes: int) -> int:
        """Send up to `most` messages, stopping at `most_bytes` together; return why it stopped."""
        record = self._record
        self.sent = 0
        self.sent_bytes = 0
        cursor.allow(self.reach)
        while batch.left > 0 and batch.left_bytes > 0:
            if self.sent >= most or self.sent_bytes >= most_bytes:
                return _DONE
            if not cursor.step(record):
                return _TIRED if cursor.tired else _END
            if self.put(record, batch) == 0:
                return _NOBODY
            self.sent += 1
            self.sent_bytes += record.subject_size + record.body_size
        return _OVER

    def put(self, record: Record, batch: DirectBatch) -> int:
        """Send the next message of a batch; return the number of receivers."""
        if batch.bare:
            self._prepare_bare(record)
        else:
            if batch.pending > 0:
                batch.pending -= 1
            self._prepare(record, batch)
        batch.last = record.seq
        batch.left -= 1
        batch.left_bytes -= record.subject_size + record.body_size
        return self._send(batch.reply, batch.outlet)

    def one(self, log: Log, seq: int, reply: bytes, outlet: Outlet, bare: bool) -> bool:
        """Send a single durable message; return False if it does not exist."""
        record = self._record
        if not log.get(seq, record):
            return False
        self.lone(record, reply, outlet, bare)
        return True

    def lone(self, record: Record, reply: bytes, outlet: Outlet, bare: bool) -> int:
        """Send a single message; return the number of receivers."""
        if bare:
            self._prepare_bare(record)
        else:
            self._prepare(record, None)
        return self._send(reply, outlet)

    def _send(self, reply: bytes, outlet: Outlet) -> int:
        """Send the message that was prepared; return the number of receivers."""
        payload = self._payload
        if payload is None:
            return outlet.send(reply, self._frame)
        self._payload = None
        return send_long(outlet, reply, self._frame, payload)

    def _prepare_bare(self, record: Record) -> None:
        self._frame.header_size = -1
        self._put_payload(record)

    def _put_payload(self, record: Record) -> None:
        """Complete the frame with the payload, unless that is long and sent as it is."""
        frame, buffer = self._frame, self._buffer
        start = record.body_start + record.header_size
        size = record.body_size - record.header_size
        self._payload = long_part(record.buf, start, size) if size >= _LONG else None
        if self._payload is None:
            buffer.reserve(size + 2)
            buffer.put(record.buf, start, size)
            frame.body_size = buffer.size
            buffer.put(_CRLF, 0, 2)
        else:
            frame.body_size = buffer.size
        frame.buf = buffer.take()

    def _prepare(self, record: Record, batch: DirectBatch | None) -> None:
        frame, buffer = self._frame, self._buffer
        stream = self._stream
        own = record.header_size
        copied = record.body_size if record.body_size < _LONG else own
        buffer.reserve(_MOST_LINES + len(stream) + record.subject_size + copied)
        if own > 2 and _says_nothing_of_ours(record):
            buffer.put(record.buf, record.body_start, own - 2)
        elif own > 2:
            block = headers.without(record.headers(), *_OURS)
            buffer.reserve(_MOST_LINES + len(stream) + record.subject_size + len(block) + copied)
            buffer.put(block, 0, len(block) - 2)
        else:
            buffer.put(_FIRST_LINE, 0, len(_FIRST_LINE))
        buffer.put(stream, 0, len(stream))
        buffer.put(_SUBJECT, 0, len(_SUBJECT))
        buffer.put(record.buf, record.subject_start, record.subject_size)
        buffer.put(_SEQUENCE, 0, len(_SEQUENCE))
        buffer.put_number(record.seq)
        buffer.put(_TIME, 0, len(_TIME))
        self._put_time(record.timestamp)
        if batch is not None:
            buffer.put(_LEFT, 0, len(_LEFT))
            buffer.put_number(batch.pending)
            buffer.put(_LAST, 0, len(_LAST))
            buffer.put_number(batch.last)
        buffer.put(_END_OF_BLOCK, 0, len(_END_OF_BLOCK))
        frame.header_size = buffer.size
        self._put_payload(record)

    def _put_time(self, timestamp: int) -> None:
        """Append a time as ``golang.time.format_time`` does."""
        buffer = self._buffer
        second = timestamp // _SECOND
        fraction = timestamp - second * _SECOND
        day = second // _DAY
        second -= day * _DAY
        if day != self._day:
            moment = day  # no C number: the day of the lowest timestamp begins below what one can hold
            self._day_text = format_time(moment * 86_400_000_000_000)[:-_TIME_OF_DAY].encode()
            self._day = day
        text = self._day_text
        buffer.put(text, 0, len(text))
        buffer.put(_TWO_DIGITS, second // 3600 * 2, 2)
        buffer.put_byte(_COLON)
        buffer.put(_TWO_DIGITS, second // 60 % 60 * 2, 2)
        buffer.put_byte(_COLON)
        buffer.put(_TWO_DIGITS, second % 60 * 2, 2)
        if fraction > 0:
            digits = _FRACTION_DIGITS
            while fraction % 10 == 0:
                fraction //= 10
                digits -= 1
            buffer.put_byte(_POINT)
            buffer.put(_ZEROS, 0, digits - digits_of(fraction))
            buffer.put_number(fraction)
        buffer.put_byte(_ZONE)


def _says_nothing_of_ours(record: Record) -> bool:
    """Return True if the published headers are well-formed and none can be taken for one of ours."""
    start, end = record.body_start, record.body_start + record.header_size
    buf = record.buf
    return (
        equal_bytes(buf, start, _VERSION)
        and buf.find(_END_OF_BLOCK, start, end) == end - 4
        and buf.find(_TWO_ENDS, start, end) < 0
        and not has_line_like(buf, start, end, b"nats-s")
        and not has_line_like(buf, start, end, b"nats-ti")
        and not has_line_like(buf, start, end, b"nats-n")
        and not has_line_like(buf, start, end, b"nats-l")
        and not has_line_like(buf, start, end, b"nats-u")
    )
