"""Removed messages leave the disk within the bound, by the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from millstream.base.owned import Owned
from millstream.jetstream.resources import Resources
from millstream.store.errors import StoreError
from tests.kits.jetstream.stream import Disk, Site

BOUND_S = 120.0


def on_disk(disk: Disk, payload: bytes) -> bool:
    folder = "store/streams/S/log"
    return any(payload in disk.read_all(f"{folder}/{name}") for name in disk.list(folder))


def remove_one(site: Site, way: str) -> None:
    if way == "deleted":
        site.ask("STREAM.MSG.DELETE.S", {"seq": 2, "no_erase": True})
    elif way == "purged":
        site.ask("STREAM.PURGE.S", {"filter": "s.2"})
    elif way == "replaced":
        site.publish("s.2", b"new value")
    elif way == "limited":
        site.ask("STREAM.PURGE.S", {"seq": 3})


@pytest.mark.parametrize("way", ["deleted", "purged", "replaced", "limited"])
@pytest.mark.parametrize("after_s", [0.0, 7.0, 39.9, 40.0, 63.3])
def test_a_message_is_gone_when_the_bound_has_passed(way: str, after_s: float) -> None:
    site = Site()
    site.create(max_msgs_per_subject=1)
    for number in range(1, 20):
        site.publish(f"s.{number}", b"payload-%d-end" % number)
    site.world.advance(after_s)
    remove_one(site, way)
    assert on_disk(site.disk, b"payload-2-end")
    site.world.advance(BOUND_S)
    assert not on_disk(site.disk, b"payload-2-end")
    assert on_disk(site.disk, b"payload-3-end")
    assert site.restarted().state()["messages"] == site.state()["messages"]


def test_the_bound_is_an_option_that_a_reload_changes() -> None:
    resources = Resources(erase_within_s=3.0)
    site = Site(resources=resources)
    site.create()
    for number in range(1, 20):
        site.publish(f"s.{number}", b"payload-%d-end" % number)
    remove_one(site, "deleted")
    site.world.advance(3.0)
    assert not on_disk(site.disk, b"payload-2-end")
    resources.erase_within_s = 300.0
    site.ask("STREAM.MSG.DELETE.S", {"seq": 3, "no_erase": True})
    site.world.advance(90.0)
    assert on_disk(site.disk, b"payload-3-end")
    site.world.advance(300.0)
    assert not on_disk(site.disk, b"payload-3-end")


def test_what_is_found_removed_at_a_start_goes_within_the_bound_from_there() -> None:
    site = Site()
    site.create()
    for number in range(1, 20):
        site.publish(f"s.{number}", b"payload-%d-end" % number)
    remove_one(site, "deleted")
    again = site.restarted(orderly=False)
    assert on_disk(again.disk, b"payload-2-end")
    again.world.advance(BOUND_S)
    assert not on_disk(again.disk, b"payload-2-end")


def test_a_disk_that_fails_for_a_while_only_delays_it() -> None:
    site = Site()
    site.create()
    for number in range(1, 20):
        site.publish(f"s.{number}", b"payload-%d-end" % number)
    remove_one(site, "deleted")
    site.disk.full = True
    site.world.advance(2 * BOUND_S)
    assert on_disk(site.disk, b"payload-2-end")
    site.disk.full = False
    site.world.advance(3 * BOUND_S)
    assert not on_disk(site.disk, b"payload-2-end")


def test_a_stream_from_which_nothing_is_removed_is_left_alone() -> None:
    site = Site()
    site.create()
    site.publish("s.1", b"x")
    before = len(site.disk.syncs)
    site.world.advance(10 * BOUND_S)
    assert len(site.disk.syncs) == before


def test_the_folder_of_a_deleted_stream_that_cannot_be_removed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    site.create()
    site.publish("s.1", b"x")
    remove = site.disk.remove_ours
    tries = []

    def fails(path: str, owned: Owned) -> Sequence[str]:
        tries.append(path)
        if len(tries) < 3:
            raise StoreError("remove", path, "Too many open files")
        return remove(path, owned)

    monkeypatch.setattr(site.disk, "remove_ours", fails)
    site.ask("STREAM.DELETE.S")
    site.world.settle()
    assert site.disk.list("store/deleted") != []
    for _ in range(5):
        site.world.advance(10.0)
    assert site.disk.list("store/deleted") == []
    assert len(tries) == 3


def test_a_file_whose_messages_go_while_it_is_erased_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The erasure is the last that needs the file, and nothing else is to be committed."""
    site = Site(resources=Resources(erase_within_s=3.0))
    stream = site.create()
    for number in range(1, 20):
        site.publish(f"s.{number}", b"payload-%d-end" % number)
    stream.log.roll()
    site.publish("s.20", b"new")
    remove_one(site, "deleted")
    site.ask("STREAM.MSG.DELETE.S", {"seq": 20, "no_erase": True})
    slow: list[Any] = []
    run_in_worker = site.world.run_in_worker

    def hold_erasure(work: Any, done: Any) -> None:
        if site.account.committer.compactor._running and not slow:
            slow.append((work, done))
        else:
            run_in_worker(work, done)

    monkeypatch.setattr(site.world, "run_in_worker", hold_erasure)
    while not slow:
        site.world.advance(0.1)
    site.ask("STREAM.PURGE.S", {"seq": 20})
    ((work, done),) = slow
    work()
    done(None)
    site.world.settle()
    assert not on_disk(site.disk, b"payload-3-end")
