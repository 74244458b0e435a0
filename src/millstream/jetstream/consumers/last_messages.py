"""The last message of each subject, which a consumer delivers one by one before it continues with the stream.

There may be millions.  They are collected in pieces while messages are added and removed; removals are
reported (``removed``, ``skip_to``), so the number left is always known.

Compiled, because every consumer asks for the first one.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.base.sorted_page import SortedPage

if TYPE_CHECKING:
    from millstream.store.log import Log

_PIECE: Final = 32  # subjects


class Singles:
    """Sequences in ascending order."""

    def __init__(self, sseqs: Iterable[int] = ()) -> None:
        self.first = 0  # the next one to deliver; 0 if none is left
        self._sseqs = array("Q", sseqs)
        self._at = 0  # of the next one
        self._gone: set[int] = set()  # of those from `_at` on
        self._find_first()

    def __len__(self) -> int:
        return len(self._sseqs) - self._at - len(self._gone)

    def _find_first(self) -> None:
        """Pass over those that are gone; at the end, free the memory."""
        while self._at < len(self._sseqs) and self._sseqs[self._at] in self._gone:
            self._gone.discard(self._sseqs[self._at])
            self._at += 1
        if self._at < len(self._sseqs):
            self.first = self._sseqs[self._at]
        else:
            self._sseqs, self._at, self.first = array("Q"), 0, 0

    def extend(self, sseqs: Iterable[int]) -> None:
        """Append sequences above all existing ones."""
        self._sseqs.extend(sseqs)
        self._find_first()

    def pop(self) -> None:
        """Drop the first one, which was delivered."""
        if self.first:
            self._at += 1
            self._find_first()

    def removed(self, sseqs: Iterable[int]) -> None:
        """Drop messages that no longer exist."""
        if not self.first:
            return
        for sseq in sseqs:
            at = bisect_left(self._sseqs, sseq, self._at)
            if at < len(self._sseqs) and self._sseqs[at] == sseq:
                self._gone.add(sseq)
        self._find_first()

    def skip_to(self, sseq: int) -> None:
        """Drop everything below `sseq`, which no longer exists."""
        start, self._at = self._at, bisect_left(self._sseqs, sseq, self._at)
        if self._gone:
            self._gone.difference_update(self._sseqs[start : self._at])
        self._find_first()

    def left(self) -> list[int]:
        """Return all that are still to be delivered."""
        return [sseq for sseq in self._sseqs[self._at :] if sseq not in self._gone]

    def sift(self, is_wanted: Callable[[int], bool]) -> Pieces[Singles]:
        """Find those that `is_wanted` returns True for, while others are dropped; ``narrow`` follows."""
        kept, sseq = Singles(), self.first
        while sseq:
            at = bisect_left(self._sseqs, sseq, self._at)
            part = self._sseqs[at : at + _PIECE + 1]
            sseq = part.pop() if len(part) > _PIECE else 0
            kept.extend(each for each in part if each not in self._gone and is_wanted(each))
            yield _PIECE
        return kept

    def narrow(self, kept: Singles) -> Singles:
        """Return what is left of the result of ``sift``."""
        if not self.first:
            return Singles()
        kept.removed(self._gone)
        kept.skip_to(self.first)
        return kept


class LastOfEach:
    """Collects the last message of each subject while others publish and remove."""

    def __init__(self, log: Log, patterns: tuple[bytes, ...]) -> None:
        self.resume = log.last_seq + 1  # those from here on are not among them
        self.log = log
        self._patterns = patterns or (b">",)
        self._gone: list[int] = []
        self._floor = 0

    def removed(self, sseqs: Iterable[int]) -> None:
        """Record messages that no longer exist."""
        self._gone += (sseq for sseq in sseqs if sseq < self.resume)

    def skip_to(self, sseq: int) -> None:
        """Record that nothing below `sseq` exists any more."""
        self._floor = max(self._floor, sseq)

    def gather(self) -> Pieces[Singles]:
        """Find the messages; ``removed`` and ``skip_to`` must be called meanwhile."""
        found: SortedPage[int] = SortedPage()
        log = self.log
        for pattern in self._patterns:
            lasts = log.lasts(pattern)
            while batch := list(itertools.islice(lasts, _PIECE)):
                found.add([sseq for sseq in batch if 0 < sseq < self.resume])
                yield _PIECE
        singles, last = Singles(), 0
        for chunk in found.chunks():
            singles.extend(sseq for sseq in dict.fromkeys(chunk) if sseq > last)  # patterns may overlap
            last = chunk[-1]
            yield len(chunk)
        singles.removed(self._gone)
        singles.removed(log.gone or ())
        singles.skip_to(self._floor)
        return singles
