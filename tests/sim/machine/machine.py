"""The simulated machine: a disk, and one server life after another on it.

A life is the real ``Broker`` with real connections, the real JetStream account and its API.  Simulated are
the event loop, the sockets, the threads, the clock and the disk.  ``Engine``, ``Server`` and listeners are
left out: they need real folders, locks and sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from millstream.broker.broker import Broker
from millstream.broker.info import SERVER_VERSION
from millstream.broker.options import GLOBAL_ACCOUNT, BrokerOptions
from millstream.broker.watchdog import Watchdog
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.api import AccountApi
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream import meta
from millstream.server.jetstream_world import AccountWorld
from millstream.store import commit_journal
from millstream.store.errors import StoreError
from millstream.store.fill import MOST_AHEAD
from millstream.store.unsynced import MOST_IN_DOUBT
from tests.kits.crashfs import Keep, PowerCut
from tests.sim.machine.disk import Killed, SimDisk, power_cut
from tests.sim.machine.loop import BusyClock, ServerLoop, SimClock, SimLoop
from tests.sim.machine.network import Peer, SimLink, Weather
from tests.sim.machine.workers import DiskPace, SimWorkers

FOLDER = "store/jetstream"


class Life:
    """One process of the server."""

    def __init__(self, machine: Machine) -> None:
        loop = machine.loop
        self._machine = machine
        self.loop = ServerLoop(loop)
        random = machine.random
        clock = BusyClock(loop, random, machine.slow_steps)
        self.broker = Broker(
            BrokerOptions(server_name="sim"),
            server_id="NSIM",
            loop=self.loop,  # type: ignore[arg-type]
            watchdog=Watchdog(self.loop.time),
            clock=clock,
        )
        self.workers = SimWorkers(self.loop, loop, machine.disk, random, machine.pace, self.broker.turns.run)
        world = AccountWorld(
            self.broker,
            self.broker.accounts[GLOBAL_ACCOUNT],
            machine.clock,
            self.workers,  # type: ignore[arg-type]
        )
        self.account = AccountJetStream(
            GLOBAL_ACCOUNT,
            world,
            AccountJetStreamOptions(),
            fs=machine.disk,
            folder=f"{FOLDER}/{GLOBAL_ACCOUNT}",
            resources=Resources(erase_within_s=machine.erase_within_s, ids_in_memory=machine.ids_in_memory),
        )
        self.links: list[SimLink] = []
        self.api = AccountApi(self.account, "sim", SERVER_VERSION)

    def start(self) -> None:
        """Do what ``Engine.start`` does: replay commit journals, start streams, answer requests."""
        fs = self._machine.disk
        numbers = commit_journal.journals(fs, FOLDER)
        replayed = commit_journal.replay(
            fs, FOLDER, lambda log, identity: meta.identity(fs, log.rpartition("/")[0]) == identity
        )
        for number in replayed.done:
            fs.remove(commit_journal.journal_path(FOLDER, number))
        if numbers:
            fs.sync_folder(FOLDER)
        failed = {log.rpartition("/")[0]: error for log, error in replayed.failed.items()}
        self.account.recover(failed)
        self.api.start()
        if self._machine.journals:
            self.workers.use_journal(FOLDER, max(numbers, default=0) + 1, self._machine.erase_within_s)
        self.broker.identity.jetstream_domain = ""

    def stop(self) -> None:
        """Stop in order, as after SIGTERM."""
        self.api.stop()
        self.account.stop(server_stops=True)
        self.workers.shutdown()


class Machine:
    """The machine; `happened` is called with what it did."""

    def __init__(self, loop: SimLoop, seed: int, happened: Callable[..., None]) -> None:
        self.loop = loop
        self.random = Random(f"machine {seed}")
        self.clock = SimClock(loop)
        self.disk = SimDisk()
        self.life: Life | None = None
        self.happened = happened
        random = self.random
        self.weather = Weather(random)
        self.pace = DiskPace(random)
        self.slow_steps = random.choice((0.0, 0.01, 0.2))
        self.journals = random.random() < 0.5  # small commits go to a commit journal
        self.erase_within_s = random.choice((3.0, 120.0))
        # Most bytes that are synced without a note; not drawn, as above.
        self.most_in_doubt = (500, 3_000, MOST_IN_DOUBT)[seed // 6 % 3]
        self.most_ahead = MOST_AHEAD  # zeros behind the records, where the loop writes some
        self.segment_size = random.choice((600, 3_000, 100_000))
        # A third of the machines writes ids to files.  Not drawn, so that all others have the same life.
        self.ids_in_memory = 4 if seed % 9 == 5 else 16 if seed % 13 in (9, 10, 11) else 0
        self.journal_sizes = {
            "segment_size": random.choice((300, 2_000, 1 << 20)),
            "smallest_log": random.choice((1_000, 1 << 20)),
        }
        self.rotted: Callable[[str], None] = lambda path: None
        self.rots_at_rest = False  # a byte changes while the server does not run
        self.rots_header_of = ""  # a stream: the byte is in a header of its files
        self.rots_within = "/streams/"  # a part of the paths of files that may be damaged
        self.rots_sectors = False  # a whole sector becomes zeros
        self.rots = 1  # places that are damaged at once
        self.keep: Keep | None = None  # what survives the next power cut
        self.cuts_at_start = 0  # power cuts left for starts
        self.operations = 0  # of disks before this one
        self.problems: list[str] = []

    # -- lives ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server; power may go meanwhile."""
        if self.life is not None:
            return
        if self.cuts_at_start and self.random.random() < 0.5:
            self.cuts_at_start -= 1
            self.disk.cut_power_at(self.disk.operations + self.random.randint(1, 12))
        self.disk.refused = 0
        try:
            life = Life(self)
            life.start()
        except StoreError:
            self.happened("does not start")
            if self.disk.sound and not self.disk.refused:
                self.problems.append("the server does not start")
            self._change_disk(self.disk.kill())
            self.loop.after(self.loop.clients, 1.0, self.start)
            return
        except PowerCut as end:
            self._next_disk(kill=isinstance(end, Killed))
            self.loop.after(self.loop.clients, 0.1, self.start)
            return
        self.life = life
        self.happened("started")
        if life.account.unrecovered and (self.disk.refused or not self.disk.sound):
            self.happened("disk fails at the start", life.account.unrecovered)
            self._die(kill=True)  # as an operator would: try again until the disk works
        elif life.account.unrecovered:
            self.problems.append(f"streams cannot be started: {life.account.unrecovered}")

    def power_cut(self) -> None:
        self._die(kill=False)

    def kill(self) -> None:
        self._die(kill=True)

    def stop(self) -> None:
        """Stop the server in order; power may go meanwhile."""
        if self.life is None:
            return
        try:
            self.life.stop()
        except PowerCut as end:
            self._die(kill=isinstance(end, Killed))
            return
        self._die(kill=True)

    def _die(self, *, kill: bool) -> None:
        life, self.life = self.life, None
        if life is None:
            return
        life.loop.owner.alive = False
        for link in life.links:
            link.server_died()
        self._next_disk(kill=kill)
        self.loop.after(self.loop.clients, self.random.choice((0.01, 0.5, 5.0)), self.start)

    def _next_disk(self, *, kill: bool) -> None:
        self.happened("killed" if kill else "power cut", self.disk.transcript[-1:])
        self.operations += self.disk.operations
        if kill:
            self._change_disk(self.disk.kill())
        else:
            keep, self.keep = self.keep, None
            self._change_disk(power_cut(self.disk, self.random, keep))
        if self.rots_at_rest:
            self.rots_at_rest = False
            self.rot()

    def _change_disk(self, disk: SimDisk) -> None:
        """Go on with what survived; whatever fails still does."""
        disk.failures, disk.space = self.disk.failures, self.disk.space
        disk.unreadable, disk.unreadable_within = self.disk.unreadable, self.disk.unreadable_within
        disk.fails_once = self.disk.fails_once
        self.disk = disk

    def rot(self) -> None:
        for _ in range(self.rots):
            path = self.disk.rot(self.random, self.rots_header_of, self.rots_within, sector=self.rots_sectors)
            if path is not None:
                self.happened("rot", path)
                self.rotted(path)

    def connect(self, peer: Peer) -> SimLink | None:
        life = self.life
        if life is None:
            return None
        connection = life.broker.new_connection()
        link = SimLink(self.loop, life.loop.owner, self.random, self.weather, connection, peer)
        life.links.append(link)
        return link

    def step(self) -> bool:
        """Run one callback of the simulation; a power cut in it ends the life of the server."""
        try:
            return self.loop.step()
        except PowerCut as end:
            self._die(kill=isinstance(end, Killed))
            return True
