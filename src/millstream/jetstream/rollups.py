"""Rollups: messages that take the place of all older ones, of their subject or of the whole stream.

What is displaced goes at once if it is little.  Otherwise it goes in slices, one rollup after the other, and
the publisher is answered when all of it is gone: whoever has the answer finds nothing older, now or after a
crash.  After a crash before the answer, the message may be there together with some that it should displace.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base import guard, slices
from millstream.base.slices import Pieces
from millstream.jetstream import removal
from millstream.jetstream.incoming import Incoming
from millstream.jsapi.publish_types import PUB_ACK_END
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_FEW: Final = 2  # messages that are removed at once: a key has its new value and the one before


class Rollups:
    """Of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        # Messages to remove, and what to do then; the first is under way.
        self._queue: deque[tuple[Pieces[int] | None, Callable[[], None]]] = deque()

    def stored(self, message: Incoming, seq: int) -> None:
        """Remove what a message displaces that was just stored, then answer its publisher."""
        stream = self._stream

        def answer() -> None:
            stream.acknowledge(message.reply, seq, message.ack_end)

        if message.rollup and self._displaced(message) > _FEW:
            self._add(self._removal(message, seq), answer)
            return
        if message.rollup:
            self._remove_few(message, seq)
        if message.ack_end != PUB_ACK_END:
            self.then(answer)  # the end of a batch, which may have other rollups
        else:
            answer()

    def then(self, callback: Callable[[], None]) -> None:
        """Call back when everything is gone that the rollups stored so far displace."""
        if self._queue:
            self._queue.append((None, callback))
        else:
            callback()

    def _displaced(self, message: Incoming) -> int:
        """How many messages a rollup removes at most."""
        log = self._stream.log
        if message.rollup == b"all":
            return log.messages
        node = log.index.find(message.subject)
        return 0 if node is None else node.count

    def _remove_few(self, message: Incoming, seq: int) -> None:
        log = self._stream.log
        try:
            if message.rollup == b"sub":
                log.remove_matching(message.subject, seq)
            else:
                log.remove_below(seq)
        except StoreError as error:
            self._complain(error)

    def _removal(self, message: Incoming, seq: int) -> Pieces[int]:
        log = self._stream.log
        if message.rollup == b"sub":
            return removal.matching(log, message.subject, seq, 0)
        return removal.below(log, seq)

    def _complain(self, error: StoreError) -> None:
        _log.error("stream %s keeps more than it should: %s", self._stream.name, error)

    def _add(self, pieces: Pieces[int], done: Callable[[], None]) -> None:
        self._queue.append((pieces, done))
        if len(self._queue) == 1:
            slices.begin(self._stream.world, "rollup", self._in_turn())

    def _in_turn(self) -> Pieces[None]:
        """Do one removal after the other, as long as the stream takes messages."""
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
