"""The ids of a stream are written to files, merged, read again and dropped."""

from __future__ import annotations

import errno
import json
import logging
from random import Random

import pytest

from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream import id_keeper
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.enums import RetentionPolicy, StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from tests.kits.crashfs import CrashFileSystem, Keep
from tests.kits.fake_world import FakeWorld

NS = 1_000_000_000
WINDOW_S = 1000
FOLDER = "store/streams/S/ids"


class Place:
    """A stream on a disk, and a server that may start again."""

    def __init__(self, ids_in_memory: int = 10, **config: object) -> None:
        self.ids_in_memory = ids_in_memory
        self.fs = CrashFileSystem()
        self.world = FakeWorld()
        self.account = self.open()
        settings = {"storage": StorageType.FILE, "duplicate_window": WINDOW_S * NS, **config}
        self.account.add(StreamConfig(name="S", subjects=["s.>"], **settings))  # type: ignore[arg-type]
        self.world.settle()

    def open(self) -> AccountJetStream:
        return self.world.account(fs=self.fs, resources=Resources(ids_in_memory=self.ids_in_memory))

    @property
    def stream(self) -> Stream:
        return self.account.streams["S"]

    def publish(self, message_id: str) -> dict[str, object]:
        block = headers.make((b"Nats-Msg-Id", message_id.encode()))
        self.world.send(b"s.a", b"x", reply=b"me", headers=block)
        self.world.settle()
        (answer,) = (json.loads(each.payload) for each in self.world.published if each.subject == b"me")
        self.world.published.clear()
        return answer  # type: ignore[no-any-return]

    def fill(self, first: int, end: int) -> None:
        for number in range(first, end):
            assert self.publish(f"id-{number}") == {"stream": "S", "seq": number}

    def check(self, first: int, end: int) -> None:
        for number in range(first, end):
            answer = {"stream": "S", "seq": number, "duplicate": True}
            assert self.publish(f"id-{number}") == answer

    def stop(self) -> None:
        self.account.stop()
        self.start(self.fs.crash(Keep.NOTHING, Random(1)))

    def kill(self) -> None:
        self.start(self.fs.kill())

    def start(self, fs: CrashFileSystem) -> None:
        self.fs = fs
        self.world = FakeWorld(self.world.time_ns)
        self.account = self.open()
        self.account.recover()
        self.world.settle()

    def files(self) -> list[str]:
        return self.fs.list(FOLDER)

    @property
    def in_memory(self) -> int:
        return self.stream.dedupe.recent.held()


def test_ids_beyond_those_in_memory_are_in_files() -> None:
    place = Place()
    place.fill(1, 36)
    assert len(place.files()) == 3
    assert place.in_memory == 5
    assert place.stream.dedupe.older is None
    place.check(1, 36)
    assert len(place.stream.dedupe) == 35


def test_files_are_merged() -> None:
    place = Place()
    place.fill(1, 82)
    assert place.files() == ["0000000001-0000000008.ids"]
    place.fill(82, 200)
    assert len(place.files()) <= id_keeper._MERGED_AT_ONCE
    place.check(1, 200)


@pytest.mark.parametrize("orderly", [True, False])
def test_a_start_reads_only_messages_whose_ids_are_in_no_file(
    orderly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()
    place.fill(1, 36)
    if orderly:  # and then another process
        place.ids_in_memory = 5
        place.stream.dedupe.least = 5
        place.stop()
    else:
        place.kill()
    assert place.in_memory == (0 if orderly else 5)
    assert len(place.files()) == (4 if orderly else 3)
    place.check(1, 36)
    place.fill(36, 60)
    place.check(1, 60)


def test_few_ids_are_not_worth_a_file_at_the_end() -> None:
    place = Place()
    place.fill(1, 9)
    place.stop()
    assert place.files() == []
    assert place.in_memory == 8
    place.check(1, 9)


def test_a_store_without_files_of_ids_gets_some_at_the_start() -> None:
    place = Place(ids_in_memory=1000)
    place.fill(1, 36)
    place.ids_in_memory = 10
    place.kill()
    assert len(place.files()) == 3
    assert place.in_memory == 5
    place.check(1, 36)


def test_a_file_goes_when_its_newest_id_is_too_old() -> None:
    place = Place()
    place.fill(1, 11)
    place.world.advance(WINDOW_S / 2)
    place.fill(11, 21)
    assert len(place.files()) == 2
    place.world.advance(WINDOW_S / 2 + 1)
    assert len(place.files()) == 1
    assert place.publish("id-1") == {"stream": "S", "seq": 21}
    place.check(11, 21)
    place.world.advance(WINDOW_S)
    assert place.files() == []
    assert place.world.timers < 10


def test_files_that_are_too_old_go_at_a_start() -> None:
    place = Place()
    place.fill(1, 31)
    place.world.time_ns += 2 * WINDOW_S * NS
    place.kill()
    assert place.files() == []
    assert place.publish("id-1") == {"stream": "S", "seq": 31}


def test_a_shorter_window_drops_files_and_a_longer_one_reads_messages_at_a_start() -> None:
    place = Place()
    place.fill(1, 31)
    place.world.time_ns += 100 * NS
    stream = place.stream
    config = stream.config
    short = StreamConfig(name="S", subjects=["s.>"], storage=StorageType.FILE, duplicate_window=50 * NS)
    place.account.update(stream, short)
    place.world.settle()
    assert place.files() == []
    assert place.publish("id-1") == {"stream": "S", "seq": 31}
    place.account.update(stream, config)
    place.world.settle()
    place.kill()
    place.check(2, 31)


def test_ids_of_removed_messages_are_known() -> None:
    place = Place()
    place.fill(1, 31)
    place.stream.log.remove_below(31)
    place.account.committer.dirty(place.stream)
    place.world.settle()
    place.check(1, 31)
    place.kill()
    place.check(1, 31)  # nats-server forgets them


def test_no_id_of_a_message_that_is_not_durable_is_written() -> None:
    place = Place()
    for number in range(1, 40):
        block = headers.make((b"Nats-Msg-Id", b"id-%d" % number))
        place.world.send(b"s.a", b"x", headers=block)
    assert place.files() == []
    place.start(place.fs.crash(Keep.NOTHING, Random(1)))
    assert place.publish("id-7") == {"stream": "S", "seq": 1}


def test_messages_that_no_consumer_wants_count() -> None:
    place = Place(retention=RetentionPolicy.INTEREST)
    place.fill(1, 31)
    assert place.stream.log.messages == 0
    assert len(place.files()) == 3
    place.check(1, 31)
    place.kill()
    place.check(1, 31)


def test_a_stream_in_memory_writes_nothing() -> None:
    place = Place(storage=StorageType.MEMORY)
    place.fill(1, 100)
    assert place.in_memory == 99
    place.check(1, 100)
    place.account.stop()
    assert place.fs.list("store/streams") == []


def test_a_stream_without_a_window_keeps_few_ids() -> None:
    place = Place(ids_in_memory=1000)
    dedupe = place.stream.dedupe
    dedupe.window_ns = 0
    for seq in range(1, 1000):
        dedupe.add(b"id-%d" % seq, seq, seq * NS)
    assert dedupe.recent.held() == 120
    assert dedupe.id_of(999) == b"id-999"


def test_a_deleted_stream_leaves_no_file() -> None:
    place = Place()
    place.fill(1, 60)
    place.account.delete(place.stream)
    place.world.settle()
    assert place.fs.list("store/streams") == []
    assert place.fs.list("store/deleted") == []


def test_the_last_id_is_known_after_a_start() -> None:
    place = Place()
    place.fill(1, 11)
    place.kill()
    assert place.in_memory == 0
    assert place.stream.dedupe.id_of(10) == b"id-10"


# -- trouble ------------------------------------------------------------------------------------------


def test_while_the_disk_is_full_ids_stay_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.fs.fail(errno.ENOSPC, suffix=".ids.new")
    place.fill(1, 36)
    assert place.files() == []
    assert "stream S: ids are not written" in caplog.text
    place.check(1, 36)
    place.fs.heal()
    place.world.advance(id_keeper._RETRY_S)
    assert len(place.files()) == 1
    place.fill(36, 40)
    assert len(place.files()) == 2
    place.check(1, 40)
    place.kill()
    place.check(1, 40)


@pytest.mark.parametrize("at", [-1, -1000])
def test_a_damaged_file_is_reported_and_made_again_from_the_messages(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(ids_in_memory=20)
    place.fill(1, 61)
    name = place.files()[1]
    damage(place, name, at if at == -1 else 20 * 32 + 3)
    place.kill()
    assert "ids of messages are read from the messages again" in caplog.text
    assert name in caplog.text
    assert name not in place.files()
    place.check(1, 61)
    place.kill()
    place.check(1, 61)


def test_messages_that_may_be_duplicates_are_refused_until_the_damage_is_mended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place(ids_in_memory=20)
    place.fill(1, 41)
    damage(place, place.files()[0], 40)
    block = headers.make((b"Nats-Msg-Id", b"id-7"))
    place.world.send(b"s.a", b"x", reply=b"me", headers=block)
    (answer,) = (json.loads(each.payload) for each in place.world.published if each.subject == b"me")
    assert answer["error"]["err_code"] == 10077
    assert place.stream.log.last_seq == 40
    place.world.settle()
    place.world.published.clear()
    place.check(1, 41)
    assert "20 ids were read again" in caplog.text
    assert place.publish("new") == {"stream": "S", "seq": 41}


def test_damage_that_a_merge_finds_is_mended(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.fill(1, 61)
    damage(place, place.files()[2], 5)
    place.fill(61, 81)
    place.world.settle()
    place.world.advance(id_keeper._RETRY_S)
    assert place.files() == ["0000000001-0000000008.ids"]
    place.check(1, 81)


def test_many_damaged_parts_are_read_again_together(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(ids_in_memory=500)
    place.fill(1, 501)
    (name,) = place.files()
    for at in range(0, 500 * 32, 32 * 10):
        damage(place, name, at)
    passes: list[int] = []
    ids_between = id_keeper.ids_between

    def counted(stream: Stream, first: int, last: int) -> object:
        passes.append(first)
        return ids_between(stream, first, last)

    monkeypatch.setattr(id_keeper, "ids_between", counted)
    for number in range(1, 501):
        block = headers.make((b"Nats-Msg-Id", b"id-%d" % number))
        place.world.send(b"s.a", b"x", reply=b"me", headers=block)
    place.world.settle()
    place.world.published.clear()
    assert len(passes) <= 2
    place.check(1, 501)
    assert len(passes) <= 2


def damage(place: Place, name: str, at: int) -> None:
    """Change a byte of a file."""
    file = place.fs.open(f"{FOLDER}/{name}", create=False)
    at = at if at >= 0 else file.size() + at
    file.overwrite(at, bytes([file.read(at, 1)[0] ^ 1]))


def test_files_stop_being_written_when_the_stream_stops() -> None:
    place = Place()
    for number in range(1, 11):
        block = headers.make((b"Nats-Msg-Id", b"id-%d" % number))
        place.world.send(b"s.a", b"x", headers=block)
    place.world.settle_once()  # the commit has begun
    place.world.settle_once()
    place.account.stop()
    place.start(place.fs.crash(Keep.NOTHING, Random(1)))
    place.check(1, 11)


def test_logging_names_no_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    place = Place()
    place.fill(1, 40)
    assert "id-1" not in caplog.text
