"""A ``jetstream.ports`` world that a test controls: a list of published messages and a manual clock.

    world = FakeWorld()
    account = world.account()                  # an AccountJetStream in memory
    stream = account.add(config)
    world.send(b"ORDERS.new", b"1", reply=b"me")
    world.settle()                             # run everything deferred, commits included
    assert world.published == [Published(b"me", b'{"stream":"ORDERS","seq":1}')]

Workers run when the test calls ``settle``, so a test can check the state before a commit has ended.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from millstream.base.slices import Pieces, Sliced
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.ports import ClientRequest, MessageLimits, NoJournal, Sink, Traced
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.ticket import Ticket
from millstream.jsapi.advisory_types import ClientInfo
from millstream.protocol.inlet import Responder
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame, make_frame
from millstream.protocol.replies import Replies
from millstream.store.commit import Commit
from millstream.store.fs import FileSystem, MemoryFileSystem
from millstream.subjects.match import matches


class Published(NamedTuple):
    """A message that JetStream sent."""

    subject: bytes
    payload: bytes
    headers: bytes = b""
    reply: bytes = b""


class Delivered(NamedTuple):
    """A message that a consumer sent."""

    to: bytes
    subject: bytes
    payload: bytes
    reply: bytes
    headers: bytes = b""


class FakeOutlet(Outlet):
    """Adds to ``FakeWorld.delivered``, and to ``published`` so that the order of both is visible."""

    def __init__(self, world: FakeWorld, to: bytes) -> None:
        self._world = world
        self._to = to

    def send(self, subject: bytes, frame: Frame) -> int:
        if self._to in self._world.deaf:
            return 0
        message = Delivered(self._to, subject, frame.payload(), frame.reply(), frame.headers())
        self._world.delivered.append(message)
        self._world.published.append(Published(self._to, message.payload, message.headers, message.reply))
        return 1

    def has_interest(self) -> bool:
        return self._to not in self._world.deaf

    def behind(self) -> bool:
        return self._to in self._world.behind


@dataclass(slots=True)
class _Timer:
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


class FakeWriters:
    """Implements ``jetstream.ports.Writers``: a commit is written when the world settles."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    def start(self, commit: Commit, owner: Committing, publisher: int) -> Ticket:
        ticket = Ticket(commit, owner, publisher)
        self._world.run_in_worker(ticket.run, ticket.tell)
        return ticket


class FakeWorld:
    """Implements ``jetstream.ports.World``, both of its ports."""

    def __init__(self, now_ns: int = 1_700_000_000_000_000_000) -> None:
        self.time_ns = now_ns
        self.was_set_ns = 0  # how far the clock was set; timers ignore it
        self.published: list[Published] = []
        self.heard: list[bytes] = []  # patterns of events that have a subscriber
        self._soon: list[Callable[[], None]] = []
        self._work: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
        self._timers: list[tuple[int, int, _Timer]] = []
        self._order = itertools.count()
        self._sinks: list[tuple[bytes, Sink]] = []
        self._services: list[tuple[bytes, Callable[[ClientRequest], None]]] = []
        self._watchers: list[tuple[bytes, Callable[[], None]]] = []
        self.delivered: list[Delivered] = []  # through outlets
        self.deaf: set[bytes] = set()  # subjects without a subscriber
        self.behind: set[bytes] = set()  # subjects whose receiver has a backlog
        self.writers = FakeWriters(self)
        self.journal = NoJournal()
        self.spans = None
        self.publisher = 1  # the client whose message is sent
        self.slices: list[tuple[str, int]] = []  # of long work: its name, and how many items it handled
        self.held = 0  # messages whose publishers were held, since they were released
        self.limits = MessageLimits(payload=1024 * 1024, subject=4096)

    def account(
        self,
        options: AccountJetStreamOptions | None = None,
        *,
        fs: FileSystem | None = None,
        name: str = "$G",
        domain: str = "",
        sync_interval_s: float | None = None,
        resources: Resources | None = None,
    ) -> AccountJetStream:
        """Return the JetStream of an account in this world; pass `fs` to open its files again."""
        return AccountJetStream(
            name,
            self,
            options or AccountJetStreamOptions(),
            fs=fs or MemoryFileSystem(),
            folder="store",
            domain=domain,
            sync_interval_s=sync_interval_s,
            resources=resources,
        )

    # -- what a test does -------------------------------------------------------------------------

    def send(
        self, subject: bytes, payload: bytes = b"", *, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        """Publish like a client."""
        for pattern, sink in list(self._sinks):
            if matches(subject, pattern):
                sink(subject, make_frame(reply, headers, payload))
        for pattern, callback in list(self._services):
            if matches(subject, pattern):
                callback(ClientRequest(subject, reply, headers or b"", payload, FakeRequester(self)))

    def request(self, subject: bytes, payload: bytes = b"", headers: bytes | None = None) -> bytes:
        """Publish, settle, and return the payload of the only response."""
        before = len(self.published)
        self.send(subject, payload, reply=b"_INBOX.test", headers=headers)
        self.settle()
        answers = [each for each in self.published[before:] if each.subject == b"_INBOX.test"]
        if len(answers) != 1:
            raise AssertionError(f"{len(answers)} answers to {subject.decode()}")
        return answers[0].payload

    def settle(self) -> None:
        """Run everything deferred until nothing is left."""
        while self._soon or self._work:
            self.settle_once()

    def settle_once(self) -> None:
        """Run what was deferred so far, but not what that defers."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()
        work, self._work = self._work, []
        for job, done in work:
            done(_outcome(job))

    @property
    def timers(self) -> int:
        """Return the number of timers."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Advance time; timers fire in order, each at its own time."""
        end = self.time_ns + round(seconds * 1_000_000_000)
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self.time_ns = max(self.time_ns, due)
            if timer.callback is not None:
                timer.callback()
            self.settle()
        self.time_ns = end

    # -- what JetStream sees ----------------------------------------------------------------------

    def now_ns(self) -> int:
        return self.time_ns + self.was_set_ns

    def steady_ns(self) -> int:
        return self.time_ns

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        due = self.time_ns + round(delay_s * 1_000_000_000)
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        work = Sliced(pieces)

        def next_slice() -> None:
            ended = work.step()
            self.slices.append((name, work.items))
            if not ended:
                self._soon.append(next_slice)

        self._soon.append(next_slice)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run_in_worker(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._work.append((work, done))

    def hold_publisher(self) -> None:
        self.held += 1

    def release_publishers(self) -> None:
        self.held = 0

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        self.published.append(Published(subject, payload, headers or b"", reply))

    def ask(self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None) -> None:
        self.publish(subject, payload, reply, headers)

    def acknowledge(self, start: bytes, acks: Replies, flush: bool = True) -> None:
        for reply, seq, end in acks:
            self.published.append(Published(reply, b"%b%d%b" % (start, seq, end)))

    def confirm(self, replies: list[bytes]) -> None:
        for reply in replies:
            self.publish(reply, b"")

    def has_interest(self, subject: bytes) -> bool:
        if subject in self.deaf:
            return False
        events = subject.startswith(b"$JS.EVENT.")
        return not events or any(matches(subject, pattern) for pattern in self.heard)

    def capture(
        self,
        subject: bytes,
        sink: Sink,
        traced: Traced | None = None,
        refuse: Callable[[bytes], None] | None = None,
        *,
        from_clients: bool = False,
    ) -> Any:
        entry = (subject, sink)
        self._sinks.append(entry)
        return entry

    def serve(
        self,
        subject: bytes,
        callback: Callable[[ClientRequest], None],
        queue: bytes | None = None,
        *,
        spared: tuple[bytes, ...] = (),
        responder: Responder | None = None,
    ) -> Any:
        def call(request: ClientRequest) -> None:
            if (request.subject + b".").startswith(tuple(each + b"." for each in spared)):
                return
            if responder is not None and request.reply and not request.headers:
                frame = make_frame(request.reply, None, request.payload)
                if responder.respond(request.subject, frame, self.outlet(request.reply)):
                    return
            callback(request)

        entry = (subject, call)
        self._services.append(entry)
        return entry

    def hear(self, inbox: bytes, callback: Callable[[ClientRequest], None]) -> Any:
        return self.serve(inbox, callback)

    def release(self, handle: Any) -> None:
        for handles in (self._sinks, self._services, self._watchers):
            if handle in handles:
                handles.remove(handle)
                return
        raise AssertionError("released twice")

    def outlet(self, subject: bytes, queue: bytes | None = None) -> FakeOutlet:
        return FakeOutlet(self, subject)

    def flush(self) -> None:
        """Do nothing: messages are delivered at once."""

    def watch(self, subject: bytes, changed: Callable[[], None]) -> Any:
        entry = (subject, changed)
        self._watchers.append(entry)
        return entry

    def listen(self, subject: bytes, *, ends: bool = False) -> None:
        """Add a subscriber on `subject`, which every subject has at first; `ends` removes it."""
        if ends:
            self.deaf.add(subject)
        else:
            self.deaf.discard(subject)
        for watched, changed in list(self._watchers):
            if watched == subject:
                changed()


class FakeRequester:
    """Implements ``jetstream.ports.Requester``: a client that may publish to every subject."""

    def __init__(self, world: FakeWorld, *, closed: bool = False) -> None:
        self._world = world
        self.closed = closed

    def describe(self) -> ClientInfo | None:
        return ClientInfo(kind="Client")

    def answer(self, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        self._world.publish(reply, payload, headers=headers)

    def outlet(self, reply: bytes) -> Outlet:
        return self._world.outlet(reply)


def _outcome(job: Callable[[], None]) -> Exception | None:
    try:
        job()
    except Exception as error:
        return error
    return None
