"""The ordered consumer without a connection: what arrives, what comes next, and what waits for the reader.

The consumer sequence tells gaps: consumers number what they send, so the next message of the same consumer
has the next number.  The stream sequence tells where to go on: a consumer that has to be made anew starts
after the last good one.  Where the first consumer started is remembered too (`opened`), since "the newest"
and "what is new" mean something else when the question is asked again.

Last per subject is the one start that can not be continued by a sequence, because below the sequence where
it ends only some messages belong to it.  So it is asked for again, what was handed out is left, and where it
ends the consumer is made anew once more, to get each message after that end.

Flow control works by answers: the server stops sending when an answer is due for too long.  So an answer is
kept in line behind the messages before it, and is due when they were taken: a reader that is slow makes the
server wait, and memory is bounded by the server's window (32 MiB at most).  The bounds here hold where that
window does not: many small messages, or a server without flow control.

Always true: what is put into the buffer has the next stream sequence that the reader is to see.  After a
`trouble` nothing is taken until the next `listen`.  On a link this is a receiver of the parser's messages,
and the next message is recognised where it lies; whoever has messages as objects calls ``receive``.
No I/O here, and no time.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from millstream.base.buffer import equal_parts
from millstream.base.decimals import read_whole
from millstream.client.state import OrderedMessage, ResetReason
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DeliverPolicy
from millstream.jsapi.headers import CONSUMER_STALLED, LAST_CONSUMER
from millstream.link.deliveries import Receiver, copy_message
from millstream.link.parser import LinkParser
from millstream.protocol.ack_subject import AckNumbers, read_ack_subject

_CONTROL_STATUS = 100
_HEARTBEAT = "Idle Heartbeat"
_FLOW_CONTROL = "FlowControl Request"
_NO_HEADERS: dict[str, str] = {}


class Arrival(Protocol):
    """A message as an object; `status` is 0 for those that are messages of the stream."""

    @property
    def subject(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def reply(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def status(self) -> int: ...
    @property
    def description(self) -> str: ...


class OrderedCore(Receiver):
    """`config` is what the user asked for; it is never changed.  `changed` is called after each chunk."""

    def __init__(
        self,
        config: ConsumerConfig,
        *,
        max_messages: int,
        max_bytes: int,
        changed: Callable[[], None],
    ) -> None:
        if max_messages < 1 or max_bytes < 1:
            raise ValueError("a buffer needs room for at least one message")
        self.consumer_seq = 0  # the last one of the present consumer
        self.stream_seq = 0  # the last good one, or the one before the first
        self.seen_seq = 0  # of the last message that came; 0: none did
        self.pending = 0  # messages that the server had left, at its last word
        self.trouble: ResetReason | None = None  # why the present consumer is of no use any more
        self.heard = 0  # messages of the consumers, and what they said about themselves
        self.heartbeats = 0
        self.held = 0  # in the buffer
        self.held_bytes = 0  # of their bodies
        self.good = False  # something right has come since `listen`
        self._config = config
        self._changed = changed
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._items: deque[OrderedMessage | str] = deque()  # a text is a subject to answer to
        self._stream = ""
        self._consumer = ""
        self._inbox = ""
        self._prefix = b""  # what reply subjects of the present consumer begin with, once one has come
        self._last_subject = b""
        self._last_subject_text = ""
        self._placed = False  # whether it is known where to go on
        self._snapshot_end = 0  # last per subject: the last sequence of the stream when it was asked for
        self._numbers = AckNumbers()
        self._repeating = False  # whether the present consumer was asked for last per subject once more

    # -- one consumer after the other -----------------------------------------------------------------

    def ask(self, stream_last_seq: int) -> ConsumerConfig:
        """The configuration of the next consumer, for a stream whose last sequence is, or was, this one."""
        self.consumer_seq = 0
        self._repeating = False
        config = msgspec.structs.replace(self._config)
        if not self._placed:
            if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
                self._snapshot_end = stream_last_seq
            return config
        if self.in_snapshot():
            self._repeating = True
            return config
        config.deliver_policy = DeliverPolicy.BY_START_SEQUENCE
        config.opt_start_seq = self.stream_seq + 1
        config.opt_start_time = None
        return config

    def listen(self, stream: str, consumer: str, inbox: str) -> None:
        """Take what this consumer sends to `inbox`, and nothing else."""
        self._stream = stream
        self._consumer = consumer
        self._inbox = inbox
        self._prefix = b""
        self.trouble = None
        self.good = False

    def deaf(self) -> None:
        """Take nothing until `listen`."""
        self._consumer = ""
        self._prefix = b""

    def opened(self, delivered_consumer_seq: int, delivered_stream_seq: int) -> None:
        """The consumer was made; the server said what it had delivered by then."""
        if self._placed:
            return
        if self._snapshot_end:
            self._placed = True
        elif delivered_consumer_seq == 0:
            self.stream_seq = max(self.stream_seq, delivered_stream_seq)
            self._placed = True

    def in_snapshot(self) -> bool:
        """Whether messages of the last-per-subject start may still come."""
        return self.stream_seq < self._snapshot_end

    def give_up(self, reason: ResetReason) -> None:
        """The present consumer is of no use any more: nothing of it is taken from here on."""
        if self.trouble is None and self._consumer:
            self.trouble = reason
            self.deaf()

    # -- what arrives ---------------------------------------------------------------------------------

    def take(self, parser: LinkParser) -> bool:
        """Take the message that the parser stands at; the next one of the stream without a detour."""
        if not self._take_next(parser):
            self.receive(copy_message(parser))
        return True

    def chunk_ended(self) -> None:
        self._changed()

    def _take_next(self, parser: LinkParser) -> bool:
        """Whether this was the next message of the stream, and is in the buffer now."""
        known = len(self._prefix)
        if known == 0 or parser.reply_size <= known or self.is_full():
            return False
        p = parser.buffer
        if not equal_parts(p, parser.reply_start, self._prefix, known):
            return False
        end = parser.reply_start + parser.reply_size
        numbers = self._numbers
        if not numbers.read(p, parser.reply_start + known, end) or numbers.end != end:
            return False
        stream_seq = numbers.stream_seq
        consumer_seq = numbers.consumer_seq
        pending = numbers.pending
        if consumer_seq != self.consumer_seq + 1 or stream_seq <= self.stream_seq:
            return False
        if self._repeating and stream_seq > self._snapshot_end:
            return False
        self.consumer_seq = consumer_seq
        self.stream_seq = self.seen_seq = stream_seq
        self.pending = pending
        self.heard += 1
        self._placed = True
        self.good = True
        headers: Any = _NO_HEADERS
        if parser.header_size:
            headers = copy_message(parser).headers
        payload = parser.payload()
        subject = parser.subject()
        if subject != self._last_subject:
            self._last_subject = subject
            self._last_subject_text = subject.decode("utf-8", "replace")
        self.held += 1
        self.held_bytes += len(payload)
        self._items.append(
            OrderedMessage(
                self._last_subject_text,
                payload,
                headers,
                self._stream,
                stream_seq,
                consumer_seq,
                numbers.timestamp_ns,
                pending,
            )
        )
        return True

    def receive(self, message: Arrival) -> None:
        """Take a message that may be anything."""
        if not self._consumer:
            return
        if message.subject == self._inbox:
            if message.status == _CONTROL_STATUS:
                self.heard += 1
                self._control(message)
            return
        position = read_ack_subject(message.reply)
        if position is None or position.consumer != self._consumer:
            return  # sent to the inbox by somebody else
        self.heard += 1
        if self.is_full():
            self.give_up(ResetReason.BUFFER_FULL)
            return
        if not self._prefix and not position.rest:
            self._prefix = message.reply[: -len(position.numbers)].encode()
        if not self._is_next(position.consumer_seq, position.stream_seq):
            return
        self.pending = position.pending
        self.held += 1
        self.held_bytes += len(message.payload)
        self._items.append(
            OrderedMessage(
                message.subject,
                message.payload,
                message.headers or _NO_HEADERS,
                position.stream,
                position.stream_seq,
                position.consumer_seq,
                position.timestamp_ns,
                position.pending,
            )
        )

    def _is_next(self, consumer_seq: int, stream_seq: int) -> bool:
        """Judge a message of the present consumer: the next one, one that is known, or one behind a gap."""
        if consumer_seq != self.consumer_seq + 1:
            # The same frame once more is harmless; a consumer that counts from 1 again is not.
            if consumer_seq > self.consumer_seq or stream_seq > self.stream_seq:
                self.give_up(ResetReason.GAP)
            return False
        if stream_seq <= self.stream_seq:
            self.consumer_seq = consumer_seq
            return False
        if self._repeating and stream_seq > self._snapshot_end:
            self.stream_seq = self._snapshot_end  # between here and there may be more than the last ones
            self.give_up(ResetReason.GAP)
            return False
        self.consumer_seq = consumer_seq
        self.stream_seq = self.seen_seq = stream_seq
        self._placed = True
        self.good = True
        return True

    def _control(self, message: Arrival) -> None:
        """Take what the consumer says about itself."""
        if message.description == _FLOW_CONTROL and message.reply:
            self._put_answer(message.reply)
        elif message.description == _HEARTBEAT:
            self.heartbeats += 1
            if _number(message.headers.get(LAST_CONSUMER)) != self.consumer_seq:
                self.give_up(ResetReason.GAP)
                return
            self.good = True
            stalled = message.headers.get(CONSUMER_STALLED)
            if stalled:
                self._put_answer(stalled)

    def _put_answer(self, subject: str) -> None:
        """`subject` waits for an answer, which is due when all that is here now was taken."""
        if not self._items or self._items[-1] != subject:
            self._items.append(subject)

    # -- what waits for the reader --------------------------------------------------------------------

    def is_full(self) -> bool:
        return self.held >= self._max_messages or self.held_bytes >= self._max_bytes

    def is_drained(self) -> bool:
        """Whether at least half of the room is free."""
        return self.held <= self._max_messages // 2 and self.held_bytes <= self._max_bytes // 2

    def is_empty(self) -> bool:
        return not self._items

    def pop(self, limit: int) -> list[OrderedMessage]:
        """At most `limit` messages, up to the next answer."""
        found: list[OrderedMessage] = []
        items = self._items
        while items and len(found) < limit:
            item = items[0]
            if not isinstance(item, OrderedMessage):
                break
            items.popleft()
            found.append(item)
            self.held -= 1
            self.held_bytes -= len(item.data)
        return found

    def answers_due(self) -> list[str]:
        """Subjects that wait for an answer, and that no message stands before."""
        due: list[str] = []
        while self._items and isinstance(self._items[0], str):
            due.append(self._items[0])
            self._items.popleft()
        return due

    def discard(self) -> None:
        """Drop what waits."""
        self._items.clear()
        self.held = 0
        self.held_bytes = 0


def _number(text: str | None) -> int:
    """Documents show heartbeats with an empty sequence, for none."""
    return (read_whole(text) if text else None) or 0
