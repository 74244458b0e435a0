"""Erase removed messages from disk within a bounded time, however few they are.

A segment that is mostly dead is rewritten at once, and one without live messages is dropped (``compactor``,
``store.log``).  All others are checked three times within the bound: a segment that contained removed content
at one check and still does at the next is erased.  So erasing begins after at most two thirds of the bound
and includes everything removed from the segment meanwhile; the rest of the time is for the disk.  Nothing is
recorded about single messages, so removing costs nothing more, and after a restart everything found removed
is erased in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, Host
    from millstream.jetstream.resources import Resources
    from millstream.jetstream.stream.committed_log import Committing
    from millstream.jetstream.stream.compactor import Compactor

_log = logging.getLogger("millstream.jetstream")

_LOOKS: Final = 3  # checks within the bound
_LOOKS_AT_ONCE: Final = 64  # streams checked before others have their turn


class Eraser:
    """Erases removed messages of all streams of an account."""

    def __init__(
        self,
        world: Host,
        resources: Resources,
        compactor: Compactor,
        dirty: Callable[[Committing], None],
    ) -> None:
        self._world = world
        self._resources = resources
        self._compactor = compactor
        self._dirty = dirty
        self._watched: dict[Committing, None] = {}
        self._late: set[Committing] = set()  # streams that were reported as late
        self._left: list[Committing] = []  # streams still to be checked this time
        self._timer: Cancel | None = None

    def watch(self, stream: Committing) -> None:
        """Watch a stream from which messages may have been removed, for example by a commit."""
        if stream in self._watched or stream.in_memory:
            return
        self._watched[stream] = None
        if self._timer is None and not self._left:
            self._plan()

    def _plan(self) -> None:
        self._timer = self._world.call_later(self._resources.erase_within_s / _LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        self._left = list(self._watched)
        self._look_at_some()

    def _look_at_some(self) -> None:
        """Check some of the streams: there may be thousands, and others need their turn."""
        some, self._left = self._left[:_LOOKS_AT_ONCE], self._left[_LOOKS_AT_ONCE:]
        for stream in some:
            if stream not in self._watched:
                continue
            if stream.log.age_removals():
                self._compactor.hurry(stream)
            elif not stream.log.uncommitted:
                del self._watched[stream]
            if stream.log.uncommitted:
                self._dirty(stream)
            self._tell_late(stream)
        if self._left:
            self._world.call_soon(self._look_at_some)
        elif self._watched and self._timer is None:
            self._plan()

    def _tell_late(self, stream: Committing) -> None:
        if not stream.log.late:
            self._late.discard(stream)
        elif stream not in self._late:
            self._late.add(stream)
            _log.warning(
                "%s: removed messages in %d segments are not erased within %g seconds yet; the disk does not"
                " keep up, or a snapshot is being taken",
                stream.log.folder,
                stream.log.late,
                self._resources.erase_within_s,
            )

    def forget(self, stream: Committing) -> None:
        """Stop watching a stream that is closed."""
        self._watched.pop(stream, None)
        self._late.discard(stream)

    def stop(self) -> None:
        self._left = []
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
