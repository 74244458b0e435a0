"""Streams whose deletion failed: their folders may be elsewhere after a power loss."""

from __future__ import annotations

import json

import pytest

from millstream.jetstream.stream import meta
from millstream.store.errors import StoreError
from tests.kits.jetstream.stream import Disk, Site

FOLDER = "store/streams/S"


class FailingDisk(Disk):
    """A disk on which no folder can be synced while `failing`."""

    failing = False

    def sync_folder(self, path: str) -> None:
        if self.failing:
            raise StoreError("sync", path, "Input/output error", recoverable=True)
        super().sync_folder(path)


@pytest.fixture
def site() -> Site:
    """Return a stream whose deletion has failed, on a disk that still fails."""
    site = Site(disk=FailingDisk())
    site.create()
    site.publish("s.a")
    site.disk.failing = True  # type: ignore[attr-defined]
    assert "error" in site.ask("STREAM.DELETE.S")
    return site


def heal(site: Site) -> None:
    site.disk.failing = False  # type: ignore[attr-defined]
    site.world.advance(1)


def test_nothing_is_acknowledged_until_the_place_of_the_folder_is_durable(site: Site) -> None:
    site.world.send(b"s.a", b"next", reply=b"me")
    site.world.advance(3)
    assert not site.sent(b"me")
    heal(site)
    assert json.loads(site.sent(b"me")[0].payload)["seq"] == 2


def test_nobody_is_told_of_the_stream_until_its_place_is_durable(site: Site) -> None:
    config = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()
    site.world.send(b"$JS.API.STREAM.CREATE.S", config, reply=b"me")
    site.world.advance(3)
    assert not site.sent(b"me")
    heal(site)
    assert "error" not in json.loads(site.sent(b"me")[0].payload)


def test_nobody_is_told_of_a_stream_that_cannot_be_written_either(site: Site) -> None:
    """Publishers are told why at once; a request about the stream waits for its place."""
    site.disk.full = True
    site.account.streams["S"].commit_failed(StoreError("write", "x", "No space left", recoverable=True))
    config = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()
    other = json.dumps({"name": "S", "subjects": ["s.*"]}).encode()
    site.world.send(b"$JS.API.STREAM.CREATE.S", config, reply=b"create")
    site.world.send(b"$JS.API.STREAM.CREATE.S", other, reply=b"other")
    site.world.send(b"$JS.API.STREAM.INFO.S", b"", reply=b"info")
    site.world.advance(3)
    assert not site.sent(b"create")
    assert not site.sent(b"other")
    assert not site.sent(b"info")
    heal(site)
    assert "error" not in json.loads(site.sent(b"create")[0].payload)
    assert "error" not in json.loads(site.sent(b"info")[0].payload)
    assert json.loads(site.sent(b"other")[0].payload)["error"]["err_code"] == 10058


def test_the_stream_can_be_deleted_when_the_disk_works_again(site: Site) -> None:
    heal(site)
    assert site.ask("STREAM.DELETE.S")["success"]
    assert not site.account.streams


class TestAFolderThatHasFilesOfOthers:
    """It stays where it is, and only its configuration is renamed."""

    @pytest.fixture
    def site(self) -> Site:
        site = Site(disk=FailingDisk())
        site.create()
        site.publish("s.a")
        site.disk.replace(f"{FOLDER}/notes.txt", b"not ours")
        return site

    def test_a_failed_deletion_leaves_the_configuration(self, site: Site) -> None:
        site.disk.failing = True  # type: ignore[attr-defined]
        assert "error" in site.ask("STREAM.DELETE.S")
        assert "meta.json" in site.disk.list(FOLDER)
        site.world.send(b"s.a", b"next", reply=b"me")
        site.world.advance(3)
        assert not site.sent(b"me")
        heal(site)
        assert json.loads(site.sent(b"me")[0].payload)["seq"] == 2
        assert site.restarted().state()["last_seq"] == 2

    def test_a_deletion_that_is_cut_short_is_finished_by_the_next_start(self, site: Site) -> None:
        meta.withdraw(site.disk, FOLDER)
        again = site.restarted()
        assert not again.account.streams
        assert not again.account.unrecovered
        again.world.settle()
        assert site.disk.list(FOLDER) == ["notes.txt"]

    def test_a_deletion_leaves_what_is_not_ours(self, site: Site) -> None:
        assert site.ask("STREAM.DELETE.S")["success"]
        assert site.disk.list(FOLDER) == ["notes.txt"]
