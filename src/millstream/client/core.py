"""The sans-IO core of the ordered consumer: checks the order of messages and buffers them for the reader.

The consumer sequence shows gaps: a consumer numbers its deliveries, so its next message has the next number.
The stream sequence shows where to continue: a new consumer starts after the last good message.  `opened`
remembers where the first consumer started, because "last" and "new" mean something else for a later one.

A last-per-subject start cannot be continued by a sequence, because only some of the messages before its end
belong to it.  The new consumer therefore starts with last-per-subject again, and messages that were handed
out are skipped.  After the end of that part another consumer is created, which gets every later message.  In
a stream that keeps one message for each subject, all of them belong to it, so it continues by the sequence.

If a full buffer interrupted such a start, its repetition is *paced*: the server waits for acks, which are
queued like the answers of flow control, so the buffer is never full again.  Otherwise a slow reader would
skip all messages once for each buffer.  Where acks are refused, or do not arrive, repetitions have none.

Flow control: the server stops sending until its request is answered.  An answer is queued after the messages
before it and is due when they are taken, so a slow reader slows the server, and the server's window (at most
32 MiB) bounds memory.  The limits here apply where that window does not: many small messages, or a server
without flow control.

Invariants: a buffered message has the next stream sequence that the reader must see.  After `trouble` is set,
nothing is accepted until the next `listen`.  On a link, the core reads messages in the parser's buffer; a
carrier that has messages as objects calls ``receive``.  The core does no I/O and reads no clock.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from millstream.base.buffer import equal_parts
from millstream.base.decimals import read_whole
from millstream.client.state import OrderedMessage, ResetReason
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy
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
    """The core of one reading; it never changes `config`, and calls `changed` after each chunk."""

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
        self.consumer_seq = 0  # the last one of the current consumer
        self.stream_seq = 0  # the last good one, or the one before the first
        self.seen_seq = 0  # of the last message that came; 0: none did
        self.pending = 0  # messages that the server still had to send, as it last said
        self.trouble: ResetReason | None = None  # why the current consumer has to be replaced
        self.heard = 0  # messages of the consumers, status messages included
        self.heartbeats = 0
        self.held = 0  # in the buffer
        self.held_bytes = 0  # of their bodies
        self.good = False  # a valid message has come since `listen`
        self._config = config
        self._changed = changed
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._items: deque[OrderedMessage | str] = deque()  # a string is a flow-control subject to answer
        self._stream = ""
        self._consumer = ""
        self._inbox = ""
        self._prefix = b""  # the prefix of the current consumer's reply subjects, once known
        self._last_subject = b""
        self._last_subject_text = ""
        self._placed = False  # it is known where to continue
        self._snapshot_end = 0  # last per subject: the last sequence of the stream when it was asked for
        self._numbers = AckNumbers()
        self._repeating = False  # the current consumer repeats a last-per-subject start
        self._room = 0  # messages that filled the buffer; 0: it was never full
        self._ack_every = 0  # messages of the current consumer; 0: it is not paced
        self._acks_fail = False
        self._stuck_at = 0  # the last message when a paced consumer waited at a heartbeat

    # -- one consumer after the other -----------------------------------------------------------------

    def ask(self, stream_last_seq: int, one_per_subject: bool = False) -> ConsumerConfig:
        """Return the configuration of the next consumer.

        `stream_last_seq` is the last known sequence, and `one_per_subject` whether the stream keeps only the
        last message of each subject.
        """
        self.consumer_seq = 0
        self._repeating = False
        self._ack_every = 0
        config = msgspec.structs.replace(self._config)
        if not self._placed:
            if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
                self._snapshot_end = stream_last_seq
            return config
        if self.in_snapshot() and not one_per_subject:
            self._repeating = True
            if self._room and not self._acks_fail:
                self._pace(config)
            return config
        config.deliver_policy = DeliverPolicy.BY_START_SEQUENCE
        config.opt_start_seq = self.stream_seq + 1
        config.opt_start_time = None
        return config

    def _pace(self, config: ConsumerConfig) -> None:
        """Have the server wait for acks of so many messages as fit beside a half-full buffer."""
        config.ack_policy = AckPolicy.ALL
        config.max_ack_pending = max(1, self._room // 3)
        self._ack_every = max(1, config.max_ack_pending // 4)
        self._stuck_at = 0

    def forgo_acks(self) -> bool:
        """Pace no further consumers; return whether the last one was to be."""
        was_paced = self._ack_every > 0
        self._acks_fail = self._acks_fail or was_paced
        return was_paced

    def listen(self, stream: str, consumer: str, inbox: str) -> None:
        """Accept the messages that this consumer sends to `inbox`, and no others."""
        self._stream = stream
        self._consumer = consumer
        self._inbox = inbox
        self._prefix = b""
        self.trouble = None
        self.good = False

    def deaf(self) -> None:
        """Accept nothing until `listen`."""
        self._consumer = ""
        self._prefix = b""

    def opened(self, delivered_consumer_seq: int, delivered_stream_seq: int) -> None:
        """Note that the consumer was created, and what it had delivered by then."""
        if self._placed:
            return
        if self._snapshot_end:
            self._placed = True
        elif delivered_consumer_seq == 0:
            self.stream_seq = max(self.stream_seq, delivered_stream_seq)
            self._placed = True

    def in_snapshot(self) -> bool:
        """Return whether messages of the last-per-subject start may still come."""
        return self.stream_seq < self._snapshot_end

    def give_up(self, reason: ResetReason) -> None:
        """Give the current consumer up: none of its messages is accepted any more."""
        if self.trouble is None and self._consumer:
            if reason is ResetReason.BUFFER_FULL:
                self._room = self.held
            self.trouble = reason
            self.deaf()

    # -- what arrives ---------------------------------------------------------------------------------

    def take(self, parser: LinkParser) -> bool:
        """Accept the parser's current message; the next one of the stream takes the fast path."""
        if not self._take_next(parser):
            self.receive(copy_message(parser))
        return True

    def chunk_ended(self) -> None:
        self._changed()

    def _take_next(self, parser: LinkParser) -> bool:
        """Buffer the parser's current message if it is the next one of the stream; return whether it was."""
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
        if self._ack_every > 0 and consumer_seq % self._ack_every == 0:
            self._items.append(parser.reply().decode())
        return True

    def receive(self, message: Arrival) -> None:
        """Accept a message of any kind."""
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
            self._ack(position.consumer_seq, message.reply)
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
        self._ack(position.consumer_seq, message.reply)

    def _ack(self, consumer_seq: int, reply: str) -> None:
        """Queue an ack of everything so far, if a message is one of those that are acked."""
        if self._ack_every > 0 and consumer_seq == self.consumer_seq and consumer_seq % self._ack_every == 0:
            self._put_answer(reply)

    def _is_next(self, consumer_seq: int, stream_seq: int) -> bool:
        """Return whether a message is the next one; a gap is `trouble`, one already seen is dropped."""
        if consumer_seq != self.consumer_seq + 1:
            # A repeated frame is harmless; a consumer that counts from 1 again is not.
            if consumer_seq > self.consumer_seq or stream_seq > self.stream_seq:
                self.give_up(ResetReason.GAP)
            return False
        if stream_seq <= self.stream_seq:
            self.consumer_seq = consumer_seq
            return False
        if self._repeating and stream_seq > self._snapshot_end:
            self.stream_seq = self._snapshot_end  # there may be other messages between this one and the last
            self.give_up(ResetReason.GAP)
            return False
        self.consumer_seq = consumer_seq
        self.stream_seq = self.seen_seq = stream_seq
        self._placed = True
        self.good = True
        return True

    def _control(self, message: Arrival) -> None:
        """Process a status message of the consumer."""
        if message.description == _FLOW_CONTROL and message.reply:
            self._put_answer(message.reply)
        elif message.description == _HEARTBEAT:
            self.heartbeats += 1
            if _number(message.headers.get(LAST_CONSUMER)) != self.consumer_seq:
                self.give_up(ResetReason.GAP)
                return
            if self._waits_for_acks():
                self.forgo_acks()
                self.give_up(ResetReason.GAP)
                return
            self.good = True
            stalled = message.headers.get(CONSUMER_STALLED)
            if stalled:
                self._put_answer(stalled)

    def _waits_for_acks(self) -> bool:
        """Return whether a paced consumer with more messages sent none between two heartbeats, all acked."""
        if self._ack_every == 0 or self._items or self.pending == 0:
            return False
        stuck_at, self._stuck_at = self._stuck_at, self.consumer_seq
        return stuck_at == self.consumer_seq

    def _put_answer(self, subject: str) -> None:
        """Queue an answer to `subject`; it is due when the messages before it are taken."""
        if not self._items or self._items[-1] != subject:
            self._items.append(subject)

    # -- what waits for the reader --------------------------------------------------------------------

    def is_full(self) -> bool:
        return self.held >= self._max_messages or self.held_bytes >= self._max_bytes

    def is_drained(self) -> bool:
        """Return whether at least half of the buffer is free."""
        return self.held <= self._max_messages // 2 and self.held_bytes <= self._max_bytes // 2

    def is_empty(self) -> bool:
        return not self._items

    def pop(self, limit: int) -> list[OrderedMessage]:
        """Return at most `limit` messages, up to the next queued answer."""
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
        """Return the subjects whose answer is due: no message is queued before them."""
        due: list[str] = []
        while self._items and isinstance(self._items[0], str):
            due.append(self._items[0])
            self._items.popleft()
        return due

    def discard(self) -> None:
        """Drop the buffer."""
        self._items.clear()
        self.held = 0
        self.held_bytes = 0


def _number(text: str | None) -> int:
    """Return a sequence; an empty text is 0, as in the documentation of heartbeats."""
    return (read_whole(text) if text else None) or 0
