"""Check that a message from an origin's consumer is the next one, and store it in the stream.

Compiled, because it is on the path of a message.  The reply subject of a delivery (``protocol.ack_subject``)
contains its position: `sseq` is the sequence at the origin, and `dseq` counts the consumer's deliveries.  A
gap in `dseq` means that a message was lost on the way, and the intake closes until there is another consumer.
A gap in `sseq` alone means that the origin has no such messages, or that they are filtered out.

    MirrorIntake  keeps sequence, timestamp and headers; sequences missing at the origin are skipped
    SourceIntake  assigns a new sequence and timestamp and adds a header with the origin (``source_header``)

Messages with headers of JetStream, and streams with rules that need more checks, take the slow path through
``slow_path``.
"""

from collections.abc import Callable
from typing import Any

from millstream.base.buffer import GrowingBuffer, equal_bytes
from millstream.jetstream.publish.candidate import MARK_SOURCE
from millstream.jetstream.publish.ingest import Ingest
from millstream.protocol.ack_subject import ACK_START, AckNumbers
from millstream.protocol.headers import START, VERSION
from millstream.protocol.parser import Frame
from millstream.store.log import Log

_MARK_SOURCE = MARK_SOURCE
_START = START
_START_SIZE = len(START)
_CONTROL = VERSION + b" 100 "
_OURS = b"\r\nNats-"  # the beginning of all headers that JetStream interprets
_END = b"\r\n\r\n"
_END_SIZE = len(_END)
_ACK_START = ACK_START
_MOST_DIGITS = 20
_MOST_SUBJECTS = 1024  # subjects whose destinations are cached

# Stores subject, headers, payload, sequence and timestamp; returns False if the message is refused.
Store = Callable[[bytes, bytes, bytes, int, int], bool]


class OriginIntake:
    """The common part of both intakes.  `stream.fast_path` is true if messages may take the fast path."""

    def __init__(self, stream: Any, log: Log, ingest: Ingest, store: Store) -> None:
        self.sseq = 0  # the last sequence of the origin that was processed
        self.dseq = 0  # the last delivery of its consumer
        self.lag = 0  # messages that the origin has after it
        self.on_control: Callable[[bytes, bytes], None] | None = None  # headers and reply
        self.on_gap: Callable[[], None] | None = None
        self.on_sign: Callable[[], None] | None = None  # called for the first message since ``watch``
        self._stream = stream
        self._log = log
        self._ingest = ingest
        self._store = store
        self._consumer = b""  # the consumer whose deliveries are accepted; empty: none
        self._prefix = b""  # prefix of their reply subjects, once known
        self._told = False
        self._position = 0  # of the numbers in the current reply
        self._numbers = AckNumbers()
        self._transforms: list[Any] = []
        self._renamed: dict[bytes, bytes] = {}

    def open(self, consumer: bytes) -> None:
        """Accept the deliveries of this consumer, from its first one on."""
        self._consumer = consumer
        self._prefix = b""
        self.dseq = 0

    def close(self) -> None:
        """Accept nothing until there is another consumer."""
        self._consumer = b""
        self._prefix = b""

    def consumer(self) -> bytes:
        """Return the consumer whose deliveries are accepted; empty if there is none."""
        return self._consumer

    def rename(self, transforms: list[Any]) -> None:
        """Set the transforms of subjects."""
        self._transforms = transforms
        self._renamed = {}

    def watch(self) -> None:
        """Call ``on_sign`` for the next message."""
        self._told = False

    def take(self, subject: bytes, frame: Frame) -> None:
        """Receive a message on the deliver subject; the frame must not be kept."""
        if not self._told:
            self._told = True
            if self.on_sign is not None:
                self.on_sign()
        if frame.header_size > 0 and frame.header_size == frame.body_size and self._is_control(frame):
            return
        if not self._is_ours(frame):
            return
        numbers = self._numbers
        if not numbers.read(frame.buf, self._position, frame.reply_start + frame.reply_size):
            return
        sseq = numbers.stream_seq
        dseq = numbers.consumer_seq
        pending = numbers.pending
        if numbers.delivered != 1 or sseq == 0 or dseq == 0:
            return
        if sseq <= self.sseq:
            if dseq == self.dseq + 1:  # stored before, but this is the next delivery
                self.dseq = dseq
            return
        if dseq != self.dseq + 1:
            self.interrupt()
            return
        if not self._keep(subject, frame, sseq, numbers.timestamp_ns):
            self.interrupt()
            return
        self.sseq = sseq
        self.dseq = dseq
        self.lag = pending - 1 if pending > 0 else 0

    def _is_control(self, frame: Frame) -> bool:
        """Return True for a status message of the consumer, and pass it on."""
        if not equal_bytes(frame.buf, frame.body_start, _CONTROL):
            return False
        if self.on_control is not None:
            self.on_control(frame.headers(), frame.reply())
        return True

    def let_go(self) -> None:
        """Forget who is told of messages: nothing comes any more."""
        self.on_control = self.on_gap = self.on_sign = None
        self._store = _refuse

    def interrupt(self) -> None:
        """Close, because a message is missing or was refused, and call ``on_gap``."""
        self.close()
        if self.on_gap is not None:
            self.on_gap()

    def _keep(self, subject: bytes, frame: Frame, sseq: int, timestamp: int) -> bool:
        raise NotImplementedError

    def _is_plain(self, frame: Frame) -> bool:
        """Return True if the message has no header that JetStream interprets."""
        if frame.header_size <= 0:
            return True
        return frame.buf.find(_OURS, frame.body_start, frame.body_start + frame.header_size) < 0

    def target(self, subject: bytes) -> bytes:
        """Return the subject under which to store a message."""
        found = self._renamed.get(subject)
        if found is None:
            found = subject
            for transform in self._transforms:
                renamed = transform.apply(subject)
                if renamed is not None:
                    found = renamed
                    break
            if len(self._renamed) >= _MOST_SUBJECTS:
                self._renamed.clear()
            self._renamed[subject] = found
        return found

    # -- reply subjects ---------------------------------------------------------------------------

    def _is_ours(self, frame: Frame) -> bool:
        """Return True if our consumer delivered the message; `_position` is then that of its numbers."""
        prefix = self._prefix
        if len(prefix) > 0 and equal_bytes(frame.buf, frame.reply_start, prefix):
            self._position = frame.reply_start + len(prefix)
            return True
        return self._learn(frame)

    def _learn(self, frame: Frame) -> bool:
        """Learn the prefix of our consumer's reply subjects."""
        reply = frame.reply()
        if not self._consumer or not reply.startswith(_ACK_START):
            return False
        at = self._numbers.find(reply, 0, len(reply))
        if at < 0 or not reply[: at - 1].endswith(b"." + self._consumer):
            return False
        self._prefix = reply[:at]
        self._position = frame.reply_start + at
        return True


class MirrorIntake(OriginIntake):
    """The intake of a mirror."""

    def _keep(self, subject: bytes, frame: Frame, sseq: int, timestamp: int) -> bool:
        log = self._log
        if log.state.last_seq >= sseq:  # the sequence was used up here, by a purge for example
            self.sseq = log.state.last_seq
            return False
        if len(self._transforms) > 0:
            subject = self.target(subject)
        if not self._stream.fast_path or not self._is_plain(frame):
            return self._store(subject, frame.headers(), frame.payload(), sseq, timestamp)
        if sseq > log.state.last_seq + 1:
            log.skip_to(sseq - 1, timestamp)
        header_size = frame.header_size if frame.header_size > 0 else 0
        log.append(subject, frame.buf, frame.body_start, header_size, frame.body_size, timestamp, 0)
        if self._ingest.limit is not None:
            self._ingest.limit(subject)
        self._ingest.tell()
        return True


class SourceIntake(OriginIntake):
    """The intake of one source."""

    def __init__(self, stream: Any, log: Log, ingest: Ingest, store: Store) -> None:
        OriginIntake.__init__(self, stream, log, ingest, store)
        self._before = b""  # the header up to the sequence
        self._between = b""  # between sequence and subject
        self._behind = b""  # after the subject
        self._buffer = GrowingBuffer()

    def describe(self, before: bytes, between: bytes, behind: bytes) -> None:
        """Set the parts of the header around sequence and subject."""
        self._before = before
        self._between = between
        self._behind = behind

    def source_line(self, subject: bytes, sseq: int) -> bytes:
        """Return the header line of one message, with its line end."""
        return b"%b%d%b%b%b\r\n" % (self._before, sseq, self._between, subject, self._behind)

    def _keep(self, subject: bytes, frame: Frame, sseq: int, timestamp: int) -> bool:
        if not self._stream.fast_path or not self._is_plain(frame):
            return self._store(subject, frame.headers(), frame.payload(), sseq, timestamp)
        buffer = self._buffer
        header_size = frame.header_size if frame.header_size > 0 else 0
        room = len(self._before) + _MOST_DIGITS + len(self._between) + len(subject) + len(self._behind)
        buffer.reserve(room + frame.body_size + _START_SIZE + _END_SIZE)
        if header_size > _START_SIZE:
            buffer.put(frame.buf, frame.body_start, header_size - 2)
        else:
            buffer.put(_START, 0, _START_SIZE)
        buffer.put(self._before, 0, len(self._before))
        buffer.put_number(sseq)
        buffer.put(self._between, 0, len(self._between))
        buffer.put(subject, 0, len(subject))
        buffer.put(self._behind, 0, len(self._behind))
        buffer.put(_END, 0, _END_SIZE)
        block_size = buffer.size
        buffer.put(frame.buf, frame.body_start + header_size, frame.body_size - header_size)
        size = buffer.size
        source = buffer.take()
        if len(self._transforms) > 0:
            subject = self.target(subject)
        now = self._ingest.timestamp()
        self._log.append(subject, source, 0, block_size, size, now, _MARK_SOURCE)
        if self._ingest.limit is not None:
            self._ingest.limit(subject)
        self._ingest.tell()
        return True


def _refuse(subject: bytes, block: bytes, payload: bytes, seq: int, timestamp: int) -> bool:
    return False
