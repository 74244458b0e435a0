"""The fast path of a message into an atomic batch: staged for the commit without further checks.

Compiled, because it is on the path of messages.  It is for batches that ``atomic_batch`` has opened, and for
messages without a reply subject whose only headers that JetStream interprets are the two of every batch:

    Nats-Batch-Id: b1
    Nats-Batch-Sequence: 7

No rule of a stream with a fast path can refuse such a message, so the commit does not check it either.  All
others, and all errors, are left to ``atomic_batch``, which has every rule.
"""

from collections.abc import Callable

from millstream.base.buffer import equal_bytes
from millstream.jetstream.publish.batch_timeout import BatchTimeout
from millstream.jetstream.publish.candidate import Incoming
from millstream.jsapi.limits import MAX_BATCH_ID_BYTES, MAX_HEADER_BYTES
from millstream.protocol.digits import digits_end, read_number
from millstream.protocol.headers import START
from millstream.protocol.parser import Frame

_MAX_HEADER_BYTES = MAX_HEADER_BYTES
_MAX_ID_BYTES = MAX_BATCH_ID_BYTES
_MAX_DIGITS = 9
_START = START
_OURS = b"\nNats-"  # behind a CR: the beginning of every header that means something
_ID = b"\nNats-Batch-Id:"
_SEQUENCE = b"\nNats-Batch-Sequence:"
_CR = ord("\r")
_LF = ord("\n")
_BLANK = ord(" ")


class StagedMessage:
    """A message that needs no check."""

    def __init__(self, subject: bytes, source: bytes, header_size: int) -> None:
        self.subject = subject
        self.source = source  # headers and payload
        self.header_size = header_size

    def incoming(self) -> Incoming:
        """Return the message for the slow path."""
        block, payload = self.source[: self.header_size], self.source[self.header_size :]
        return Incoming(self.subject, b"", block, payload)


class OpenBatch:
    """A batch that is not committed yet."""

    def __init__(self, most: int) -> None:
        self.most = most  # messages that it may have
        self.messages: list[StagedMessage | Incoming] = []
        self.size = 0  # bytes of all of them
        self.patience = BatchTimeout()


class BatchStaging:
    """The open batches of one stream."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.open: dict[bytes, OpenBatch] = {}
        self.held = 0  # bytes of all of them
        self.granted = 0  # bytes that they may have before ``atomic_batch`` asks for more
        self._now_ns = now_ns
        self._id_start = 0  # of what the headers of a message say, in its frame
        self._id_size = 0
        self._number = 0

    def take(self, subject: bytes, frame: Frame) -> bool:
        """Stage a message if it is the next of an open batch; otherwise return False.

        Do not keep the frame.
        """
        if frame.reply_size > 0 or not self.open or not self._only_names_batch(frame):
            return False
        batch = self.open.get(frame.buf[self._id_start : self._id_start + self._id_size])
        if batch is None or self._number != len(batch.messages) + 1 or self._number > batch.most:
            return False
        size = len(subject) + frame.body_size
        if self.held + size > self.granted:
            return False
        source = frame.buf[frame.body_start : frame.body_start + frame.body_size]
        batch.messages.append(StagedMessage(subject, source, frame.header_size))
        batch.size += size
        self.held += size
        batch.patience.heard_ns = self._now_ns()
        return True

    def _only_names_batch(self, frame: Frame) -> bool:
        """Return True if the headers only name batch and number, which are recorded.

        Lookups are those of ``protocol.headers``: a header begins after CRLF, wherever that is.
        """
        p = frame.buf
        at = frame.body_start
        end = at + frame.header_size
        if frame.header_size <= len(_START) or frame.header_size > _MAX_HEADER_BYTES:
            return False
        if not equal_bytes(frame.buf, at, _START):
            return False  # it has a status
        self._id_size = 0
        self._number = 0
        at += len(_START) - 2  # a CRLF
        while at + 4 < end:
            if p[at] != _CR or p[at + 1] != _LF:
                at += 1
            elif p[at + 2] == _CR and p[at + 3] == _LF:
                return False  # an empty line among the headers
            elif not equal_bytes(frame.buf, at + 1, _OURS):
                at += 2
            elif self._id_size == 0 and equal_bytes(frame.buf, at + 1, _ID):
                at = self._read_id(frame, at + 1 + len(_ID), end)
            elif self._number == 0 and equal_bytes(frame.buf, at + 1, _SEQUENCE):
                at = self._read_number(frame, at + 1 + len(_SEQUENCE), end)
            else:
                return False
        closed = at + 4 == end and p[at] == _CR and p[at + 1] == _LF and p[at + 2] == _CR and p[at + 3] == _LF
        return closed and 0 < self._id_size <= _MAX_ID_BYTES and self._number > 0

    def _read_id(self, frame: Frame, at: int, end: int) -> int:
        """Record where the value is; return its end."""
        p = frame.buf
        while at < end and p[at] == _BLANK:
            at += 1
        self._id_start = at
        while at + 1 < end and not (p[at] == _CR and p[at + 1] == _LF):
            at += 1
        self._id_size = at - self._id_start
        return at

    def _read_number(self, frame: Frame, at: int, end: int) -> int:
        """Record the value, if a batch could have it; return its end."""
        p = frame.buf
        while at < end and p[at] == _BLANK:
            at += 1
        stop = digits_end(p, at, min(end, at + _MAX_DIGITS))
        if stop < end and p[stop] == _CR:
            self._number = read_number(p, at, stop)
        return stop
