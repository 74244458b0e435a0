"""Messages that have arrived and were not taken yet, with what to answer once they are.

Flow control works by answers: the server stops sending when an answer is due for too long.  So an answer is
kept in line behind the messages before it, and is due when they were taken: a reader that is slow makes the
server wait, and the memory that a reading takes is bounded by the server's window (32 MiB at most).  The
bounds here hold where that window does not: many small messages, or a server without flow control.
"""

from __future__ import annotations

import asyncio
from collections import deque

from millstream.client.message import OrderedMessage


class Buffer:
    """First in, first out, between one event loop's tasks."""

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        if max_messages < 1 or max_bytes < 1:
            raise ValueError("a buffer needs room for at least one message")
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._items: deque[OrderedMessage | str] = deque()  # a text is a subject to answer to
        self._messages = 0
        self._bytes = 0
        self._changed = asyncio.Event()  # something came, or nothing will
        self._drained = asyncio.Event()
        self._drained.set()
        self._ended = False

    @property
    def messages(self) -> int:
        return self._messages

    @property
    def bytes(self) -> int:
        """What their bodies take."""
        return self._bytes

    @property
    def full(self) -> bool:
        return self._messages >= self._max_messages or self._bytes >= self._max_bytes

    def put(self, message: OrderedMessage) -> None:
        self._items.append(message)
        self._messages += 1
        self._bytes += len(message.data)
        self._changed.set()
        if self._drained.is_set():
            self._drained.clear()

    def put_answer(self, subject: str) -> None:
        """`subject` waits for an answer, which is due when all that is here now was taken."""
        if not self._items or self._items[-1] != subject:
            self._items.append(subject)
            self._changed.set()

    def take(self) -> OrderedMessage | str | None:
        """The next message, or a subject that is due to be answered; None if there is neither."""
        if not self._items:
            return None
        item = self._items.popleft()
        if isinstance(item, OrderedMessage):
            self._messages -= 1
            self._bytes -= len(item.data)
            if self._messages <= self._max_messages // 2 and self._bytes <= self._max_bytes // 2:
                self._drained.set()
        return item

    def take_message(self) -> OrderedMessage | None:
        """The next message, unless there is none or an answer stands before it."""
        if not self._items or isinstance(self._items[0], str):
            return None
        item = self.take()
        return item if isinstance(item, OrderedMessage) else None

    def answers_due(self) -> list[str]:
        """Subjects that nothing stands before."""
        due = []
        while self._items and isinstance(self._items[0], str):
            due.append(self._items.popleft())
        return [subject for subject in due if isinstance(subject, str)]

    def end(self, *, discard: bool) -> None:
        """Nothing will come any more."""
        self._ended = True
        if discard:
            self._items.clear()
            self._messages = self._bytes = 0
        self._changed.set()
        self._drained.set()

    @property
    def ended(self) -> bool:
        """Whether all was taken and nothing will come."""
        return self._ended and not self._items

    async def wait(self) -> None:
        """Return when there is something to take, or nothing will come."""
        while not self._items and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    async def drained(self) -> None:
        """Return when at least half of the room is free."""
        await self._drained.wait()
