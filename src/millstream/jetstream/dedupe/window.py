"""The duplicate window of one stream: is this id known, and of which message?

Three places are searched, the newest first: `recent`, ids in memory; `older`, those in memory that are being
written; and `generations`, ids in files.  Only hashes are kept, 128 bits with a key that nobody knows, so
that nobody can choose an id that is taken for another (``base.siphash``).

Compiled, because it is on the path of a message.  Not here: moving ids to files (``stream.id_keeper``).
"""

import os
from collections.abc import Callable

from millstream.base.budget import BUDGET
from millstream.base.siphash import KEY_SIZE, SipHash
from millstream.jetstream.dedupe.generation import DamagedIds, Generation
from millstream.jetstream.dedupe.recent import RecentIds

_KEY = os.urandom(KEY_SIZE)  # of this process; a stream that has files uses theirs
_ANY_NUMBER = 2**62
_WITHOUT_WINDOW_NS = 120 * 1_000_000_000  # for streams without a window, which may get one: the default


class Dedupe:
    """Ids and the sequences of their messages; times are wall-clock nanoseconds."""

    def __init__(self, window_ns: int) -> None:
        self.window_ns = window_ns
        self.most = _ANY_NUMBER  # ids in memory; with more they are to be written
        self.least = _ANY_NUMBER  # ids that are worth a file, if memory is short
        self.full = False  # some are to be written
        self.damaged: Callable[[DamagedIds], None] | None = None  # told of damage that was found
        self.recent = RecentIds()
        self.older: RecentIds | None = None  # those that are being written
        self.generations: list[Generation] = []  # the newest first
        self._reached = 0  # the last sequence that is not in `recent` alone
        self._hash = SipHash(_KEY)
        self._hashed = b""  # the id whose hash was computed last; no message has an empty one
        self._last_id = b""
        self._last_seq = 0

    def __len__(self) -> int:
        """Return the number of ids that are not forgotten; some may be too old to be found."""
        older = self.older.known if self.older is not None else 0
        return self.recent.known + older + sum(each.count for each in self.generations)

    @property
    def key(self) -> bytes:
        """Return the key of the hashes."""
        return self._hash.key

    def find(self, message_id: bytes, now_ns: int) -> int:
        """Return the sequence of the message with this id, or 0; raise StoreError if that cannot be known."""
        oldest_ns = now_ns - self.window_ns
        self.recent.forget_old(oldest_ns)
        self._hash.of(message_id)
        self._hashed = message_id
        found = self.recent.find(self._hash.high, self._hash.low, oldest_ns)
        if found < self._reached:
            return self._find_older(oldest_ns, found)
        return found

    def _find_older(self, oldest_ns: int, found: int) -> int:
        """Return the last message with this id if it is later than `found`."""
        if self.older is not None:
            found = max(found, self.older.find(self._hash.high, self._hash.low, oldest_ns))
        try:
            for generation in self.generations:
                if generation.last_seq > found and generation.last_ns > oldest_ns:
                    found = max(found, generation.find(self._hash.high, self._hash.low, oldest_ns))
        except DamagedIds as error:
            if self.damaged is not None:
                self.damaged(error)
            raise
        return found

    def add(self, message_id: bytes, seq: int, now_ns: int) -> None:
        if message_id is not self._hashed:  # nobody looked for it just now
            self._hash.of(message_id)
        self._hashed = b""
        grew = self.recent.add(self._hash.high, self._hash.low, seq, now_ns)
        self._last_id = message_id
        self._last_seq = seq
        if self.recent.held() >= self.most or (
            grew and self.recent.held() >= self.least and BUDGET.ids.is_exceeded()
        ):
            self.full = True
        elif self.window_ns == 0:
            self.recent.forget_old(now_ns - _WITHOUT_WINDOW_NS)

    def hash_of(self, message_id: bytes) -> tuple[int, int]:
        """Return both halves of an id's hash."""
        self._hashed = b""
        self._hash.of(message_id)
        return self._hash.high, self._hash.low

    def id_of(self, last_seq: int) -> bytes:
        """Return the id of the stream's last message; empty if it has none."""
        return self._last_id if self._last_seq == last_seq else b""

    def set_last(self, message_id: bytes, seq: int) -> None:
        """Record the id of the stream's last message, which is known already."""
        self._last_id = message_id
        self._last_seq = seq

    # -- what the keeper does ---------------------------------------------------------------------

    def use_key(self, key: bytes) -> None:
        """Use the key of the files; nothing may have been added yet."""
        self._hash = SipHash(key)

    def set_aside(self) -> RecentIds:
        """Begin new recent ids and return those so far, which are found until they are in a file."""
        self.older = self.recent
        self.recent = RecentIds(self.older.last_seq + 1)
        self._note()
        return self.older

    def search(self, generations: list[Generation], *, written: bool = False) -> None:
        """Search these files, the newest first; `written`: instead of the ids that were set aside."""
        self.generations[:] = generations
        if written:
            self.older = None
        self._note()

    def _note(self) -> None:
        self._reached = max([each.last_seq for each in self.generations], default=0)
        if self.older is not None:
            self._reached = max(self._reached, self.older.last_seq)
        self.full = self.recent.held() >= self.most
