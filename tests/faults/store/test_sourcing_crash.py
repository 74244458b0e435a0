"""Power goes, or the process is killed, at every write of streams that copy messages of other streams.

Afterwards the copying goes on where it was: each message of an origin uses one sequence of the copy, no more
and no fewer, also if nothing is left in the copy that records its origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from millstream.protocol.parser import Frame
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.jetstream.inflow import SECOND, Place

BURST = 20  # messages of each origin that arrive together
BURSTS = 2


def nothing(place: Place) -> None:
    """Leave the copy alone."""


def purge(place: Place) -> None:
    place.ask("STREAM.PURGE.S")


def delete_last(place: Place) -> None:
    last = place.account.streams["S"].log.last_seq
    place.ask("STREAM.MSG.DELETE.S", {"seq": last, "no_erase": True})


def grow_old(place: Place) -> None:
    place.run(12)


def want_some(place: Place) -> None:
    """Have a consumer keep some of the messages; acks never come."""
    config = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "o.1"}
    place.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


def consume(place: Place) -> None:
    """Have a consumer acknowledge every message when it arrives, so that it is removed."""

    def acknowledge(subject: bytes, frame: Frame) -> None:
        place.world.send(frame.reply(), b"")

    place.world.capture(b"to", acknowledge)
    config = {"durable_name": "c", "ack_policy": "explicit", "deliver_subject": "to"}
    place.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})


@dataclass
class Copy:
    """A stream with two sources, and what becomes of its messages after each burst."""

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    at_start: Callable[[Place], None] = nothing  # of each server
    after_burst: Callable[[Place], None] = nothing
    keeps_all: bool = False


COPIES = [
    Copy("limits", keeps_all=True),
    Copy("no interest", {"retention": "interest"}),
    Copy("some interest", {"retention": "interest"}, at_start=want_some),
    Copy("newest", {"max_msgs": 3}),
    Copy("one for each subject", {"max_msgs_per_subject": 1}),
    Copy("aged", {"max_age": 10 * SECOND, "duplicate_window": SECOND}, after_burst=grow_old),
    Copy("purged", after_burst=purge),
    Copy("last deleted", after_burst=delete_last),
    Copy("consumed work", {"retention": "workqueue"}, at_start=consume),
    Copy("consumed", {"retention": "interest"}, at_start=consume),
    Copy("purged work", {"retention": "workqueue"}, after_burst=purge),
    Copy("not synced", {"persist_mode": "async", "max_msgs": 3}),
]
each_copy = pytest.mark.parametrize("copy", COPIES, ids=lambda copy: copy.name)


class Life:
    """Bursts of messages in two origins, a stream that copies them, and servers that end early."""

    def __init__(self, fs: CrashFileSystem, copy: Copy) -> None:
        self._copy = copy
        self._place = Place(fs)
        self._bursts = 0
        self._made = False

    def run(self) -> None:
        place = self._place
        if not self._made:
            place.stream("O", subjects=["o.>"])
            place.stream("P", subjects=["p.>"])
            sources = [{"name": "O"}, {"name": "P"}]
            place.stream("S", sources=sources, **self._copy.config)
            self._copy.at_start(place)
            self._made = True
        place.run(5)
        while self._bursts < BURSTS:
            self._bursts += 1
            self._burst()
            place.run(1)
            self._copy.after_burst(place)

    def run_and_check(self) -> None:
        self.run()
        self.check("without a crash")

    def _burst(self) -> None:
        """Publish to both origins in turn, so that the copy commits messages of both together."""
        for number in range(BURST):
            for origin in "op":
                payload = f"{origin} {self._bursts} {number}"
                self._place.world.send(f"{origin}.{number % 3}".encode(), payload.encode())
        self._place.world.settle()

    def restart(self, fs: CrashFileSystem) -> None:
        now = self._place.world.time_ns
        self._place = Place(fs, now_ns=now)
        self._copy.at_start(self._place)

    def check(self, when: str) -> None:
        """Assert that each message of an origin has used one sequence of the copy."""
        self._place.run(30)
        streams = self._place.account.streams
        last = {name: streams[name].log.last_seq for name in "OPS"}
        assert last["S"] == last["O"] + last["P"], f"{when}: {last}"
        origins = [payload for name in "OP" for payload in self._place.payloads(name).values()]
        found = list(self._place.payloads("S").values())
        assert len(set(found)) == len(found), when
        assert set(found) <= set(origins), when
        if self._copy.keeps_all:
            assert sorted(found) == sorted(origins), when


def first_operation(copy: Copy) -> tuple[int, int]:
    """Return the numbers of the first operation after the streams were made, and of the last one."""
    fs = CrashFileSystem()
    life = Life(fs, copy)
    begun: list[int] = []
    burst = life._burst

    def note() -> None:
        begun.append(fs.operations)
        burst()

    life._burst = note  # type: ignore[method-assign]
    life.run_and_check()
    return begun[0] + 1, fs.operations


def hurt(copy: Copy, cut: int) -> tuple[Life, CrashFileSystem]:
    fs = CrashFileSystem()
    fs.cut_power_at(cut)
    life = Life(fs, copy)
    with pytest.raises(PowerCut):
        life.run_and_check()
    return life, fs


@each_copy
def test_a_server_killed_at_any_write_goes_on_where_it_was(copy: Copy) -> None:
    first, last = first_operation(copy)
    for cut in range(first, last + 1):
        life, fs = hurt(copy, cut)
        life.restart(fs.kill())
        life.check(f"killed at {cut}, {fs.transcript[-1]}")
        life.run()
        life.check(f"killed at {cut}, {fs.transcript[-1]}, and later")


@each_copy
@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.PREFIX])
def test_a_power_cut_at_any_write_goes_on_where_it_was(copy: Copy, keep: Keep) -> None:
    first, last = first_operation(copy)
    for cut in range(first, last + 1):
        life, fs = hurt(copy, cut)
        life.restart(fs.crash(keep, Random(cut)))
        life.check(f"cut at {cut}, {fs.transcript[-1]}")
        life.run()
        life.check(f"cut at {cut}, {fs.transcript[-1]}, and later")


@each_copy
def test_a_second_kill_soon_after_the_first_changes_nothing(copy: Copy) -> None:
    first, last = first_operation(copy)
    for cut in range(first, last + 1, 3):
        for second in (1, 3, 6, 10):
            life, fs = hurt(copy, cut)
            fs = fs.kill()
            fs.cut_power_at(second)
            try:
                life.restart(fs)
                life.check("before the second kill")
                life.run()
            except PowerCut:
                life.restart(fs.kill())
            life.run()
            life.check(f"killed at {cut} and {second} later, {fs.transcript[-1]}")
