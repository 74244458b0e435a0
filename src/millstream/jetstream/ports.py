"""What JetStream sees of the world: a dozen calls, so that every rule can be tested with a list and a clock.

One ``World`` per account.  Messages pass in batches where it counts: captured messages arrive while a
chunk of input is processed, and acknowledgements leave a commit at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from millstream.base.slices import Pieces
from millstream.jsapi.advisory_types import ClientInfo
from millstream.protocol.inlet import Responder
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.protocol.replies import Replies
from millstream.store.journal_batch import JournalBatch
from millstream.store.record import RecordBuffer


class Request(msgspec.Struct):
    """A request to the API, or any other message that JetStream listens for."""

    subject: bytes
    reply: bytes
    headers: bytes  # the whole block; empty if there is none
    payload: bytes
    client: Any = None  # who asked; ``World.describe_client`` knows


# Takes messages published to a stream's subjects: subject and frame.  The frame is only lent.
Sink = Callable[[bytes, Frame], None]
# Takes, or only looks at, a message that is traced; what the trace is to tell.
Traced = Callable[[bytes, Frame, bool], dict[str, Any]]


class Cancel(Protocol):
    def cancel(self) -> None: ...


class Vouched(Protocol):
    """A log that the commit journal vouches for, because not everything in its files is synced."""

    def sync_soon(self) -> None:
        """Have everything of the log synced that the journal vouches for."""

    def was_synced(self) -> None:
        """The journal has synced everything that was written to the log."""


class CommitJob(Protocol):
    """A commit to be run in another thread; what is plain may go a shorter way instead."""

    def run(self) -> None: ...

    def begin_plain(self) -> tuple[int, RecordBuffer] | None:
        """The open file and the records, if writing them at its end and a sync is all there is to do."""

    def begun(self, wait: Callable[[CommitJob], None]) -> None:
        """That is under way; whoever cannot wait for its end calls `wait`, which returns after it."""

    def plain_ended(self, failed_write: int, failed_sync: int) -> None:
        """With error numbers; 0 if it went well."""

    @property
    def journal_key(self) -> bytes:
        """What the commit journal calls the log; empty if the commit has to go another way."""

    @property
    def size(self) -> int:
        """Bytes to be written."""

    def begin_journaled(self, batch: JournalBatch, device: int) -> bool:
        """Add the records to a batch of the commit journal, which is on the disk with this number.

        False if the commit has to go another way.
        """

    def turned_down(self) -> None:
        """The commit journal does not write it after all, or could not: ``run`` follows."""

    def journaled_ended(self) -> None:
        """The commit is durable in the journal, and in the log's own file without a sync."""

    @property
    def vouched(self) -> Vouched:
        """The log, which the commit journal vouches for from now on."""


class JournalOfCommits(Protocol):
    """The commit journal, as the committer sees it: it vouches for logs that are not synced."""

    expected: int  # commits that begin together; many share one sync

    def synced(self, key: bytes) -> None:
        """Everything of a log is synced; or the log is gone."""

    def holds(self, key: bytes) -> bool:
        """Tell whether the journal has something of a log."""

    @property
    def crowded(self) -> bool:
        """Tell whether the journal has enough commits for its next batch."""

    def when_room(self, then: Callable[[], None]) -> None:
        """Call back, later and once, when the journal is not crowded."""

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        """Call back when the journal has nothing of a log any more; the log takes no commits until then."""


class NoJournal:
    """A world without a commit journal."""

    crowded = False
    expected = 0

    def when_room(self, then: Callable[[], None]) -> None:
        raise AssertionError("nobody waits for what is not there")

    def synced(self, key: bytes) -> None:
        pass

    def holds(self, key: bytes) -> bool:
        return False

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        then()


class World(Protocol):
    """The account around a set of streams."""

    @property
    def max_payload(self) -> int:
        """The largest message that a client may publish."""

    @property
    def max_subject(self) -> int:
        """The longest subject that a client may publish to, in bytes."""

    def now_ns(self) -> int:
        """Wall clock, for times that are stored, shown or given by clients; it may be set."""

    def steady_ns(self) -> int:
        """For how long something takes: the wall clock as it was at the start, and the time since then."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Cancel: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """When the input at hand is processed."""

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        """Do long work (see ``base.slices``): one slice in a round of the loop, in turn with that of others.

        The watchdog notes under `name` how long a slice takes and how many items it handles.
        """

    def run_in_worker(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `work` in another thread and `done` in this one."""

    def run_commit(self, job: CommitJob, done: Callable[[Exception | None], None]) -> None:
        """The same for a commit, as fast as can be: publishers wait for it."""

    @property
    def journal(self) -> JournalOfCommits: ...

    @property
    def publisher(self) -> int:
        """The number of the client that is served; if none is, of the last one."""

    def hold_publisher(self) -> None:
        """Take nothing more from the client whose message this is, until ``release_publishers``."""

    def release_publishers(self) -> None:
        """Read again from the clients that were held; costs nothing if there are none."""

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        """Deliver a message in the account; it reaches no service of the server (see ``ask``)."""

    def ask(self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None) -> None:
        """Make a request of our own, which services of the server take, too.

        Only to subjects that nobody else chose: with ``publish``, a client, a configuration or another server
        that says where a message goes cannot make requests in our name.
        """

    def answer(self, request: Request, payload: bytes, headers: bytes | None = None) -> None:
        """Answer a request; see ``answer_outlet``."""

    def answer_outlet(self, request: Request) -> Outlet:
        """A way to answer a request: to its client alone, if that may not publish to the reply subject."""

    def acknowledge(self, start: bytes, acks: Replies) -> None:
        """Send ``start + sequence + end`` to each of `acks`; called at the end of the work at hand."""

    def has_interest(self, subject: bytes) -> bool: ...

    def capture(
        self,
        subject: bytes,
        sink: Sink,
        traced: Traced | None = None,
        refuse: Callable[[bytes], None] | None = None,
        *,
        from_clients: bool = False,
    ) -> Any:
        """Give every message on `subject` to `sink`, or to `traced`; the handle is for ``release``.

        If the sink raises, `refuse` is called with the reply subject, so that the publisher gets an answer.
        `from_clients`: as ``serve``, not what the server itself sends.
        """

    def serve(
        self,
        subject: bytes,
        callback: Callable[[Request], None],
        queue: bytes | None = None,
        *,
        spared: tuple[bytes, ...] = (),
        responder: Responder | None = None,
    ) -> Any:
        """Call back for every request on `subject` of a client, or by ``ask``; the handle is for ``release``.

        Subjects that are `spared`, and all below them, are as if nobody listened for them here.  A
        `responder` may be asked first: the callback gets what it does not answer.
        """

    def hear(self, inbox: bytes, callback: Callable[[Request], None]) -> Any:
        """Call back for every answer to `inbox`, also of the server; the handle is for ``release``."""

    def release(self, handle: Any) -> None: ...

    def describe_client(self, client: Any) -> ClientInfo | None:
        """Who asked, as advisories tell it; None if it was nobody that can be named."""

    def outlet(self, subject: bytes, queue: bytes | None = None) -> Outlet:
        """A way to send messages under subjects of their own to whoever listens on `subject`.

        With a `queue`, only its members count as listening.
        """

    def flush(self) -> None:
        """Let what went out through outlets reach the clients when the work at hand is done."""

    def watch(self, subject: bytes, changed: Callable[[], None]) -> Any:
        """Call back whenever somebody begins or ends to listen on `subject`; ``unwatch`` with the handle."""

    def unwatch(self, handle: Any) -> None: ...
