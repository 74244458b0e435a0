"""Order by key with many workers: at most so many unacknowledged messages of each key, in order.

A consumer asks for it with ``names.METADATA_PER_KEY`` in its metadata; a key is a subject, or one token of it
(``names.METADATA_KEY_TOKEN``).  When the feed reaches a message whose key has as many unacknowledged messages
as it may, the message is *parked*, and so is every later one of that key.  Only the first parked message of a
key, its *head*, is remembered: the log finds the next one.  So memory grows with the unacknowledged messages,
neither with the keys nor with what is parked.

    cursor ──▶ may be sent ───────────────▶ in flight ──ack──▶ the key is free
          └──▶ parked (head, and those behind it) ◀──next──── ready, if it has a head

The feed takes ready keys and new messages in turn, so neither waits for all of the other.  There is an end to
that: when many keys are known, ready ones come first, and they have only what is parked.

Heads survive in the journal (``ledger``): all messages of a key from its head to the position of the consumer
are not delivered.  The journal may be behind the stream: then it has a head that was delivered, acknowledged
and removed.  It also has a mark of the key, by which a restart finds the next message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from millstream.base.freeing import Container
from millstream.base.paged_map import PagedMap
from millstream.base.wide_map import WideMap
from millstream.jetstream.consumers.config_rules import filters_of
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, ReplayPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.names import METADATA_KEY_TOKEN, METADATA_PER_KEY
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.cursor import Cursor
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.consumers.ledger import Ledger
    from millstream.store.log import Log

_MOST_KEYS: Final = 10_000  # known keys, before ready ones come first


class KeyState:
    """A key with messages in flight, parked, or both."""

    __slots__ = ("flying", "head", "key", "parked", "patterns", "ready")

    def __init__(self, key: bytes, patterns: tuple[bytes, ...]) -> None:
        self.key = key
        self.patterns = patterns  # of its messages
        self.flying = 0  # messages that are not acknowledged
        self.head = 0  # the first parked message, or 0
        self.parked = 0  # messages, as far as they are counted
        self.ready = False  # in the queue of ready keys


class KeyOrder:
    """The keys of one consumer."""

    def __init__(self, log: Log, ledger: Ledger, limit: int, token: int, patterns: tuple[bytes, ...]) -> None:
        self.limit = limit
        self.parked = 0  # messages of all keys, as far as they are counted
        self.stuck: KeyState | None = None  # its head was the next message when the last one did not fit
        self.ready_first = False  # whose turn it is
        self._log = log
        self._ledger = ledger
        self._token = token  # from 1; 0: the whole subject
        self._patterns = patterns
        self._states = WideMap()  # by key; there may be as many as messages in flight
        self._flying = PagedMap()  # by sequence
        self._ready: deque[KeyState] = deque()

    def __len__(self) -> int:
        return len(self._states)

    def clear(self) -> list[Container]:
        """Forget all keys; return what held them, for ``base.freeing``."""
        freed: list[Container] = [self._states, self._flying, self._ready]
        self.parked = 0
        self.stuck = None
        self._states = WideMap()
        self._flying = PagedMap()
        self._ready = deque()
        return freed

    def set_limit(self, limit: int) -> None:
        """Apply another limit."""
        self.limit = limit
        for state in list(self._states.values()):
            self._look(state)

    # -- keys -------------------------------------------------------------------------------------

    def key_of(self, subject: bytes) -> bytes:
        if not self._token:
            return subject
        tokens = subject.split(b".", self._token)
        return tokens[self._token - 1] if len(tokens) >= self._token else b"." + subject

    def _patterns_of(self, key: bytes) -> tuple[bytes, ...]:
        if not self._token:
            return (key,)
        if key.startswith(b"."):
            return (key[1:],)
        return tuple(found for each in self._patterns for found in narrowed(each, self._token - 1, key))

    def _state_of(self, key: bytes) -> KeyState:
        state: KeyState | None = self._states.get(key)
        if state is None:
            state = KeyState(key, self._patterns_of(key))
            self._states.put(key, state)
        return state

    def holds(self, sseq: int, subject: bytes) -> bool:
        """Return True if a message before the consumer's position is parked."""
        state = self._states.get(self.key_of(subject))
        return state is not None and 0 < state.head <= sseq

    # -- messages ---------------------------------------------------------------------------------

    def admits(self, sseq: int, subject: bytes) -> KeyState | None:
        """Return the key of the next message of the feed if it may be sent; park it otherwise."""
        key = self.key_of(subject)
        state: KeyState | None = self._states.get(key)
        if state is None:
            return self._state_of(key)
        if not state.head and state.flying < self.limit:
            return state
        if not state.head:
            state.head = sseq
            self._ledger.park(sseq, mark_of(key))
        state.parked += 1
        self.parked += 1
        return None

    def sent(self, state: KeyState, sseq: int) -> None:
        """Record that a message of the key is in flight."""
        state.flying += 1
        self._flying.put(sseq, state)

    def not_sent(self, state: KeyState) -> None:
        """Forget the key of a message that had no receiver, if it has nothing else."""
        self._look(state)

    def next_ready(self) -> KeyState | None:
        """Return the key whose head may be sent next, or None; it stays the next one."""
        while self._ready:
            state = self._ready[0]
            if state.ready:
                return state
            self._ready.popleft()
        return None

    def prefers_ready(self) -> bool:
        """Return True if a ready key comes before a new message."""
        self.ready_first = not self.ready_first
        return self.ready_first or len(self._states) >= _MOST_KEYS

    def take_head(self, state: KeyState, position: int) -> None:
        """Replace a head that is delivered or gone by the next message of its key before `position`."""
        state.ready = False
        if self._ready and self._ready[0] is state:
            self._ready.popleft()
        head = state.head
        state.head = self._next(state, head + 1, position)
        if state.head:
            self._ledger.park(state.head, mark_of(state.key))
            left = max(state.parked - 1, 1)
        else:
            left = 0
        self.parked += left - state.parked
        state.parked = left

    def look(self, state: KeyState) -> None:
        """Queue a key that may be sent, after ``take_head``; forget one without messages."""
        self._look(state)

    def _look(self, state: KeyState) -> None:
        if state.head and state.flying < self.limit:
            if not state.ready:
                state.ready = True
                self._ready.append(state)
        elif not state.head and not state.flying and self._states.get(state.key) is state:
            self._states.remove(state.key)

    def settle(self) -> None:
        """Free the keys of messages that the ledger has settled."""
        for sseq in self._ledger.take_freed():
            state = self._flying.take(sseq)
            if state is not None:
                state.flying -= 1
                self._look(state)

    def _next(self, state: KeyState, sseq: int, position: int) -> int:
        """Return the first message of a key from `sseq` on and before `position`, or 0."""
        found = 0
        for pattern in state.patterns:
            each = self._log.next_match(sseq, pattern)
            if each and each < position and (not found or each < found):
                found = each
        return found

    # -- after a restart --------------------------------------------------------------------------

    def restore(self, position: int) -> None:
        """Take over what the ledger has, for a consumer that continues at `position`."""
        self.clear()
        log, ledger = self._log, self._ledger
        for sseq in ledger.pending:
            subject = log.subject_of(sseq)
            if subject is not None:
                self.sent(self._state_of(self.key_of(subject)), sseq)
        lost: dict[int, int] = {}  # heads that were removed and may have been delivered: by their marks
        for head, mark in ledger.heads():
            subject = log.subject_of(head)
            if subject is None:
                lost[mark] = head
            elif not self._restore_head(self.key_of(subject), head, position):
                ledger.unpark(head)
        if lost:
            self._find_heads(lost, position)
        for state in list(self._states.values()):
            self._look(state)

    def _restore_head(self, key: bytes, head: int, position: int) -> bool:
        state = self._state_of(key)
        if state.head:
            return False
        state.head = head
        cursor = Cursor(self._log, head, state.patterns)
        state.parked = cursor.count_from(head) - cursor.count_from(position)
        self.parked += state.parked
        return True

    def _find_heads(self, lost: dict[int, int], position: int) -> None:
        """Find the next messages of keys of which only the marks are known."""
        ledger, record = self._ledger, Record()
        cursor = Cursor(self._log, min(lost.values()), self._patterns)
        left = dict(lost)
        while left and cursor.next(record) and record.seq < position:
            key = self.key_of(record.subject())
            head = left.get(mark_of(key))
            if head is not None and head < record.seq and record.seq not in ledger.pending:
                del left[mark_of(key)]
                if self._restore_head(key, record.seq, position):
                    ledger.park(record.seq, mark_of(key))
        for head in lost.values():
            ledger.unpark(head)


@lru_cache(maxsize=4096)
def mark_of(key: bytes) -> int:
    """Return a number by which the journal remembers a key: 62 bits of its hash."""
    from hashlib import blake2b  # not at the top: it brings OpenSSL, for which starts with streams would wait

    return int.from_bytes(blake2b(key, digest_size=8).digest()) >> 2


def key_order_of(config: ConsumerConfig) -> tuple[int, int]:
    """Return how many messages of a key may be in flight, and the token of the key; (0, 0): any number."""
    limit = config.metadata.get(METADATA_PER_KEY, "")
    token = config.metadata.get(METADATA_KEY_TOKEN, "")
    return (int(limit) if _is_number(limit) else 0), (int(token) if _is_number(token) else 0)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def narrowed(pattern: bytes, index: int, key: bytes) -> list[bytes]:
    """Return patterns of the subjects that match `pattern` and have `key` as the token at `index`."""
    tokens = pattern.split(b".")
    if tokens[-1] == b">" and index >= len(tokens) - 1:
        start = [*tokens[:-1], *[b"*"] * (index - len(tokens) + 1), key]
        return [b".".join(start), b".".join([*start, b">"])]
    if index >= len(tokens) or tokens[index] not in (b"*", key):
        return []
    return [b".".join([*tokens[:index], key, *tokens[index + 1 :]])]


def check_key_order(config: ConsumerConfig, before: ConsumerConfig | None, stream: StreamConfig) -> None:
    """Raise ApiError if a consumer cannot have the order by key that it asks for."""
    problem = _problem_of(config, filters_of(config) or stream.subjects)
    if not problem and before is not None:
        problem = _problem_of_update(config, before)
    if problem:
        raise ApiError(Err.CONSUMER_CREATE_FAILED, err=problem)


def _problem_of_update(config: ConsumerConfig, before: ConsumerConfig) -> str:
    was, wanted = before.metadata, config.metadata
    if (METADATA_PER_KEY in was) != (METADATA_PER_KEY in wanted):
        return f"{METADATA_PER_KEY} can not be set or removed by an update"
    if METADATA_PER_KEY not in was:
        return ""
    if was.get(METADATA_KEY_TOKEN) != wanted.get(METADATA_KEY_TOKEN):
        return f"{METADATA_KEY_TOKEN} can not be updated"
    if filters_of(config) != filters_of(before):
        return f"the filters of a consumer with {METADATA_PER_KEY} can not be updated"
    return ""


def _problem_of(config: ConsumerConfig, subjects: Iterable[str]) -> str:
    limit, token = config.metadata.get(METADATA_PER_KEY), config.metadata.get(METADATA_KEY_TOKEN)
    if limit is None:
        return f"{METADATA_KEY_TOKEN} needs {METADATA_PER_KEY}" if token is not None else ""
    if not _is_number(limit) or int(limit) < 1:
        return f"{METADATA_PER_KEY} must be a number from 1 on"
    if token is not None and (not _is_number(token) or int(token) < 1):
        return f"{METADATA_KEY_TOKEN} must be the number of a token, from 1 on"
    if config.ack_policy is not AckPolicy.EXPLICIT or config.max_ack_pending < 1:
        return f"{METADATA_PER_KEY} needs the ack policy explicit and max_ack_pending"
    if (
        config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT
        or config.replay_policy is ReplayPolicy.ORIGINAL
    ):
        return f"{METADATA_PER_KEY} excludes the policies last_per_subject and original"
    number = int(token or 0)
    if any(len(each.split(".")) < number and not each.endswith(">") for each in subjects):
        return f"{METADATA_KEY_TOKEN}: not every subject has {number} tokens"
    return ""
