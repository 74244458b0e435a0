"""The interface of JetStream to the world, so that every rule can be tested with a list and a clock.

Two ports: a ``Host`` has time, threads and the disk; a ``Messaging`` has the messages of one account.  A
``World`` is both; a class that needs only one takes only one.  Messages pass in batches where it matters:
captured messages arrive while a chunk of input is processed, and acks are sent a commit at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from millstream.base.slices import Pieces
from millstream.jsapi.advisory_types import ClientInfo
from millstream.protocol.inlet import Responder
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.protocol.replies import Replies

if TYPE_CHECKING:
    from millstream.jetstream.stream.committed_log import Committing
    from millstream.jetstream.stream.ticket import Ticket
    from millstream.otel.spans import SpanQueue
    from millstream.store.commit import Commit


class Requester(Protocol):
    """The sender of a request: a client, or this server itself."""

    @property
    def closed(self) -> bool:
        """Return True if it is a client that has disconnected."""

    def describe(self) -> ClientInfo | None:
        """Return the client as in advisories; None if it cannot be named."""

    def answer(self, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        """Send a response to `reply`; to this client alone if it may not publish to that subject."""

    def outlet(self, reply: bytes) -> Outlet:
        """Return an outlet for responses to `reply`; as in ``answer``, perhaps to this client alone."""


class ClientRequest(msgspec.Struct):
    """A request to the API, or any other message that JetStream subscribes to."""

    subject: bytes
    reply: bytes
    headers: bytes  # the whole block; empty if there is none
    payload: bytes
    requester: Requester

    def answer(self, payload: bytes, headers: bytes | None = None) -> None:
        self.requester.answer(self.reply, payload, headers)

    def outlet(self) -> Outlet:
        """Return an outlet for the responses."""
        return self.requester.outlet(self.reply)


class MessageLimits(msgspec.Struct, frozen=True):
    """Limits for what a client publishes, in bytes."""

    payload: int
    subject: int


# Takes messages published to a stream's subjects: subject and frame.  The frame is only lent.
Sink = Callable[[bytes, Frame], None]
# Takes, or only looks at, a message that is traced; what the trace is to tell.
Traced = Callable[[bytes, Frame, bool], dict[str, Any]]


class Cancel(Protocol):
    def cancel(self) -> None: ...


class Vouched(Protocol):
    """A log that relies on the commit journal, because not everything in its files is synced."""

    def sync_soon(self) -> None:
        """Sync everything of the log that relies on the journal."""

    def was_synced(self) -> None:
        """Record that the journal has synced everything written to the log."""


class Writers(Protocol):
    """Threads that write commits."""

    def start(self, commit: Commit, owner: Committing, publisher: int) -> Ticket:
        """Start writing a commit in the fastest way that is free, because publishers wait for it.

        It may have ended when this returns.  `owner` has the log, `publisher` is the client that made it
        wait.  Raises if nothing was started.
        """


class JournalOfCommits(Protocol):
    """The commit journal, as the committer sees it: logs that are not synced rely on it."""

    expected: int  # commits that begin together; many share one sync

    def synced(self, key: bytes) -> None:
        """Record that everything of a log is synced, or that the log is gone."""

    def failed(self, key: bytes) -> None:
        """Record that a commit of a log failed: the journal may have the only copy of earlier ones."""

    def holds(self, key: bytes) -> bool:
        """Return True if the journal has content of a log."""

    @property
    def crowded(self) -> bool:
        """Return True if the journal has enough commits for its next batch."""

    def has_place(self, publisher: int) -> bool:
        """Return True if the next batch takes another commit of this client, although it is crowded."""

    def when_room(self, then: Callable[[], None]) -> None:
        """Call back once, later, when the journal has room."""

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        """Call back when the journal has nothing of a log any more; the log takes no commits until then."""


class NoJournal:
    """A world without a commit journal."""

    crowded = False
    expected = 0

    def has_place(self, publisher: int) -> bool:
        return True

    def when_room(self, then: Callable[[], None]) -> None:
        raise AssertionError("there is no commit journal to wait for")

    def synced(self, key: bytes) -> None:
        pass

    def failed(self, key: bytes) -> None:
        pass

    def holds(self, key: bytes) -> bool:
        return False

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        then()


class Host(Protocol):
    """The process around JetStream: its clocks, timers and threads, and whom it reads from."""

    def now_ns(self) -> int:
        """Return the wall clock, for times that are stored, shown or given by clients; it may be set."""

    def steady_ns(self) -> int:
        """Return the time for durations: the wall clock at the start plus the time since then."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Cancel: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back when the current input is processed."""

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        """Run long work (``base.slices``): one slice in each round of the loop, in turn with others.

        The watchdog records under `name` the duration of a slice and its number of items.
        """

    def run_in_worker(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run `work` in another thread, then `done` in this one."""

    @property
    def writers(self) -> Writers: ...

    @property
    def journal(self) -> JournalOfCommits: ...

    @property
    def spans(self) -> SpanQueue | None:
        """Return the queue for spans of sampled messages; None if none are recorded."""

    @property
    def publisher(self) -> int:
        """Return the number of the client that is served, or of the last one."""

    def hold_publisher(self) -> None:
        """Stop reading from the client whose message this is, until ``release_publishers``."""

    def release_publishers(self) -> None:
        """Read again from the clients that were held; costs nothing if there are none."""


class Messaging(Protocol):
    """The messages of one account."""

    @property
    def limits(self) -> MessageLimits: ...

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        """Deliver a message in the account; it reaches no service of the server (see ``ask``)."""

    def ask(self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None) -> None:
        """Make a request of our own, which services of the server also get.

        Only to subjects that nobody else chose: with ``publish``, a client, a configuration or another server
        that names a subject cannot make requests in our name.
        """

    def acknowledge(self, start: bytes, acks: Replies, flush: bool = True) -> None:
        """Send ``start + number + end`` to each of `acks`.

        With `flush` it is called at the end of the current work, without it in the middle.
        """

    def confirm(self, replies: list[bytes]) -> None:
        """Send an empty message to each of `replies`; called at the end of the current work."""

    def has_interest(self, subject: bytes) -> bool: ...

    def outlet(self, subject: bytes, queue: bytes | None = None) -> Outlet:
        """Return an outlet for messages under their own subjects to the subscribers of `subject`.

        With a `queue`, only its members count as subscribers.
        """

    def flush(self) -> None:
        """Send what went to outlets to the clients when the current work is done."""

    def watch(self, subject: bytes, changed: Callable[[], None]) -> Any:
        """Call back whenever `subject` gets or loses a subscriber; the handle is for ``release``."""

    def capture(
        self,
        subject: bytes,
        sink: Sink,
        traced: Traced | None = None,
        refuse: Callable[[bytes], None] | None = None,
        *,
        from_clients: bool = False,
    ) -> Any:
        """Pass every message on `subject` to `sink`, or to `traced`; the handle is for ``release``.

        If the sink raises, `refuse` is called with the reply subject, so that the publisher gets a response.
        `from_clients`: like ``serve``, without messages of the server itself.
        """

    def serve(
        self,
        subject: bytes,
        callback: Callable[[ClientRequest], None],
        queue: bytes | None = None,
        *,
        spared: tuple[bytes, ...] = (),
        responder: Responder | None = None,
    ) -> Any:
        """Call back for every request on `subject` by a client or ``ask``; the handle is for ``release``.

        Subjects in `spared`, and all below them, are left out.  A `responder` is asked first: the callback
        gets what it does not answer.
        """

    def hear(self, inbox: bytes, callback: Callable[[ClientRequest], None]) -> Any:
        """Call back for every response to `inbox`, also of the server; the handle is for ``release``."""

    def release(self, handle: Any) -> None:
        """End what ``capture``, ``serve``, ``hear`` or ``watch`` began."""


class World(Host, Messaging, Protocol):
    """The surroundings of the streams of one account."""
