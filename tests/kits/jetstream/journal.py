"""A journal on a disk that can lose power, and short ways to use it."""

from __future__ import annotations

from random import Random
from typing import Any

from millstream.base.slices import Pieces
from millstream.jetstream.consumers.entries import StateCopy
from millstream.jetstream.consumers.journal import Alive, Changes, Journal, Recovered
from millstream.jetstream.stream.committer import Committer
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerState
from millstream.jsapi.enums import AckPolicy
from millstream.store.errors import StoreError
from millstream.store.layout import place_of
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.fake_world import FakeWorld

FOLDER = "streams/S/consumers"
CREATED = 1_700_000_000_000_000_001


def config_of(name: str, description: str = "") -> ConsumerConfig:
    return ConsumerConfig(
        durable_name=name, name=name, description=description, ack_policy=AckPolicy.EXPLICIT
    )


def alive(
    name: str, state: ConsumerState, config: ConsumerConfig | None = None, created: int = CREATED
) -> Alive:
    """Return a consumer for a checkpoint, whose state is copied at once."""

    def copy_state(copy: StateCopy) -> Pieces[Changes | None]:
        whole = Changes.whole(state, 0)
        copy.add(whole.pending, whole.gone, whole.redelivered)
        yield 1
        return whole

    return Alive(name, created, lambda: config or config_of(name), copy_state)


class Desk:
    """One process that has the journal of one stream open."""

    def __init__(
        self,
        fs: CrashFileSystem | None = None,
        *,
        segment_size: int = 1 << 20,
        smallest_log: int = 1 << 20,
        slice_size: int = 1 << 16,
    ) -> None:
        self.fs = fs or CrashFileSystem()
        self.world = FakeWorld()
        self.committer = Committer(self.world)
        self.sizes: dict[str, Any] = {
            "segment_size": segment_size,
            "smallest_log": smallest_log,
            "slice_size": slice_size,
        }
        self.journal = Journal(self.fs, FOLDER, self.committer, self.world, **self.sizes)
        self.found: dict[str, Recovered] = self.journal.recover()

    def create(self, name: str, state: ConsumerState | None = None, reserved: int = 0) -> None:
        self.journal.put_config(name, config_of(name), CREATED, state, reserved)

    def settle(self) -> None:
        self.world.settle()

    def outcomes(self) -> list[StoreError | None]:
        """Filled when what was said so far is durable, or is not."""
        told: list[StoreError | None] = []
        self.journal.on_outcome(told.append)
        return told

    def checkpoint(self, *names: str) -> None:
        """Write a checkpoint with the states that a restart would find."""
        self.settle()
        states = {name: each.state for name, each in self.copy().found.items()}
        self.journal.checkpoint([alive(name, states[name]) for name in names])
        self.settle()

    def copy(self) -> Desk:
        """Return a copy of what another process would find after a kill."""
        fs = CrashFileSystem()
        for path in self.fs.paths():
            file = fs.open(path, create=True)
            file.append(self.fs.read_all(path))
            file.sync()
        for path in fs.paths():
            fs.sync_folder(path.rsplit("/", 1)[0])
        return Desk(fs, **self.sizes)

    def restarted(self) -> Desk:
        """Return the states that another process finds on the same disk after a clean stop."""
        self.journal.close()
        return Desk(self.fs, **self.sizes)

    def after_power_cut(self, keep: Keep = Keep.NOTHING, seed: int = 0) -> Desk:
        return Desk(self.fs.crash(keep, Random(seed)), **self.sizes)

    def state(self, name: str) -> ConsumerState:
        return self.found[name].state

    def damage_entry(self, seq: int) -> None:
        """Flip a bit in the last byte of an entry, on disk."""
        place = place_of(self.journal.log, seq)
        at = place.offset + place.size - 1

        def flip(data: bytearray) -> None:
            data[at] ^= 0x10

        self.fs.damage(place.path, flip)


def delivered(first: int, last: int, floor: int = 0, at: int = 5) -> Changes:
    """Messages `first` to `last` went out, dseq and sseq being the same."""
    return Changes(last, last, floor, floor, 0, [(seq, seq, at) for seq in range(first, last + 1)])


def acked(last: int, floor: int, *gone: int) -> Changes:
    """Return the changes of a consumer that delivered up to `last` and settled up to `floor` and `gone`."""
    return Changes(last, last, floor, floor, 0, [], list(gone))
