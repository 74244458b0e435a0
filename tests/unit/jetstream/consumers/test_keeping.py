"""Changes that a consumer writes to the journal while other things happen."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFileSystem
from tests.kits.fake_world import FakeWorld

SECOND = 1_000_000_000


class Site:
    """A stream on a disk that outlives the server."""

    def __init__(self, disk: MemoryFileSystem | None = None) -> None:
        self.disk = disk or MemoryFileSystem()
        self.world = FakeWorld()
        self.account = self.world.account(fs=self.disk)

    def add_stream(self, *, max_msgs: int = -1, storage: StorageType = StorageType.FILE) -> Stream:
        return self.account.add(
            StreamConfig(
                name="S",
                subjects=["a", "b", "c"],
                storage=storage,
                max_msgs=max_msgs,
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

    def add_consumer(self, name: str, **fields: Any) -> None:
        config = ConsumerConfig(
            durable_name=name,
            name=name,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=30 * SECOND,
            max_deliver=-1,
            max_ack_pending=1000,
            max_waiting=512,
            **fields,
        )
        self.stream.consumers.add(config, name)
        self.world.settle()

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.world.send(b"a", b"x")
        self.world.settle()

    def take(self, name: str, count: int) -> list[bytes]:
        """Ack subjects of what came."""
        self.world.settle()
        self.world.delivered.clear()
        body = b'{"batch":%d,"no_wait":true}' % count
        self.world.send(b"$JS.API.CONSUMER.MSG.NEXT.S." + name.encode(), body, reply=b"_INBOX.me")
        self.world.settle()
        return [each.reply for each in self.world.delivered]

    def killed(self) -> Site:
        """Return the site as the next server recovers it."""
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
    """Takes nothing for `what` while it is `full`, which ends by itself after many tries."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.full = False
        self.tries = 0

    def open(self, path: str, *, create: bool):  # type: ignore[no-untyped-def]
        file = super().open(path, create=create)
        disk, append = self, file.append

        def append_or_fail(data: bytes | memoryview) -> None:
            if disk.full and f"/{disk.what}/" in path:
                disk.tries += 1
                disk.full = disk.tries < 100
                raise StoreError("write", path, "No space left on device", recoverable=True)
            append(data)

        file.append = append_or_fail  # type: ignore[method-assign]
        return file


def test_a_full_disk_is_not_tried_again_without_a_pause_for_messages_that_may_not_go_out() -> None:
    disk = FullDisk("consumers")
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


def sequences(replies: list[bytes]) -> list[int]:
    return [int(reply.split(b".")[5]) for reply in replies]


def test_a_place_behind_messages_that_a_crash_took_is_not_kept() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream()
    disk.full = True
    site.publish(3)
    site.add_consumer("C", deliver_policy=DeliverPolicy.NEW)
    disk.full = False
    again = site.killed()
    again.publish(2)
    assert sequences(again.take("C", 5)) == [1, 2]


def was_confirmed(site: Site) -> bool:
    return any(each.subject == b"_INBOX.confirmed" for each in site.world.published)


def test_a_message_that_a_failed_commit_displaced_is_delivered_when_it_is_there_again() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream(max_msgs=2)
    site.add_consumer("C")
    site.publish(2)
    disk.full = True
    site.publish(1)
    replies = site.take("C", 5)
    assert sequences(replies) == [2]
    site.world.send(replies[0], b"+ACK", reply=b"_INBOX.confirmed")
    site.world.settle()
    assert not was_confirmed(site)  # the consumer's state would be ahead of the stream's
    again = site.killed()
    assert sequences(again.take("C", 5)) == [1, 2]


def test_an_ack_behind_displaced_messages_is_confirmed_when_they_are_gone_for_good() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream(max_msgs=2)
    site.add_consumer("C")
    site.publish(2)
    disk.full = True
    site.publish(1)
    replies = site.take("C", 5)
    site.world.send(replies[0], b"+ACK", reply=b"_INBOX.confirmed")
    disk.full = False
    site.world.advance(2)
    assert was_confirmed(site)
    assert sequences(site.killed().take("C", 5)) == [3]


def test_a_pending_message_that_a_failed_commit_displaced_stays_pending() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream(max_msgs=2)
    site.add_consumer("C")
    site.publish(2)
    replies = site.take("C", 2)
    disk.full = True
    site.publish(1)
    site.world.send(replies[0], b"-NAK")
    site.world.send(replies[1], b"-NAK")
    site.take("C", 5)
    assert 1 in site.stream.consumers["C"].ledger.pending
    disk.full = False
    site.world.advance(2)
    assert 1 not in site.stream.consumers["C"].ledger.pending


READER = ConsumerConfig(name="R", deliver_subject="d", max_deliver=1, mem_storage=True)


def add_reader(site: Site, name: str = "R", **fields: Any) -> None:
    """Add the consumer of an ordered reader, which remembers itself what it has got."""
    site.stream.consumers.add(msgspec.structs.replace(READER, name=name, **fields), name)
    site.world.settle()


def read(site: Site) -> list[int]:
    return sequences([each.reply for each in site.world.delivered if each.reply.split(b".")[3] == b"R"])


def test_a_reader_does_not_pass_a_message_whose_removal_a_power_cut_takes_back() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream()
    site.publish(3)
    disk.full = True
    site.stream.log.remove(1)
    site.account.committer.dirty(site.stream)
    add_reader(site)
    assert read(site) == []
    again = site.killed()
    add_reader(again)
    assert read(again) == [1, 2, 3]


def test_a_reader_does_not_pass_purged_messages_that_a_power_cut_takes_back() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream()
    add_reader(site, "other", deliver_subject="other")
    site.publish(3)
    disk.full = True
    site.stream.purge(None, 2, 0)
    add_reader(site)
    assert read(site) == []
    disk.full = False
    site.world.advance(2)
    assert read(site) == [2, 3]


def test_a_reader_goes_on_when_the_messages_that_it_passes_are_gone_for_good() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream(max_msgs=2)
    site.publish(2)
    disk.full = True
    site.publish(1)
    add_reader(site)
    assert read(site) == []
    disk.full = False
    site.world.advance(2)
    assert read(site) == [2, 3]


def test_a_reader_goes_on_although_every_message_displaces_another() -> None:
    site = Site()
    site.add_stream(max_msgs=8)
    site.publish(8)
    site.world.send(b"a", b"x")
    site.stream.consumers.add(READER, "R")
    for _ in range(20):  # with each commit under way, the next one has removals already
        site.world.settle_once()
        site.world.send(b"a", b"x")
        assert site.stream.log.gone
    assert len(read(site)) > 10


def test_a_reader_of_a_stream_in_memory_waits_for_nothing() -> None:
    site = Site()
    site.add_stream(storage=StorageType.MEMORY)
    site.publish(3)
    site.stream.log.remove(1)
    site.stream.consumers.add(READER, "R")
    site.stream.consumers["R"].pump()
    assert read(site) == [2, 3]


def test_a_reader_that_is_deleted_while_it_waits_is_forgotten() -> None:
    disk = FullDisk("log")
    site = Site(disk)
    site.add_stream()
    site.publish(3)
    disk.full = True
    site.stream.log.remove(1)
    site.account.committer.dirty(site.stream)
    add_reader(site)
    site.stream.consumers["R"].delete()
    disk.full = False
    site.world.advance(2)
    assert read(site) == []
    add_reader(site)
    assert read(site) == [2, 3]


def test_the_last_messages_of_each_subject_are_gone_on_with_after_a_restart() -> None:
    site = Site()
    site.add_stream()
    for subject in (b"a", b"b", b"c", b"b", b"c"):
        site.world.send(subject, b"x")
    site.world.settle()
    site.add_consumer("C", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject=">")
    assert sequences(site.take("C", 1)) == [1]
    site.world.advance(1)
    for subject in (b"b", b"b"):
        site.world.send(subject, b"x")
    site.world.settle()
    again = site.killed()
    assert again.stream.consumers["C"].info().num_pending == 4
    assert sequences(again.take("C", 9)) == [4, 5, 6, 7]


def test_the_last_message_of_a_subject_is_delivered_also_if_it_is_not_on_disk_yet() -> None:
    site = Site()
    site.add_stream()
    site.publish(1)
    site.world.send(b"a", b"x")
    site.stream.consumers.add(
        ConsumerConfig(
            name="C",
            deliver_subject="d",
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
            filter_subject="a",
            max_deliver=-1,
            mem_storage=True,
        ),
        "C",
    )
    site.stream.consumers["C"].pump()
    assert site.world.delivered == []
    site.publish(1)
    assert sequences([each.reply for each in site.world.delivered]) == [2, 3]


def test_other_subjects_do_not_take_back_what_the_last_of_each_subject_was() -> None:
    site = Site()
    site.add_stream()
    for subject in (b"a", b"b", b"c", b"a", b"b", b"c"):
        site.world.send(subject, b"x")
    site.world.settle()
    site.add_consumer("C", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject=">")
    assert sequences(site.take("C", 1)) == [4]
    consumer = site.stream.consumers["C"]
    consumer.update(msgspec.structs.replace(consumer.config, filter_subject="c"))
    site.world.advance(1)
    site.world.send(b"c", b"x")
    site.world.send(b"b", b"x")
    assert sequences(site.take("C", 9)) == [6, 7]
    assert consumer.reset(None) == 4
    assert sequences(site.take("C", 9)) == [6, 7]
