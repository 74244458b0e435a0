"""Streams whose deletion failed: their folders may be elsewhere after a power loss."""

from __future__ import annotations

import json

import pytest

from millstream.store.errors import StoreError
from tests.kits.jetstream.stream import Disk, Site


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


def test_the_stream_can_be_deleted_when_the_disk_works_again(site: Site) -> None:
    heal(site)
    assert site.ask("STREAM.DELETE.S")["success"]
    assert not site.account.streams
