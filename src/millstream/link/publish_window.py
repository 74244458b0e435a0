"""A window of publishes that wait for their acknowledgements.

    add ─▶ frames (one buffer) ─▶ socket          reply of each: <inbox>.<number>
                                     │
    Receipts ◀─ settle ◀─ parser ◀───┘            {"stream":"ORDERS","seq":42}

A ``PublishWindow`` numbers messages and writes them into one buffer; at most `limit` numbers lie between the
oldest message without an outcome and the newest.  An outcome is a sequence, an error of the server, or an
error of ours (no answer in time, connection lost).  It is recorded in the message's ``Receipts``, at the
message's place there, so the publisher of a thousand messages waits for one object.

Outcomes may come in any order.  An answer that comes after its message was given up is ignored, because the
publisher already knows that the outcome is unknown.  `publisher` and `blocking_publisher` have clock and
socket.
"""

import copy
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import cython
import msgspec

from millstream.base.buffer import GrowingBuffer
from millstream.base.errors import UNREADABLE_JSON
from millstream.jsapi.errors import ErrorBody
from millstream.link.errors import (
    BadMessage,
    LinkApiError,
    LinkError,
    MessageTooLarge,
    NoResponders,
    ProtocolViolation,
    RequestTimeout,
)
from millstream.link.parser import LinkParser
from millstream.protocol.digits import digits_end, read_number

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy

DEFAULT_LIMIT = 4000  # messages; a larger window is no faster with a server on the same machine
_LONGEST_SUBJECT = 3072  # bytes, of the 4,096 that a line has by default
_LINE_ROOM = 64  # bytes for the words and numbers of a line
_NO_RESPONDERS = 503
_SEQUENCE_KEY = b'"seq":'
_DUPLICATE_ENDS = (b',"duplicate": true}', b',"duplicate":true}')

_PUB = b"PUB "
_HPUB = b"HPUB "
_BLANK = ord(" ")
_CRLF = b"\r\n"


class StoredIn(NamedTuple):
    """The place of a stored message."""

    stream: str
    domain: str


class PubAck(msgspec.Struct, omit_defaults=True):
    """A server's acknowledgement: the stream and sequence of a message."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False  # a duplicate by its Nats-Msg-Id
    domain: str = ""
    val: str = ""  # of a counter


class _Answer(PubAck):
    error: ErrorBody | None = None


_ACK: Any = msgspec.json.Decoder(_Answer)


def read_ack(payload: bytes) -> PubAck:
    """Return the PubAck of an answer; LinkApiError for an error, ProtocolViolation if it is malformed."""
    try:
        ack = _ACK.decode(payload)
    except UNREADABLE_JSON:
        raise ProtocolViolation(f"the answer to a publish can not be read: {payload[:60]!r}") from None
    if ack.error is not None:
        raise LinkApiError(ack.error.code, ack.error.err_code, ack.error.description, "publish")
    if not ack.seq and not ack.stream:
        raise ProtocolViolation(f"the answer to a publish is none: {payload[:60]!r}")
    return PubAck(ack.stream, ack.seq, ack.duplicate, ack.domain, ack.val)


class Receipts:
    """The outcomes of messages that were published together, in the order in which they were added.

    `sequences` and `origins` have an entry for each; 0 and None where there is none yet.
    """

    def __init__(self, done: "Callable[[Receipts], None] | None" = None) -> None:
        self.sequences: list[int] = []
        self.origins: list[StoredIn | None] = []
        self.duplicates: set[int] = set()  # places of duplicates
        self.errors: dict[int, LinkError] = {}  # by place
        self.values: dict[int, str] = {}  # values of counters by place
        self.open = 0  # messages without an outcome
        self.sealed = False
        self._done = done

    def __len__(self) -> int:
        return len(self.sequences)

    def ack(self, place: int) -> PubAck:
        """Return the PubAck of one message; raises its error."""
        error = self.errors.get(place)
        if error is not None:
            raise copy.copy(error)  # one error may be the outcome of many messages
        origin = self.origins[place]
        assert origin is not None
        duplicate = place in self.duplicates
        return PubAck(
            origin.stream, self.sequences[place], duplicate, origin.domain, self.values.get(place, "")
        )

    def refuse(self, error: LinkError) -> None:
        """Add a message that fails without being published."""
        self.errors[len(self.sequences)] = error
        self.sequences.append(0)
        self.origins.append(None)

    def seal(self) -> None:
        """Note that no more messages are added; `done` is called with the last outcome."""
        if not self.sealed:
            self.sealed = True
            self._check_done()

    def _check_done(self) -> None:
        if self.sealed and self.open == 0 and self._done is not None:
            done = self._done
            self._done = None
            done(self)


def is_publishable(subject: bytes) -> bool:
    """Return whether a server accepts this subject in a publish: no wildcards, empty tokens, blanks or
    control characters, and short enough for a line."""
    return publishable_at(subject, len(subject))


def publishable_at(p: bytes, size: int) -> bool:
    """Return the same as `is_publishable`; compiled, `p` is a pointer."""
    if size > _LONGEST_SUBJECT:
        return False
    token_start = 0
    for i in range(size + 1):
        if i == size or p[i] == 0x2E:  # .
            if i == token_start:
                return False
            if i - token_start == 1 and (p[token_start] == 0x2A or p[token_start] == 0x3E):  # * >
                return False
            token_start = i + 1
        elif p[i] <= 0x20 or p[i] == 0x7F:
            return False
    return True


class FrameBuffer(GrowingBuffer):
    """A buffer of outgoing frames."""

    def put_at(self, source: bytes, count: int) -> None:
        """Append `count` bytes of `source`, for which room is reserved; compiled, `source` is a pointer."""
        if cython.compiled:
            target: Any = self._store
            origin: Any = source
            memcpy(target + self.size, origin, count)
        else:
            self._store[self.size : self.size + count] = source[:count]
        self.size += count

    def make_room(self, extra: int) -> None:
        self.reserve(extra)

    def put_unanswered(
        self,
        subject: bytes,
        subject_size: int,
        headers: bytes,
        header_size: int,
        payload: bytes,
        payload_size: int,
    ) -> None:
        """Append a message with headers and no reply subject; compiled, the bytes are pointers."""
        self.reserve(subject_size + header_size + payload_size + _LINE_ROOM)
        self.put(_HPUB, 0, 5)
        self.put_at(subject, subject_size)
        self.put_byte(_BLANK)
        self.put_number(header_size)
        self.put_byte(_BLANK)
        self.put_number(header_size + payload_size)
        self.put(_CRLF, 0, 2)
        self.put_at(headers, header_size)
        self.put_at(payload, payload_size)
        self.put(_CRLF, 0, 2)

    def clear(self) -> None:
        self.size = 0


class PublishWindow:
    """The messages between `add` and their outcome."""

    def __init__(self, inbox: bytes, limit: int = DEFAULT_LIMIT, frames: FrameBuffer | None = None) -> None:
        """Write to `frames`, which may be shared, or to a buffer of its own."""
        if limit < 1:
            raise ValueError("a window has room for at least one message")
        self.limit = limit
        self.inbox = inbox
        self.max_payload = 1024 * 1024  # bytes of headers and payload that the server accepts
        self.frames = FrameBuffer() if frames is None else frames
        self._prefix = inbox + b"."
        self._prefix_size = len(self._prefix)
        self._capacity = limit
        self._owners: list[Receipts | None] = [None] * limit
        self._places: list[int] = [0] * limit
        self._subjects: list[bytes | None] = [
            None
        ] * limit  # subjects of messages given as objects, for `deny`
        self._lowest = 1  # the oldest number without an outcome
        self._next = 1
        self._open = 0
        self._marks: deque[tuple[int, float]] = deque()  # numbers below … were written at …
        self._known = b""  # the prefix of the last answer on the fast path
        self._origin: StoredIn | None = None

    # -- messages in --------------------------------------------------------------------------------

    def free(self) -> int:
        """The number of messages that may be added now."""
        return self.limit - (self._next - self._lowest)

    def open_count(self) -> int:
        """The number of messages without an outcome."""
        return self._open

    def problem(self, subject: bytes, header_size: int, payload_size: int) -> LinkError | None:
        """Return the error of a message that cannot be sent, or None."""
        if not is_publishable(subject):
            return BadMessage(f"{subject[:256].decode(errors='replace')!r} is no subject to publish to")
        if header_size + payload_size > self.max_payload:
            return MessageTooLarge(
                f"the message has {header_size + payload_size} bytes, the server takes {self.max_payload}"
            )
        return None

    def add(self, receipts: Receipts, subject: bytes, headers: bytes, payload: bytes) -> int:
        """Write one message, with or without a header block, and return its number.  There must be room."""
        number = self.put(receipts, subject, len(subject), headers, len(headers), payload, len(payload))
        self._subjects[number % self._capacity] = subject
        return number

    def add_some(
        self, receipts: Receipts, messages: list[tuple[bytes, bytes, bytes]], start: int, most_bytes: int
    ) -> int:
        """Add messages (subject, headers, payload) from place `start` on until the window or `most_bytes` of
        frames are full; return the place of the first one that is left.  Invalid messages are refused."""
        count = len(messages)
        place = start
        while place < count and self.frames.size < most_bytes:
            if self._next - self._lowest >= self.limit:
                break
            subject, headers, payload = messages[place]
            problem = self.problem(subject, len(headers), len(payload))
            if problem is None:
                self.add(receipts, subject, headers, payload)
            else:
                receipts.refuse(problem)
            place += 1
        return place

    def put(
        self,
        receipts: Receipts,
        subject: bytes,
        subject_size: int,
        headers: bytes,
        header_size: int,
        payload: bytes,
        payload_size: int,
    ) -> int:
        """Add one message as `add` does; compiled, the bytes are pointers."""
        number = self._next
        if number - self._lowest >= self.limit:
            raise LinkError("the window of unanswered publishes is full")
        frames = self.frames
        frames.make_room(subject_size + self._prefix_size + header_size + payload_size + _LINE_ROOM)
        if header_size > 0:
            frames.put(_HPUB, 0, 5)
        else:
            frames.put(_PUB, 0, 4)
        frames.put_at(subject, subject_size)
        frames.put_byte(_BLANK)
        frames.put(self._prefix, 0, self._prefix_size)
        frames.put_number(number)
        frames.put_byte(_BLANK)
        if header_size > 0:
            frames.put_number(header_size)
            frames.put_byte(_BLANK)
        frames.put_number(header_size + payload_size)
        frames.put(_CRLF, 0, 2)
        if header_size > 0:
            frames.put_at(headers, header_size)
        frames.put_at(payload, payload_size)
        frames.put(_CRLF, 0, 2)
        slot = number % self._capacity
        self._owners[slot] = receipts
        self._places[slot] = len(receipts.sequences)
        receipts.sequences.append(0)
        receipts.origins.append(None)
        receipts.open += 1
        self._open += 1
        self._next = number + 1
        return number

    # -- outcomes -----------------------------------------------------------------------------------

    def settle(self, parser: LinkParser) -> bool:
        """Record the parser's current message as an outcome; return False if nothing waits for it."""
        number = self._number_of(parser)
        if number < self._lowest or number >= self._next:
            return False
        slot = number % self._capacity
        receipts = self._owners[slot]
        if receipts is None:
            return False
        place = self._places[slot]
        if not self._settle_fast(parser, receipts, place):
            self._settle_other(parser, receipts, place)
        self._close_slot(slot, receipts)
        return True

    def _number_of(self, parser: LinkParser) -> int:
        """Return the number at the end of the subject, or -1."""
        start = parser.subject_start + self._prefix_size
        end = parser.subject_start + parser.subject_size
        return read_number(parser.buffer, start, end)

    def _settle_fast(self, parser: LinkParser, receipts: Receipts, place: int) -> bool:
        """Record an answer that has the last one's prefix and only a sequence; return False for any other."""
        known = len(self._known)
        size = parser.payload_size
        if known == 0 or parser.header_size or size <= known + 1:
            return False
        start = parser.payload_start
        p = parser.buffer
        if cython.compiled:
            base: Any = parser.buffer
            expected: Any = self._known
            if memcmp(base + start, expected, known) != 0:
                return False
        elif p[start : start + known] != self._known:
            return False
        end = start + size
        i = digits_end(p, start + known, end)
        value = read_number(p, start + known, i)
        if i == end or value < 0:
            return False
        if i + 1 == end and p[i] == 0x7D:  # }
            pass
        elif bytes(parser.buffer[i:end]) in _DUPLICATE_ENDS:
            receipts.duplicates.add(place)
        else:
            return False
        receipts.sequences[place] = value
        receipts.origins[place] = self._origin
        return True

    def _settle_other(self, parser: LinkParser, receipts: Receipts, place: int) -> None:
        payload = parser.payload()
        if parser.status() == _NO_RESPONDERS and not payload:
            receipts.errors[place] = NoResponders("nobody answers: no stream takes this subject")
            return
        try:
            ack = read_ack(payload)
        except LinkError as error:
            receipts.errors[place] = error
            return
        receipts.sequences[place] = ack.seq
        receipts.origins[place] = StoredIn(ack.stream, ack.domain)
        if ack.duplicate:
            receipts.duplicates.add(place)
        if ack.val:
            receipts.values[place] = ack.val
        else:
            at = payload.find(_SEQUENCE_KEY)
            if at > 0:
                self._known = payload[: at + len(_SEQUENCE_KEY)]
                self._origin = receipts.origins[place]

    def _close_slot(self, slot: int, receipts: Receipts) -> None:
        self._owners[slot] = None
        self._open -= 1
        while self._lowest < self._next and self._owners[self._lowest % self._capacity] is None:
            self._lowest += 1
        receipts.open -= 1
        if receipts.open == 0:
            receipts._check_done()

    # -- what did not come --------------------------------------------------------------------------

    def mark(self, now: float) -> None:
        """Note that everything added so far is written at `now`."""
        if not self._marks or self._marks[-1][0] < self._next:
            self._marks.append((self._next, now))

    def oldest(self) -> float | None:
        """Return when the oldest message without an outcome was written, or None."""
        while self._marks and self._marks[0][0] <= self._lowest:
            self._marks.popleft()
        return self._marks[0][1] if self._marks else None

    def expire(self, written_before: float, timeout_s: float) -> int:
        """Give up messages written at or before that time; return their number."""
        upper = 0
        while self._marks and self._marks[0][1] <= written_before:
            upper = self._marks.popleft()[0]
        return (
            self._give_up(upper, RequestTimeout(f"no answer to a publish within {timeout_s:g} s"))
            if upper
            else 0
        )

    def fail_all(self, error: LinkError) -> int:
        """Give up every message without an outcome, because the connection is gone."""
        self.frames.clear()
        self._marks.clear()
        return self._give_up(self._next, error)

    def deny(self, subject: bytes, error: LinkError) -> int:
        """Give up messages to `subject`: the server does not permit them and sends no answer."""
        count = 0
        number = self._lowest
        while number < self._next:
            slot = number % self._capacity
            receipts = self._owners[slot]
            if receipts is not None and self._subjects[slot] == subject:
                receipts.errors[self._places[slot]] = error
                self._close_slot(slot, receipts)
                count += 1
            number += 1
        return count

    def _give_up(self, upper: int, error: LinkError) -> int:
        """Fail every message with a number below `upper`."""
        count = 0
        number = self._lowest
        while number < upper:
            slot = number % self._capacity
            receipts = self._owners[slot]
            if receipts is not None:
                receipts.errors[self._places[slot]] = error
                self._close_slot(slot, receipts)
                count += 1
            number += 1
        return count
