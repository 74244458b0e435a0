"""Turn a record in the log into the message that a client gets.

The client sees the subject that the message was published on, and a reply subject for its ack, which contains
the position of the message (``protocol.ack_subject``).

Compiled, because it is on the path of a message.  ``run`` is the fast path and sends new messages in a row;
``send`` sends special cases one at a time.
"""

from typing import TYPE_CHECKING, Any

from millstream.base.buffer import GrowingBuffer, equal_bytes
from millstream.jetstream.consumers.ledger import Ledger
from millstream.protocol import headers
from millstream.protocol.outlet import LONG, Outlet, long_part, send_long
from millstream.protocol.parser import Frame
from millstream.protocol.trace_context import find_sampled
from millstream.store.cursor import Cursor
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.consumers.delivery_spans import ConsumerSpans

# Why ``run`` stopped.
DONE = 0  # as many as it was to send
END = 1  # the stream has nothing more for this consumer
FULL = 2  # so much is not acknowledged that nothing more may go out
NOBODY = 3  # no one takes it
TOO_BIG = 4  # the next message is larger than what may be sent
TIRED = 5  # it passed over so many messages of others that those should have their turn

_DONE = DONE
_END = END
_FULL = FULL
_NOBODY = NOBODY
_TOO_BIG = TOO_BIG
_TIRED = TIRED

_DOT = ord(".")
_CRLF = b"\r\n"
_HEADER_LINE = headers.START
_SIZE = b"Nats-Msg-Size"
_MAX_NUMBERS = 5 * 21
_LONG = LONG
_REACH = 100_000  # messages that are not wanted and are passed over at a time: a few milliseconds


class Delivery:
    """Sends the messages of one consumer."""

    def __init__(self, ledger: Ledger, reply_start: bytes) -> None:
        self.settles = False  # a delivery needs no ack
        self.headers_only = False
        self.max_pending = 0  # not acknowledged at a time; 0: any number
        self.pending = 0  # messages in the stream that are still to be delivered
        self.sent = 0  # by the last run
        self.sent_bytes = 0
        self.too_big = 0  # bytes of the message that stopped the last run with TOO_BIG
        self.extra_header = b""  # a line that every message gets
        self.reach = _REACH
        self.spans: ConsumerSpans | None = None  # records deliveries of sampled traces
        self._ledger = ledger
        self._reply_start = reply_start
        self._record = Record()
        self._frame = Frame()
        self._buffer = GrowingBuffer()
        self._subject = b""
        self._payload: Any = None  # of a long message; the frame has the rest
        self._seq = 0  # of the message that is prepared
        self._deliveries = 0

    def run(self, cursor: Cursor, outlet: Outlet, most: int, most_bytes: int, now: int) -> int:
        """Send up to `most` new messages of up to `most_bytes` together; return why it stopped."""
        ledger, record = self._ledger, self._record
        self.sent = 0
        self.sent_bytes = 0
        cursor.allow(self.reach)
        while self.sent < most:
            if self.max_pending > 0 and len(ledger.pending) >= self.max_pending:
                return _FULL
            if not cursor.step(record):
                if cursor.tired:
                    return _TIRED
                self.pending = 0
                cursor.release()
                self.release()
                return _END
            size = self._prepare(record, 1, self.pending - 1 if self.pending > 0 else 0)
            if self.sent_bytes + size > most_bytes:
                self.too_big = size
                cursor.move(record.seq)
                return _TOO_BIG
            if self.send(outlet) == 0:
                cursor.move(record.seq)
                return _NOBODY
            if self.pending > 0:
                self.pending -= 1
            if self.settles:
                ledger.deliver_settled(record.seq)
            else:
                ledger.deliver(record.seq, now)
            self.sent += 1
            self.sent_bytes += size
        return _DONE

    def release(self) -> None:
        """Free the memory of the last message, and of what was read with it."""
        self._record.buf = b""
        self._payload = None

    def size_of(self, record: Record, deliveries: int, pending: int) -> int:
        """Prepare a message for ``send``; return its size for limits."""
        return self._prepare(record, deliveries, pending)

    def send(self, outlet: Outlet) -> int:
        """Send the message that ``size_of`` prepared; return the number of receivers."""
        payload = self._payload
        if payload is None:
            receivers = outlet.send(self._subject, self._frame)
        else:
            self._payload = None
            receivers = send_long(outlet, self._subject, self._frame, payload)
        if receivers > 0 and self.spans is not None and self._frame.header_size > 0:
            self._record_sent(self.spans)
        return receivers

    def _record_sent(self, spans: "ConsumerSpans") -> None:
        frame = self._frame
        if find_sampled(frame.buf, frame.body_start, frame.header_size) >= 0:
            spans.delivered(self._subject, frame, self._seq, self._deliveries)

    def _prepare(self, record: Record, deliveries: int, pending: int) -> int:
        buffer, frame = self._buffer, self._frame
        start = self._reply_start
        self._seq = record.seq
        self._deliveries = deliveries
        self._payload = None
        if record.body_size >= _LONG and not (self.headers_only or self.extra_header):
            own = record.header_size
            self._payload = long_part(record.buf, record.body_start + own, record.body_size - own)
        copied = record.body_size if self._payload is None else record.header_size
        buffer.reserve(len(start) + _MAX_NUMBERS + copied + 2)
        buffer.put(start, 0, len(start))
        buffer.put_number(deliveries)
        buffer.put_byte(_DOT)
        buffer.put_number(record.seq)
        buffer.put_byte(_DOT)
        buffer.put_number(self._ledger.delivered_dseq + 1)
        buffer.put_byte(_DOT)
        buffer.put_number(record.timestamp)
        buffer.put_byte(_DOT)
        buffer.put_number(pending)
        frame.reply_start = 0
        frame.reply_size = frame.body_start = buffer.size
        if self.headers_only or self.extra_header:
            size = self._put_changed(record)
        else:
            size = record.body_size
            buffer.put(record.buf, record.body_start, copied)
            if self._payload is None:
                buffer.put(_CRLF, 0, 2)
            frame.body_size = copied
            frame.header_size = record.header_size if record.header_size > 0 else -1
        frame.buf = buffer.take()
        if not self._is_subject_of(record):
            self._subject = record.subject()
        return record.subject_size + frame.reply_size + size

    def _put_changed(self, record: Record) -> int:
        """Prepare a message with changed headers and perhaps without its payload; return its size.

        The size does not include the header line that every message gets.
        """
        block = record.headers()
        payload = record.payload()
        if self.headers_only:
            if block and not headers.is_sound(block, _SIZE):
                block = headers.without(block, _SIZE)
            block = b"%b%b: %d\r\n\r\n" % (block[:-2] or _HEADER_LINE, _SIZE, len(payload))
            payload = b""
        size = len(block) + len(payload)
        if self.extra_header:
            name, _, _ = self.extra_header.partition(b":")
            if block and not headers.is_sound(block, name):
                block = headers.without(block, name)
            block = b"%b%b\r\n" % (block[:-2] or _HEADER_LINE, self.extra_header)
        self._frame.header_size = len(block)
        self._frame.body_size = len(block) + len(payload)
        self._buffer.append(block)
        self._buffer.append(payload)
        self._buffer.append(_CRLF)
        return size

    def _is_subject_of(self, record: Record) -> bool:
        """Return True if the last message had the same subject, so that its bytes can be reused."""
        size = record.subject_size
        if size != len(self._subject):
            return False
        return equal_bytes(record.buf, record.subject_start, self._subject)
