"""Every byte of every file of small stores is changed, zeroed with its sector, or cut off with the rest.

Each costs what docs/reliability.md says, is reported, and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from millstream.jetstream.stream.meta import STREAM_FILES
from tests.kits.crashfs import SECTOR
from tests.sim.machine.disk import SimDisk
from tests.sim.small_store import ACCOUNT, Found, SmallStore

STEP = 211  # in the ordinary run, one place of so many
FOLLOWERS = ("M", "G")  # their origin has what they lost
COMPRESSED = "C"
FIRST_COPY = 4096  # bytes: a configuration without them is lost


class Damage(NamedTuple):
    """Damage of one file."""

    kind: str  # `flip`, `zero` or `cut`
    path: str
    at: int

    def happen(self, disk: SimDisk) -> bool:
        """Damage a file; return False if that changes nothing."""
        inode = disk._names[self.path]
        before = bytes(inode.data)
        if self.kind == "flip":
            inode.data[self.at] ^= 1 << self.at % 8
        elif self.kind == "zero":
            end = min(self.at + SECTOR, len(inode.data))
            inode.data[self.at : end] = bytes(end - self.at)
        else:
            del inode.data[self.at :]
        inode.durable[:] = inode.data
        return inode.data != before

    @property
    def stream(self) -> str:
        return self.path[len(ACCOUNT) + 1 :].split("/", 1)[0] if self.path.startswith(ACCOUNT) else ""

    def is_in(self, folder: str) -> bool:
        return f"/{folder}/" in self.path

    def looks_unfinished(self, store: SmallStore) -> bool:
        """Return True if the damage is what a power loss leaves of a write: nobody can tell the two apart."""
        summary = f"{self.path[: -len('.log')]}.sum"
        grows = self.path.endswith(".log") and summary not in store.disk.paths()
        return self.kind != "flip" and (grows or self.path.endswith(".journal"))


def damages(store: SmallStore, kind: str) -> Iterator[Damage]:
    for path in store.disk.paths():
        size = min(store.used(path) + 100, len(store.disk._names[path].data))
        data = store.disk._names[path].data
        first = FIRST_COPY if kind == "cut" and path.endswith("meta.json") else 0
        for at in range(first, size, SECTOR if kind == "zero" else 1):
            # Most of a commit journal is zeros, of which none is like another's neighbour.
            if not path.endswith(".journal") or any(data[at - at % SECTOR :][:SECTOR]):
                yield Damage(kind, path, at)


@pytest.fixture(scope="module", params=["stopped", "killed", "cut"])
def store(request: pytest.FixtureRequest) -> SmallStore:
    return SmallStore(request.param)


def test_the_stores_have_every_kind_of_file() -> None:
    paths = [path for ends in ("stopped", "killed") for path in SmallStore(ends).disk.paths()]
    names = {path.rpartition("/")[2] for path in paths}
    kinds = {name.rpartition(".")[2] for name in names} | {name for name in names if "." not in name}
    assert {"log", "sum", "unsynced", "ids", "journal", "reach"} <= kinds
    assert {"meta.json", "sources.json"} <= names
    mine = [path[len(ACCOUNT) + 1 :].split("/", 1)[1] for path in paths if path.startswith(ACCOUNT)]
    assert all(STREAM_FILES.is_file(path) for path in mine)
    assert any("/consumers/" in path and path.endswith(".sum") for path in paths)


def test_a_start_on_an_intact_copy_reports_nothing(store: SmallStore) -> None:
    assert store.found.told == []


def test_an_interrupted_server_lost_nothing() -> None:
    stopped, killed, cut = (SmallStore(ends).found for ends in ("stopped", "killed", "cut"))
    assert stopped.content.keys() == killed.content.keys() == cut.content.keys()
    for name in stopped.content.keys() - {*FOLLOWERS}:
        texts = [_without_times(each.content[name]) for each in (stopped, killed, cut)]
        assert texts[0] == texts[1] == texts[2], name


def _without_times(content: dict[int, bytes]) -> dict[int, bytes]:
    return {seq: text[:4] + text[-20:] for seq, text in content.items()}


def judge(store: SmallStore, damage: Damage) -> None:
    disk = store.copy()
    if damage.happen(disk):
        _Judgement(store, damage, store.look(disk)).give()


class _Judgement:
    """Compares what a start found with and without damage."""

    def __init__(self, store: SmallStore, damage: Damage, after: Found) -> None:
        self.before, self.after, self.damage = store.found, after, damage
        self.unfinished = damage.looks_unfinished(store)
        self.changed = False  # so it must be reported

    def give(self) -> None:
        assert self.after.content.keys() == self.before.content.keys(), self.after.told
        for name in self.before.content:
            self._content(name)
        for path in self.before.consumers:
            self._consumer(path)
        self._ids()
        if self.changed and not self.unfinished:
            assert any(self.damage.path in line for line in self.after.told), self.after.told
        if not self.changed and self.damage.kind == "flip" and not self._is_of_records():
            assert not any("messages lost" in line for line in self.after.told), self.after.told

    def _is_of_records(self) -> bool:
        """Return True if a record is damaged: nobody knows whether it was a message."""
        return self.damage.path.endswith(".log")

    def _may_cost(self, name: str) -> bool:
        damage = self.damage
        return damage.path.endswith(".journal") or (damage.stream == name and damage.is_in("log"))

    def _content(self, name: str) -> None:
        before, after = self.before.content[name], self.after.content[name]
        wrong = [seq for seq in after if seq in before and after[seq] != before[seq]]
        assert not wrong, f"{name} has other messages: {wrong}"
        lost = [seq for seq in before if seq not in after]
        back = [seq for seq in after if seq not in before]
        self.changed = self.changed or bool(lost or back)
        assert not (lost or back) or self._may_cost(name), f"{name} lost {lost}, and {back} are back"
        if self.damage.kind == "flip":
            assert len(lost) <= 1 or name == COMPRESSED, f"{name} lost {lost}"
        if self.unfinished:
            # What is behind the cut, up to what a commit journal has.
            between = [seq for seq in before if lost and min(lost) <= seq <= max(lost)]
            assert self.damage.kind != "cut" or between == lost, lost
        elif name not in FOLLOWERS:  # which get the same messages again
            used, known = self.before.ends[name][1], self.after.ends[name][1]
            assert known >= used, f"{name} used {used}, and goes on behind {known}"

    def _consumer(self, path: str) -> None:
        before, after = self.before.consumers[path], self.after.consumers.get(path)
        if after is None:
            assert self.damage.is_in("consumers"), f"{path} is lost"
            assert self.damage.kind != "flip", f"{path} is lost"
            self.changed = True
            return
        present = set(self.after.content[path.split(".")[0]])
        settled = (before.open & present) - after.open
        assert not settled, f"{path} settled {sorted(settled)} by itself"
        if after != before and not self.damage.is_in("log"):
            journaled = self.damage.path.endswith(".journal")
            assert journaled or self.damage.is_in("consumers"), f"{path} was {before}, and is {after}"
            self.changed = True

    def _ids(self) -> None:
        for name, seq in self.before.ids.items():
            known = self.after.ids.get(name, 0)
            assert known in (0, -1, seq), f"{name} is {seq}, and now {known}"
            assert known or seq not in self.after.content["S"], f"{name} is forgotten"
            self.changed = self.changed or known != seq


def _judge_all(store: SmallStore, kind: str, step: int) -> None:
    for damage in list(damages(store, kind))[::step]:
        try:
            judge(store, damage)
        except Exception as error:
            raise AssertionError(f"{damage}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("kind", ["flip", "zero", "cut"])
def test_damage_costs_what_it_hit(store: SmallStore, kind: str) -> None:
    _judge_all(store, kind, 1 if kind == "zero" else STEP)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_damage_of_any_byte_costs_what_it_hit(store: SmallStore, kind: str) -> None:
    _judge_all(store, kind, 1)
