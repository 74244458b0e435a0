"""Deliver a message in slices: to very many subscriptions, or a long one to many.

A route with thousands of receivers has subscriptions instead of targets (``SubjectRoute.wide``): making the
targets and filling the buffers takes the longer the more there are, and nobody else should wait for that.
A long message to fewer receivers takes as long, because each write copies it into the kernel.

Each receiver gets the messages of one sender in their order.  A client that has sent such a message is not
read from until all receivers have it, so whatever it sends next comes later, its PONG included, and at most
one message of each client is kept.  Messages of the server itself, such as those of consumers, wait in a
line; ``is_busy`` makes a consumer wait.  Messages of different senders alternate.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.broker.connection import Connection
from millstream.protocol.parser import Frame, make_frame

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.broker.router import SubjectSpace
    from millstream.broker.routes import SubjectRoute, Subscriber

_PIECE: Final = 64
_PIECE_BYTES: Final = 1024 * 1024  # in all copies of a piece
_MOST_SLOW: Final = 64  # receivers that are asked again whether they have caught up

_Waiting = tuple["SubjectRoute", Frame, int]  # with the number of receivers that have it already


class FanOut:
    """The wide deliveries of one subject space."""

    def __init__(self, broker: Broker, space: SubjectSpace) -> None:
        self._broker = broker
        self._space = space
        self._lines: dict[Subscriber | None, deque[_Waiting]] = {}  # by sender
        self._slow: list[Subscriber] = []  # receivers of our own messages that were behind

    def begin(self, route: SubjectRoute, frame: Frame, source: Subscriber | None, taken: int) -> None:
        """Deliver a copy of the message to all that are not in groups, behind the sender's other ones."""
        headers = None if frame.header_size < 0 else frame.headers()
        waiting = (route, make_frame(frame.reply(), headers, frame.payload()), taken)
        if source is not None:
            source.hold()
        line = self._lines.get(source)
        if line is not None:
            line.append(waiting)
            return
        self._lines[source] = deque([waiting])
        self._broker.turns.in_slices("delivering to many", self._deliver(source))

    def is_busy(self) -> bool:
        """Return True if a message of the server is under way, or a receiver of the last ones is behind."""
        self._slow = [each for each in self._slow if each.behind()]
        return bool(self._slow) or None in self._lines

    def is_under_way(self, source: Subscriber | None) -> bool:
        """Return True if a message of this sender has not reached all its receivers."""
        return source in self._lines

    def _deliver(self, source: Subscriber | None) -> Pieces[None]:
        line = self._lines[source]
        try:
            while line:
                route, frame, taken = line[0]
                taken += yield from self._deliver_one(route, frame, source)
                line.popleft()
                self._end(route, frame, source, taken)
        finally:
            del self._lines[source]

    def _deliver_one(self, route: SubjectRoute, frame: Frame, source: Subscriber | None) -> Pieces[int]:
        taken = 0
        receivers = route.plain if route.wide is None else route.wide
        piece = max(1, min(_PIECE, _PIECE_BYTES // max(1, frame.body_size)))
        for start in range(0, len(receivers), piece):
            end = start + piece
            taken += self._space.deliver_part(route, start, end, frame, source)
            if source is None and len(self._slow) < _MOST_SLOW:
                self._slow += {each.owner for each in receivers[start:end] if each.owner.behind()}
            if self._broker.tick.has_many_writes():
                self._broker.tick.flush()
            yield piece
        return taken

    def _end(self, route: SubjectRoute, frame: Frame, source: Subscriber | None, taken: int) -> None:
        if source is None:
            return
        if (
            isinstance(source, Connection)
            and not taken
            and frame.reply_size
            and source.no_responders
            and source.space is self._space
        ):
            self._broker.commands.answer_no_responders(source, route.subject, frame.reply())
        source.let_go()
