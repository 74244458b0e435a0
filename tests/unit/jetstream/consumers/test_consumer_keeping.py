"""What a consumer tells the journal when other things happen at the same time."""

from __future__ import annotations

from millrace.jetstream.stream import Stream
from millrace.jsapi.consumer_types import ConsumerConfig
from millrace.jsapi.enums import AckPolicy
from millrace.jsapi.stream_types import StreamConfig
from millrace.store.errors import StoreError
from millrace.store.fs import MemoryFileSystem
from millrace.testing.fake_world import FakeWorld

SECOND = 1_000_000_000


class Site:
    """A stream on a disk that outlives the server."""

    def __init__(self, disk: MemoryFileSystem | None = None) -> None:
        self.disk = disk or MemoryFileSystem()
        self.world = FakeWorld()
        self.account = self.world.account(fs=self.disk)

    def add_stream(self) -> Stream:
        return self.account.add(
            StreamConfig(
                name="S",
                subjects=["a"],
                max_msgs=-1,
                max_bytes=-1,
                max_msgs_per_subject=-1,
                max_msg_size=-1,
                max_consumers=-1,
                duplicate_window=120 * SECOND,
            )
        )

    @property
    def stream(self) -> Stream:
        return self.account.streams["S"]

    def add_consumer(self, name: str) -> None:
        config = ConsumerConfig(
            durable_name=name,
            name=name,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=30 * SECOND,
            max_deliver=-1,
            max_ack_pending=1000,
            max_waiting=512,
        )
        self.stream.consumers.add(config, name)
        self.world.settle()

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.world.send(b"a", b"x")
        self.world.settle()

    def take(self, name: str, count: int) -> list[bytes]:
        """Ack subjects of what came."""
        self.world.delivered.clear()
        body = b'{"batch":%d,"no_wait":true}' % count
        self.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S." + name.encode(), body, reply=b"_INBOX.me")
        self.world.settle()
        return [each.reply for each in self.world.delivered]

    def killed(self) -> Site:
        """What the next server finds."""
        site = Site(self.disk)
        site.account.recover()
        return site


def test_an_ack_just_before_its_consumer_is_deleted_does_not_keep_others_from_being_written() -> None:
    site = Site()
    site.add_stream()
    for name in ("C", "D"):
        site.add_consumer(name)
    site.publish(2)
    going, staying = site.take("C", 2), site.take("D", 2)
    site.world.advance(1)
    site.world.send(going[0], b"+ACK")
    site.world.send(staying[0], b"+ACK")
    site.stream.consumers["C"].delete()
    site.world.settle()
    site.world.advance(1)
    again = site.killed()
    assert list(again.stream.consumers) == ["D"]
    assert list(again.stream.consumers["D"].ledger.pending) == [2]


def test_what_a_deleted_consumer_did_last_is_not_told_of_the_next_with_its_name() -> None:
    site = Site()
    site.add_stream()
    site.add_consumer("C")
    site.publish(2)
    replies = site.take("C", 2)
    site.world.advance(1)
    site.world.send(replies[0], b"+ACK")
    site.stream.consumers["C"].delete()
    site.add_consumer("C")
    site.world.advance(1)
    ledger = site.killed().stream.consumers["C"].ledger
    assert (ledger.delivered_sseq, ledger.floor_sseq, list(ledger.pending)) == (0, 0, [])


def test_an_ack_just_before_its_stream_is_deleted_writes_nothing_any_more() -> None:
    site = Site()
    site.add_stream()
    site.add_consumer("C")
    site.publish(2)
    replies = site.take("C", 2)
    site.world.advance(1)
    journal = site.stream.consumers.journal
    assert journal is not None
    site.world.send(replies[0], b"+ACK")
    site.account.delete(site.stream)
    last = journal.log.last_seq
    site.world.settle()
    site.world.advance(1)
    assert journal.log.last_seq == last


class FullDisk(MemoryFileSystem):
    """Takes nothing for consumers while it is `full`, which ends by itself after many tries."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.tries = 0

    def open(self, path: str, *, create: bool):  # type: ignore[no-untyped-def]
        file = super().open(path, create=create)
        disk, append = self, file.append

        def append_or_fail(data: bytes | memoryview) -> None:
            if disk.full and "/consumers/" in path:
                disk.tries += 1
                disk.full = disk.tries < 100
                raise StoreError("write", path, "No space left on device", recoverable=True)
            append(data)

        file.append = append_or_fail  # type: ignore[method-assign]
        return file


def test_a_full_disk_is_not_tried_again_without_a_pause_for_messages_that_may_not_go_out() -> None:
    disk = FullDisk()
    site = Site(disk)
    site.add_stream()
    site.add_consumer("C")
    site.stream.consumers["C"].delivery.max_pending = 0
    site.publish(2000)
    disk.full = True
    first = len(site.take("C", 2000))
    site.world.advance(2.5)
    assert disk.tries < 10
    assert 0 < first == len(site.world.delivered)
    disk.full = False
    site.world.advance(2)
    site.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"2000", reply=b"_INBOX.me")
    site.world.settle()
    assert len(site.world.delivered) == 2000
