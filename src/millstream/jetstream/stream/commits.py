"""The commits of a stream: which commit answers which publisher, and how many bytes wait for the disk.

Acks to publishers go through three places:

    gathered ──commit_begins──▶ committing ──commit_durable──▶ durable ──commit_ended──▶ answered

The next commit may begin before the acks of the last one are sent.  Acks that arrive while a commit is
running are kept apart (`waiting`), so that the ingest notifies the stream only after enough of them.

Compiled, because it is on the path of a message when many streams commit at once.  Not here: when commits
begin (``committer``), and what a stream does about a failed commit (``stream``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from millstream.base import guard
from millstream.jetstream.consumers.commit_waiters import AwaitingCommit
from millstream.jetstream.dedupe.window import Dedupe
from millstream.jetstream.publish.ingest import Ingest
from millstream.jetstream.resources import Resources, Usage
from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.waiters import Outcome
from millstream.protocol.replies import Replies
from millstream.store.errors import StoreError
from millstream.store.log import Log
from millstream.store.record import drop_large_spares, has_large_spares

if TYPE_CHECKING:
    from millstream.jetstream.ports import World
    from millstream.jetstream.stream.committer import Committer

_UNTOLD_BYTES = 64 * 1024  # that gather at most during a commit before they are weighed again
_LOOKS = 16  # how often they are weighed at least before there is no room left
_REST_S = 1.0  # after which memory of large commits is given back, if nothing waits for the disk


class StreamCommits(Committing):
    """The base class of a stream, which sets ``ingest`` and ``dedupe``."""

    def __init__(
        self,
        world: World,
        committer: Committer,
        resources: Resources,
        usage: Usage,
        log: Log,
        journal_key: bytes,
        *,
        in_memory: bool,
        sync: bool,
    ) -> None:
        Committing.__init__(self, committer, log, journal_key, in_memory=in_memory, sync=sync)
        self.world = world
        self.resources = resources
        self.usage = usage  # of all streams of the account with the same storage
        self.counted = 0  # bytes that are in the sums of account and server
        self.ingest: Ingest = None  # type: ignore[assignment]
        self.dedupe: Dedupe = None  # type: ignore[assignment]
        self.awaiting_commit = AwaitingCommit()
        self.failure: StoreError | None = None  # set: read-only until the disk takes writes again
        self.backlogged = False  # so much waits for the disk that nothing more is taken
        self.out_of_room = False  # the server had no room for anything when that was looked at last
        self.ages = False  # messages are removed when they are old
        self._ack_start = b""
        self._waiting_acks = Replies()
        self._committing_acks = Replies()
        self._durable_acks = Replies()  # may be sent
        self._damages_told = 0
        self._unwritten = 0  # bytes, when they were counted last
        self._gone: list[int] | None = None  # of the log: what was removed and consumers were not told
        self._gone_committing = 0  # so many of them belong to the commit that began last, or to earlier ones
        self._gone_durable = 0
        self._ahead = False  # then, as much waited for the next commit as one may have

    # -- who waits --------------------------------------------------------------------------------

    def on_durable(self, callback: Callable[[], None]) -> None:
        self.waiters.on_durable(callback)
        self.ingest.tell()

    def on_outcome(self, callback: Outcome) -> None:
        self.waiters.on_outcome(callback)
        self.ingest.tell()

    def commit_begins(self) -> None:
        committing = self._committing_acks
        if committing.count == 0 and self._waiting_acks.count == 0:
            self._committing_acks = self.ingest.hand_over(0, committing)
        else:
            committing.extend(self._waiting_acks)
            self._waiting_acks.clear()
            committing.extend(self.ingest.hand_over())
        gone = self.log.gone
        if gone is not self._gone:
            self._gone = gone
            self._gone_durable = 0
        self._gone_committing = len(gone) if gone is not None else 0
        self.waiters.commit_begins()

    def commit_waits(self) -> None:
        resources, log = self.resources, self.log
        unwritten = log.unwritten()
        self._weigh(unwritten)
        gathered = log.gathered()
        messages_left = resources.max_buffered_messages - (log.state.last_seq - log.state.committed)
        bytes_left = min(
            resources.max_buffered_size - gathered, resources.max_unwritten - resources.unwritten
        )
        # The next commit takes everything along, so it is told again only when that is worth a look.
        untold = min(_UNTOLD_BYTES, bytes_left // _LOOKS, messages_left // _LOOKS)
        acks = self.ingest.hand_over(max(untold, 0))
        if self._waiting_acks.count:
            self._waiting_acks.extend(acks)
        else:
            self._waiting_acks = acks
        if messages_left < 0 or gathered > resources.max_buffered_size:
            self.backlogged = True
            self.ingest.fast_path = False

    def commit_durable(self) -> None:
        """Set aside the acks of the commit: the next may begin before they are sent."""
        self.waiters.commit_durable()
        self._gone_durable = self._gone_committing
        done = self._committing_acks
        if self._durable_acks.count:
            self._durable_acks.extend(done)
            done.clear()
        else:
            self._committing_acks, self._durable_acks = self._durable_acks, done

    def commit_ended(self) -> None:
        self.count_as(self.bytes())
        self._weigh(self.log.unwritten())
        if (
            self.failure is not None
            or self.backlogged
            or self.out_of_room != self.usage.whole_is_exhausted()
            or len(self.log.losses.damages) != self._damages_told
        ):
            guard.alone("looking at a stream after a commit", self.look_again)
        acks = self._durable_acks
        if acks.count:
            try:
                self.world.acknowledge(self._ack_start, acks)
            finally:
                acks.clear()
        if self.ages:
            guard.alone("keeping the limits of a stream", self.plan_ageing)
        if self.dedupe.full:
            guard.alone("writing the ids of a stream", self.write_ids)
        gone = self.log.gone
        if gone is not None:  # there are consumers, or some are being made
            if self._gone_durable and gone is self._gone:
                guard.alone("telling consumers what is gone", self.tell_gone, self._take_gone(gone))
            self.awaiting_commit.deliver(self.log)
        self.tell_waiters()

    def _take_gone(self, gone: list[int]) -> list[int]:
        """Split off and return the messages whose removal is durable: a power cut brings back the others."""
        count = self._gone_durable
        self.log.gone = self._gone = gone[count:]
        self._gone_committing -= count
        self._gone_durable = 0
        return gone[:count]

    def take_unanswered(self) -> Replies:
        """Remove and return the acks of commits that have not ended."""
        acks = self._committing_acks
        acks.extend(self._waiting_acks)
        acks.extend(self.ingest.hand_over())
        self._committing_acks, self._waiting_acks = Replies(), Replies()
        return acks

    # -- what a stream does ------------------------------------------------------------------------

    def look_again(self) -> None:
        """Update the stream's state after damage, a failure or a lack of room."""

    def write_ids(self) -> None:
        """Write ids of the duplicate window, because memory has too many."""

    def plan_ageing(self) -> None:
        """Schedule the removal of the first message by its age."""

    def tell_gone(self, sseqs: list[int]) -> None:
        """Notify consumers of removed messages."""

    # -- bytes ------------------------------------------------------------------------------------

    def bytes(self) -> int:
        """Return the bytes as nats-server counts them, which differ from those on our disk."""
        log = self.log
        if self.in_memory:
            return log.state.record_bytes - 10 * log.state.messages - 4 * log.state.with_headers
        return log.state.record_bytes + 4 * log.state.messages

    def count_as(self, size: int) -> None:
        """Set the stream's bytes in the sums of account and server."""
        if size != self.counted:
            self.usage.add(size - self.counted)
            self.counted = size

    def weigh(self) -> None:
        """Count the bytes that wait for the running commit to end."""
        if self.log.committing:
            self._weigh(self.log.unwritten())

    def stop_weighing(self) -> None:
        """Stop counting bytes: the stream has ended or accepts no messages."""
        self._weigh(0)

    def _weigh(self, unwritten: int) -> None:
        """Count the bytes that wait for the disk, and stop reading from publishers if there are too many."""
        resources = self.resources
        resources.unwritten += unwritten - self._unwritten
        self._unwritten = unwritten
        # Half of the room is for the commit under way: the next one gathers while this one is written.
        most = resources.max_unwritten // 2
        self._ahead = unwritten > most and self.log.committing and self.log.gathered() > most
        if self._ahead or resources.unwritten > resources.max_unwritten:
            self.ingest.hold = self._hold
        else:
            self.ingest.hold = None
            self.world.release_publishers()
        if resources.unwritten == 0 and not resources.resting and has_large_spares():
            resources.resting = True
            self.world.call_later(_REST_S, partial(_rest, resources))

    def _hold(self) -> None:
        """Stop reading from the publisher, unless other streams have been written since the last count."""
        if self._ahead or self.resources.flooded:
            self.world.hold_publisher()
        else:
            self.ingest.hold = None


def _rest(resources: Resources) -> None:
    """Free the memory of large commits, unless bytes wait for the disk again."""
    resources.resting = False
    if resources.unwritten == 0:
        drop_large_spares()
