"""Publishing to a stream whose older messages cannot be read now."""

from __future__ import annotations

import pytest

from millstream.base.slices import finish
from millstream.jetstream.stream.stream import Stream
from millstream.store.errors import StoreError
from millstream.store.fs import File
from millstream.store.layout import layout
from tests.kits.jetstream.stream import Disk, Site

pytestmark = pytest.mark.compiled

LARGE = bytes(11 * 1024 * 1024)  # three of them fill a segment
SEGMENTS = 4


class BadDisk(Disk):
    """A disk on which, while `broken`, only files that are open already can be read."""

    broken = False

    def open(self, path: str, *, create: bool) -> File:
        if not create:
            self._check(path)
        return super().open(path, create=create)

    def read_all(self, path: str) -> bytes:
        self._check(path)
        return super().read_all(path)

    def _check(self, path: str) -> None:
        if self.broken:
            raise StoreError("read", path, "Input/output error", recoverable=True)


def opened(**config: object) -> tuple[Site, BadDisk, Stream]:
    """A stream with messages on `s.0` to `s.2` in each of its segments, the tables of the last in memory."""
    disk = BadDisk()
    site = Site(disk=disk)
    site.create(**config)
    for number in range(3 * SEGMENTS):
        assert "error" not in site.publish(f"s.{number % 3}", LARGE)
    stream = site.account.streams["S"]
    assert len(layout(stream.log)) >= SEGMENTS
    unload(stream)
    return site, disk, stream


def unload(stream: Stream) -> None:
    for _ in range(2):  # what was not used since the first time
        finish(stream.log.rest())
    assert not any(file.loaded for file in layout(stream.log)[:-1])


@pytest.mark.parametrize("header", [{}, {"Nats_Expected_Stream": "S"}], ids=["short way", "long way"])
def test_who_publishes_is_answered_although_room_cannot_be_made(header: dict[str, str]) -> None:
    site, disk, stream = opened(max_msgs=3 * SEGMENTS)
    disk.broken = True
    assert site.publish("s.0", **header) == {"stream": "S", "seq": 3 * SEGMENTS + 1}
    assert stream.log.messages == 3 * SEGMENTS + 1
    disk.broken = False
    assert site.publish("s.0", **header) == {"stream": "S", "seq": 3 * SEGMENTS + 2}
    assert stream.log.messages == 3 * SEGMENTS
    assert stream.log.first_seq == 3


def test_a_rollup_is_stored_although_not_everything_can_go() -> None:
    site, disk, stream = opened(allow_rollup_hdrs=True)
    disk.broken = True
    assert site.publish("s.0", Nats_Rollup="all") == {"stream": "S", "seq": 3 * SEGMENTS + 1}
    assert stream.log.messages > 1
    disk.broken = False
    assert site.publish("s.0", Nats_Rollup="all") == {"stream": "S", "seq": 3 * SEGMENTS + 2}
    assert stream.log.messages == 1


def test_a_message_that_cannot_be_checked_is_refused_and_not_stored() -> None:
    site, disk, stream = opened()
    assert stream.log.remove(stream.log.last_of(b"s.1"))  # which is the last one now has to be looked for
    for _ in range(3):
        assert "error" not in site.publish("s.0", LARGE)
    unload(stream)
    disk.broken = True
    before = stream.log.last_seq
    status, number, text = site.refusal("s.1", Nats_Expected_Last_Subject_Sequence="8")
    assert (status, number) == (503, 10077)
    assert "Input/output error" in text
    assert stream.log.last_seq == before


def test_an_acknowledged_message_leaves_a_work_queue_when_the_disk_can_be_read_again() -> None:
    site, disk, stream = opened(retention="workqueue")
    config = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}
    site.ask("CONSUMER.DURABLE.CREATE.S.c", config)
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"batch": 1}', reply=b"me")
    site.world.settle()
    (delivery,) = site.sent(b"me")
    unload(stream)
    disk.broken = True
    site.world.send(delivery.reply, b"+ACK")
    site.world.settle()
    disk.broken = False
    assert stream.log.messages == 3 * SEGMENTS
    site.world.advance(10)
    assert stream.log.messages == 3 * SEGMENTS - 1
