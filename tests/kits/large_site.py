"""A server in memory that holds much, and a clock that counts the lines of Python that it runs.

The watchdog is given that clock, so what it says about a step is how much the step did, and the same in every
run.  The interpreted build counts everything, the compiled one what is not compiled.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

from millstream.base.slices import MOST_ITEMS, Pieces
from millstream.broker.broker import Broker
from millstream.broker.options import BrokerOptions
from millstream.broker.watchdog import Watchdog
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.api import AccountApi
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.ports import NoJournal
from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.ticket import Ticket
from millstream.server.jetstream_view import EngineView
from millstream.server.jetstream_world import AccountWorld
from millstream.server.monitor.json_page import render
from millstream.store.commit import Commit
from millstream.store.fs import MemoryFileSystem
from tests.kits.fake_transport import FakeClient, FakeLoop

LINES_A_SECOND = 2_000_000  # so that 5 ms are 10,000 lines
START_NS = 1_700_000_000_000_000_000


class WorkClock:
    """Time that passes with the lines of Python that are run while it is entered, imports left out."""

    def __init__(self) -> None:
        self.lines = 0
        self.later_ns = 0  # by how much the wall clock was set forward
        self.passed_ns = 0  # while nothing was done
        self._imports = 0  # under way, one inside the other

    def __call__(self) -> float:
        return self.lines / LINES_A_SECOND

    def monotonic(self) -> float:
        return self()

    def wall_ns(self) -> int:
        return START_NS + self.later_ns + self.passed_ns

    def steady_ns(self) -> int:
        return START_NS + self.passed_ns + self.lines * 1_000_000_000 // LINES_A_SECOND

    def __enter__(self) -> WorkClock:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_name == "_find_and_load":
            self._imports += 1
            return self._trace_import
        if frame.f_code.co_name == "_crc_by_tables":
            return None  # interpreted, a checksum takes lines for each byte; compiled, it takes no time
        if not self._imports:
            self.lines += 1
        return self._trace

    def _trace_import(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._imports -= event == "return"
        return self._trace_import


class Worker:
    """A worker that does everything in the next round of the loop, or when the disk is no longer slow."""

    journal = NoJournal()
    ending_many = False

    def __init__(self, loop: FakeLoop, turn: Callable[..., None]) -> None:
        self._loop = loop
        self._turn = turn
        self._held: list[Callable[[], None]] | None = None  # while the disk is slow

    def hold(self) -> None:
        self._held = []

    def let_go(self) -> None:
        held, self._held = self._held, None
        for run in held or ():
            self._loop.call_soon(run)

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        def run() -> None:
            before = sys.gettrace()
            sys.settrace(None)  # a thread of its own holds nobody up
            work()
            sys.settrace(before)
            self._loop.call_soon(self._turn, "end of work", done, None)

        if self._held is None:
            self._loop.call_soon(run)
        else:
            self._held.append(run)

    def start(self, commit: Commit, owner: Committing, publisher: int) -> Ticket:
        ticket = Ticket(commit, owner, publisher)
        self.submit(ticket.run, ticket.tell)
        return ticket


class Site:
    """A broker with JetStream on a loop that stands still, and a client."""

    def __init__(self) -> None:
        self.clock = WorkClock()
        self.watchdog = Watchdog(self.clock)
        self.loop = FakeLoop()
        self.broker = Broker(
            BrokerOptions(),
            server_id="N",
            loop=self.loop.as_loop(),
            watchdog=self.watchdog,
            clock=self.clock,
        )
        self.worker = Worker(self.loop, self.broker.turns.run)
        workers: Any = self.worker
        world = AccountWorld(self.broker, self.broker.global_account, self.clock, workers)
        self.account = AccountJetStream(
            "$G", world, AccountJetStreamOptions(), fs=MemoryFileSystem(), folder="store"
        )
        AccountApi(self.account, "server", "2.15.1").start()
        self.client = self.join()
        self.client.say(b"SUB _INBOX 1\r\n")
        self.other = self.join()
        self.lane = self.broker.turns.lane(width=4, most_waiting=64)

    def join(self) -> FakeClient:
        client = FakeClient(self.broker)
        client.connect()
        return client

    def leave(self) -> None:
        """The other client goes."""
        self.other.transport.peer_closes()
        self.loop.run_ready()

    def wait(self, seconds: float) -> None:
        """The clock is set forward, which timers notice after a minute at most."""
        self.clock.later_ns += round(seconds * 1_000_000_000)
        self.loop.advance(60.1)

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which nothing is asked."""
        self.clock.passed_ns += round(seconds * 1_000_000_000)
        self.loop.advance(seconds)

    def say_in_chunks(self, lines: list[bytes]) -> None:
        """The client says a lot, a little at a time."""
        self.say_to(self.client, lines)

    def say_to(self, client: FakeClient, lines: list[bytes]) -> None:
        for start in range(0, len(lines), 8):
            client.say(b"".join(lines[start : start + 8]))

    def count(self) -> int:
        """Return the number of messages in stream M."""
        return self.account.stream("M").log.messages

    def view(self) -> EngineView:
        engine: Any = SimpleNamespace(
            accounts={"$G": self.account},
            server_id="N",
            server_name="n",
            folder="store",
            options=SimpleNamespace(
                sync_interval_s=None,
                domain="",
                unique_tag="",
                strict=True,
                limits=self.account.resources.limits,
            ),
            resources=self.account.resources,
        )
        return EngineView(engine)

    def server(self) -> Any:
        return SimpleNamespace(
            broker=self.broker, jetstream=SimpleNamespace(view=self.view()), configured_ns=0
        )

    def ask(self, endpoint: str, body: Any = None) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        head = b"PUB $JS.API.%b _INBOX %d\r\n" % (endpoint.encode(), len(text))
        answer = self.client.say(head + text + b"\r\n").partition(b"\r\n")[2]
        found = json.loads(answer.rpartition(b"\r\n")[0])
        assert "error" not in found, found
        return found

    def make(self, pieces: Pieces[Any]) -> Any:
        """Do long work as monitoring does."""
        ended: list[Any] = []

        def done(result: Any, error: Exception | None) -> None:
            ended.append(result)
            if error is not None:
                raise error

        assert self.lane.begin("document", pieces, done) is not None
        self.loop.run_ready()
        return ended[0]

    def document(self, pieces: Pieces[Any]) -> Any:
        return json.loads(b"".join(self.make(_rendered(pieces))))


def _rendered(pieces: Pieces[Any]) -> Pieces[list[bytes]]:
    found = yield from pieces
    return (yield from render(found, pretty=True))


# Gives a server things to hold: few for a scale of 1, many for LARGE.
Hold = Callable[[Site, int], None]
LARGE = 100


def assert_short_steps(site: Site) -> None:
    """Check what the watchdog says of the steps so far."""
    found = {step: round(each.longest_s * LINES_A_SECOND) for step, each in site.watchdog.long_steps.items()}
    assert found == {}, found
    assert max(site.watchdog.most_items.values(), default=0) <= 2 * MOST_ITEMS


def filled(hold: Hold) -> Site:
    site = Site()
    hold(site, LARGE)
    return site


def streams(site: Site, scale: int) -> None:
    for number in range(6 * scale):
        site.ask(
            f"STREAM.CREATE.S{number}",
            {"name": f"S{number}", "subjects": [f"s.{number}"], "storage": "memory"},
        )


def messages(site: Site, scale: int, subjects: int = 5000, header: bytes = b"", **config: Any) -> None:
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"], **config})
    size = len(header)
    start = b"HPUB m.%d %d %d\r\n%b\r\n" if header else b"PUB m.%d 0\r\n\r\n"
    rest = (size, size, header) if header else ()
    published = (start % (number * 7 % subjects, *rest) for number in range(50 * scale))
    site.client.say(b"".join(published))
    assert site.count() == 50 * scale


def few_subjects(site: Site, scale: int) -> None:
    """The routes to a stream are dropped in one step; the broker bounds their number."""
    messages(site, scale, subjects=20)


def consumers(site: Site, scale: int) -> None:
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"]})
    for number in range(6 * scale):
        config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
        site.ask(f"CONSUMER.DURABLE.CREATE.M.d{number}", {"stream_name": "M", "config": config})


def clients(site: Site, scale: int) -> None:
    for _ in range(15 * scale):
        site.join()


def subscriptions(site: Site, scale: int) -> None:
    site.other.say(b"".join(b"SUB a.%d.b %d\r\n" % (number, number) for number in range(30 * scale)))
