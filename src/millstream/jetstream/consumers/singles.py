"""The last message of each subject, which a consumer delivers one by one before it goes on with the stream.

There may be millions.  They are gathered in pieces while messages come and go: whoever removes messages
tells (``removed``, ``skip_to``), so it is always known how many are left.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.base.sorted_page import SortedPage

if TYPE_CHECKING:
    from millstream.store.log import Log

_PIECE: Final = 32  # subjects


class Singles:
    """Sequences in ascending order."""

    def __init__(self, sseqs: Iterable[int] = ()) -> None:
        self._sseqs = array("Q", sseqs)
        self._at = 0  # of the next one
        self._gone: set[int] = set()  # of those from `_at` on

    def __len__(self) -> int:
        return len(self._sseqs) - self._at - len(self._gone)

    @property
    def first(self) -> int:
        """The next one to deliver; 0 if none is left."""
        while self._at < len(self._sseqs) and self._sseqs[self._at] in self._gone:
            self._gone.discard(self._sseqs[self._at])
            self._at += 1
        if self._at < len(self._sseqs):
            return self._sseqs[self._at]
        self._sseqs, self._at = array("Q"), 0
        return 0

    def extend(self, sseqs: Iterable[int]) -> None:
        """Add some, all above those that are there."""
        self._sseqs.extend(sseqs)

    def pop(self) -> None:
        """The first one was delivered."""
        if self.first:
            self._at += 1

    def removed(self, sseqs: Iterable[int]) -> None:
        """These messages are not there any more."""
        if self._at == len(self._sseqs):
            return
        for sseq in sseqs:
            at = bisect_left(self._sseqs, sseq, self._at)
            if at < len(self._sseqs) and self._sseqs[at] == sseq:
                self._gone.add(sseq)

    def skip_to(self, sseq: int) -> None:
        """Nothing below is there any more."""
        start, self._at = self._at, bisect_left(self._sseqs, sseq, self._at)
        if self._gone:
            self._gone.difference_update(self._sseqs[start : self._at])

    def left(self) -> list[int]:
        """All that are to be delivered."""
        return [sseq for sseq in self._sseqs[self._at :] if sseq not in self._gone]


class LastOfEach:
    """Gathers the last message of each subject, while others publish and remove."""

    def __init__(self, log: Log, patterns: tuple[bytes, ...]) -> None:
        self.resume = log.last_seq + 1  # those from here on are not among them
        self.log = log
        self._patterns = patterns or (b">",)
        self._gone: list[int] = []
        self._floor = 0

    def removed(self, sseqs: Iterable[int]) -> None:
        """These messages are not there any more."""
        self._gone += (sseq for sseq in sseqs if sseq < self.resume)

    def skip_to(self, sseq: int) -> None:
        """Nothing below is there any more."""
        self._floor = max(self._floor, sseq)

    def gather(self) -> Pieces[Singles]:
        """Find them; ``removed`` and ``skip_to`` have to be called meanwhile."""
        found: SortedPage[int] = SortedPage()
        log = self.log
        for pattern in self._patterns:
            subjects = log.index.match(pattern)
            while batch := [log.last_of(subject) for subject, _ in itertools.islice(subjects, _PIECE)]:
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
