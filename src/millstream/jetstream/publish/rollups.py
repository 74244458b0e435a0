"""Rollups: messages that replace all older ones of their subject or of the whole stream.

A few replaced messages are removed at once.  Otherwise they are removed in slices, one rollup after the
other, and the publisher gets its ack when all of them are gone: from then on no older message is found, even
after a crash.  A crash before the ack may leave the message together with some that it should replace.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base import guard, slices
from millstream.base.slices import Pieces
from millstream.jetstream.publish.candidate import Incoming
from millstream.jsapi.publish_types import PUB_ACK_END
from millstream.store import purge
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_FEW: Final = 2  # messages removed at once: a key has its new value and the previous one


class Rollups:
    """The rollups of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        # Messages to remove, and the callback afterwards; the first is in progress.
        self._queue: deque[tuple[Pieces[int] | None, Callable[[], None]]] = deque()

    def stored(self, message: Incoming, seq: int) -> None:
        """Remove the messages that a stored message replaces, then acknowledge it."""
        stream = self._stream

        def answer() -> None:
            stream.acknowledge(message.reply, seq, message.ack_end)

        if message.rollup and self._displaced(message) > _FEW:
            self._add(self._removal(message, seq), answer)
            return
        if message.rollup == b"sub":
            self.remove_few(message.subject, seq)
        elif message.rollup:
            self._remove_all(seq)
        if message.ack_end != PUB_ACK_END:
            self.then(answer)  # the end of a batch, which may contain other rollups
        else:
            answer()

    def then(self, callback: Callable[[], None]) -> None:
        """Call back when everything replaced by the rollups stored so far is removed."""
        if self._queue:
            self._queue.append((None, callback))
        else:
            callback()

    def _displaced(self, message: Incoming) -> int:
        """Return the most messages that a rollup can remove."""
        log = self._stream.log
        if message.rollup == b"all":
            return log.messages
        return log.count_of(message.subject)

    def remove_few(self, subject: bytes, seq: int) -> None:
        """Remove the messages of a subject below `seq`, which are few."""
        try:
            self._stream.log.remove_matching(subject, seq)
        except StoreError as error:
            self._complain(error)

    def _remove_all(self, seq: int) -> None:
        try:
            self._stream.log.remove_below(seq)
        except StoreError as error:
            self._complain(error)

    def _removal(self, message: Incoming, seq: int) -> Pieces[int]:
        log = self._stream.log
        if message.rollup == b"sub":
            return purge.matching(log, message.subject, seq, 0)
        return purge.below(log, seq)

    def _complain(self, error: StoreError) -> None:
        _log.error("stream %s: messages could not be removed: %s", self._stream.name, error)

    def _add(self, pieces: Pieces[int], done: Callable[[], None]) -> None:
        self._queue.append((pieces, done))
        if len(self._queue) == 1:
            slices.begin(self._stream.world, "rollup", self._in_turn())

    def _in_turn(self) -> Pieces[None]:
        """Run one removal after the other while the stream is running."""
        try:
            while self._queue:
                pieces, done = self._queue[0]
                if pieces is not None:
                    yield from self._remove(pieces)
                if not self._stream.running:
                    return
                self._queue.popleft()
                guard.alone("answering a rollup", done)
        finally:
            self._queue.clear()

    def _remove(self, pieces: Pieces[int]) -> Pieces[None]:
        stream = self._stream
        try:
            for items in pieces:
                stream.account.committer.dirty(stream)
                yield items
                if not stream.running:
                    return
        except StoreError as error:
            self._complain(error)
        except Exception as error:
            guard.report("removing what a rollup displaces", error)
