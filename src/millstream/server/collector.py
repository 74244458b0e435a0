"""Limit how long the garbage collector pauses the server.

Reference counting frees nearly everything: code that closes a connection or drops a subscription breaks its
cycles.  A full collection visits each object of the process and blocks the loop meanwhile, for 100 ms with
8,000 connections or 1,000 streams, and Python would start one whenever their number has grown by a quarter.

So automatic collections cover young objects only, a few thousand at a time.  Old ones are collected when
some have grown old in the last second.  If that took long, or if they are too many, they are set aside
(``gc.freeze``, which takes microseconds however many they are): later collections do not visit them.  They
are still freed when nothing refers to them; only a cycle that is dropped after that stays.  What ends often,
such as a consumer or a stream, breaks its cycles, too (``let_go``).  Others are looked for when nobody has
asked the server for anything for a minute, at most once an hour, and after some seconds already if much more
is set aside than the last time.  After that minute, free memory goes back to the kernel, too (``base.heap``).

Python counts new objects less freed ones.  Where clients come while others leave, or timers replace others,
tens of thousands of objects are young before it starts a collection.  So a collection sets them aside, too,
if there were many of these since the last one.  It asks for their numbers and not for that of objects:
``gc.get_objects`` would keep alive, for a moment, what other threads are about to free, such as the view of a
buffer that must grow next.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from millstream.base.heap import give_back
from millstream.broker.turns import Turns

_NEVER: Final = 2**31 - 1
# New objects; collections of the youngest before their survivors are visited, too.
_THRESHOLDS: Final = (1_000, 1, _NEVER)
_LOOK_EVERY_S: Final = 1.0
_FEW: Final = 3  # collections of survivors, so some thousand objects that have grown old
_SHORT_S: Final = 0.0025
_FEW_NEW: Final = 5_000  # objects; visiting one takes up to half a microsecond
_OF_CLIENT: Final = 60  # objects
_OF_TIMER: Final = 7
_FULL_EVERY: Final = 3600  # looks
_QUIET: Final = 60  # looks, one after the other
_QUIET_IF_MANY: Final = 5
_MANY_MORE: Final = 100_000  # objects, and half as many as there were
_QUIET_STEPS: Final = 32  # of the loop between two of them, by timers alone


def limit_pauses() -> None:
    """Enable automatic collections, for young objects only."""
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


class Collector:
    """Sets old objects aside, and collects all of them at long intervals."""

    def __init__(self, turns: Turns, clients: Callable[[], int]) -> None:
        self._turns = turns
        self._clients = clients  # that ever connected
        self._made_at = self._made()  # objects, at the last collection
        self._steps = 0  # of the loop, at the last look
        self._quiet = 0  # looks since the server had something to do
        self._looks = 0  # since the last full collection
        self._set_aside = False  # something, since then
        self._kept = gc.get_freeze_count()  # objects that the last full collection, or the start, has left
        self._collects_all = False  # now

    def watch(self) -> Callable[[], None]:
        """Look at each collection before it begins; return a function that stops that."""
        gc.callbacks.append(self._begins)
        return partial(gc.callbacks.remove, self._begins)

    def _begins(self, phase: str, info: dict[str, int]) -> None:
        """Set all objects aside if many clients have come or many timers were set."""
        if phase != "start":
            return
        new = self._made() - self._made_at
        self._made_at += new
        if new > _FEW_NEW and not self._collects_all:
            self._set_old_aside()

    def _made(self) -> int:
        """Return about how many objects all clients and timers had so far."""
        return _OF_CLIENT * self._clients() + _OF_TIMER * self._turns.timers

    def start(self) -> None:
        self._steps = self._turns.watchdog.steps
        self._turns.later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._looks += 1
        self._quiet = self._quiet + 1 if self._turns.watchdog.steps - self._steps <= _QUIET_STEPS else 0
        if self._quiet == _QUIET:
            with contextlib.suppress(
                RuntimeError
            ):  # there is no thread; the next quiet minute has one, perhaps
                threading.Thread(target=give_back, name="millstream-memory", daemon=True).start()
        grown_old = gc.get_count()[2]
        if self._set_aside and self._is_full_one_due():
            self._collect_all()
        elif grown_old > _FEW:
            gc.collect(1)
            self._set_old_aside()
        elif grown_old > 0 and self._took_long_to_collect():
            self._set_old_aside()
        self.start()

    def _is_full_one_due(self) -> bool:
        if self._quiet < _QUIET_IF_MANY:
            return False
        if gc.get_freeze_count() > self._kept + self._kept // 2 + _MANY_MORE:
            return True
        return self._looks >= _FULL_EVERY and self._quiet >= _QUIET

    def _collect_all(self) -> None:
        self._looks = 0
        self._set_aside = False
        self._collects_all = True
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._collects_all = False
        self._kept = gc.get_freeze_count()

    def _took_long_to_collect(self) -> bool:
        began = self._turns.watchdog.began()
        gc.collect()
        return self._turns.watchdog.since(began) >= _SHORT_S

    def _set_old_aside(self) -> None:
        gc.freeze()
        self._set_aside = True
