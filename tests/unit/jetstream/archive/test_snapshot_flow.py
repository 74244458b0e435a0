"""A snapshot on its way out: chunks, acks, and the ways it can end."""

import json
from typing import Any

import pytest

from millstream.jetstream.api import AccountApi
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.codec import decode_lenient
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.fs import FileSystem, MemoryFileSystem
from millstream.store.layout import layout, place_of
from tests.kits.fake_world import FakeWorld, Published
from tests.kits.jetstream.archive import END, entries_of
from tests.kits.jetstream.stream import Disk

HERE = b"here"


class Site:
    """An account with one stream, and somebody who takes snapshots of it."""

    def __init__(
        self, messages: int = 0, size: int = 100, fs: FileSystem | None = None, **config: Any
    ) -> None:
        self.world = FakeWorld()
        self.fs = fs or MemoryFileSystem()
        self.account = self.world.account(fs=self.fs)
        self.api = AccountApi(self.account, "server", "2.15.1")
        self.api.start()
        text = json.dumps({"name": "S", "subjects": ["a.>"], **config}).encode()
        assert b"error" not in self.world.request(b"$JS.API.STREAM.CREATE.S", text)
        for number in range(messages):
            self.world.send(b"a.%d" % (number % 5), b"%d " % number + noise(number, size))
        self.world.settle()
        self.world.published.clear()

    @property
    def stream(self) -> Stream:
        return self.account.streams["S"]

    def ask(self, **request: Any) -> dict[str, Any]:
        body = json.dumps({"deliver_subject": "here", **request}).encode()
        self.world.send(b"$JS.API.STREAM.SNAPSHOT.S", body, reply=b"_INBOX.asked")
        self.world.settle()
        [answer] = [each for each in self.world.published if each.subject == b"_INBOX.asked"]
        self.world.published.remove(answer)
        found: dict[str, Any] = json.loads(answer.payload)
        return found

    def came(self) -> list[Published]:
        found = [each for each in self.world.published if each.subject == HERE]
        self.world.published = [each for each in self.world.published if each.subject != HERE]
        return found

    def take(self, **request: Any) -> bytes:
        """All of a snapshot, with an ack for every chunk."""
        self.ask(**request)
        parts: list[bytes] = []
        while True:
            came = self.came()
            assert came, "nothing comes any more"
            for each in came:
                parts.append(each.payload)
                if not each.payload:
                    return b"".join(parts)
                if each.reply:
                    self.world.send(each.reply)
            self.world.settle()

    def bodies(self, data: bytes) -> list[tuple[int, bytes]]:
        return [(each.seq, each.body) for each in entries_of(data) if each.seq]


def noise(seed: int, size: int) -> bytes:
    """Bytes that cannot be packed."""
    out = bytearray()
    value = seed * 2654435761 + 12345
    for _ in range(size):
        value = (value * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(value >> 56)
    return bytes(out)


def test_a_small_one_is_one_chunk_without_reply_and_an_empty_message_without_header() -> None:
    site = Site(messages=3)
    answer = site.ask()
    assert answer["state"]["messages"] == 3
    assert answer["config"]["name"] == "S"
    chunk, end = site.came()
    assert (chunk.reply, chunk.headers) == (b"", b"")
    assert end == Published(HERE, b"")
    names = [each.name for each in entries_of(chunk.payload)]
    assert names == [b"state.json", b"a.0", b"a.1", b"a.2", b""]
    assert entries_of(chunk.payload)[-1] == END


def test_full_chunks_are_numbered_and_wait_for_acks() -> None:
    site = Site(messages=100)
    site.ask(chunk_size=1024, window_size=3000)
    first = site.came()
    assert [len(each.payload) for each in first] == [1024, 1024]
    start = first[0].reply.rpartition(b".1024.1")[0]
    assert start.startswith(b"$JS.SNAPSHOT.ACK.S.")
    assert [each.reply for each in first] == [start + b".1024.1", start + b".1024.2"]
    site.world.send(first[0].reply)
    site.world.settle()
    assert [each.reply for each in site.came()] == [start + b".1024.3"]


def test_all_acks_bring_all_of_it_and_a_status_at_the_end() -> None:
    site = Site(messages=100)
    data = site.take(chunk_size=1024, window_size=1024)
    assert len(site.bodies(data)) == 100
    site.world.published.clear()
    site.ask(chunk_size=1024)
    assert site.came()[-1] == Published(HERE, b"", b"NATS/1.0 204\r\n\r\n")


@pytest.mark.parametrize(("asked", "given"), [(1, 1024), (5000, 5000), (2**30, 2**20)])
@pytest.mark.compiled
def test_the_size_of_chunks_is_bound(asked: int, given: int) -> None:
    site = Site(messages=40, size=32 * 1024)
    site.ask(chunk_size=asked, window_size=2**25)
    assert len(site.came()[0].payload) == given


def test_it_is_of_the_moment_it_was_asked_for() -> None:
    site = Site(messages=300, max_msgs_per_subject=60)
    body = json.dumps({"deliver_subject": "here", "chunk_size": 1024, "window_size": 1024}).encode()
    site.world.send(b"$JS.API.STREAM.SNAPSHOT.S", body, reply=b"_INBOX.asked")
    site.world.send(b"a.0", b"later")  # which removes the first
    site.stream.purge(None, 200, 0)
    site.world.settle()
    parts: list[bytes] = []
    while not parts or parts[-1]:
        for each in site.came():
            parts.append(each.payload)
            site.world.send(b"a.1", b"later still")
            if each.reply:
                site.world.send(each.reply)
        site.world.settle()
    found = site.bodies(b"".join(parts))
    assert [seq for seq, _ in found] == list(range(1, 301))
    assert site.stream.log.first_seq >= 200


def test_nobody_listening_for_acks_ends_it_after_five_seconds() -> None:
    site = Site(messages=100)
    site.world.heard.append(b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    site.ask(chunk_size=1024, window_size=1024)
    site.world.advance(4.9)
    assert len(site.came()) == 1
    site.world.advance(0.2)
    assert site.came() == [Published(HERE, b"", b"NATS/1.0 408 No Flow Response\r\n\r\n")]
    [told] = [json.loads(each.payload) for each in site.world.published]
    assert told["error"] == "no flow response"
    assert not any(file.held for file in layout(site.stream.log))


def test_an_ack_gives_five_more_seconds() -> None:
    site = Site(messages=100)
    site.ask(chunk_size=1024, window_size=1024)
    for _ in range(3):
        site.world.advance(4)
        [chunk] = site.came()
        site.world.send(chunk.reply)
        site.world.settle()
    assert len(site.came()) == 1


def test_nobody_listening_ends_it() -> None:
    site = Site(messages=100)
    site.ask(chunk_size=1024, window_size=1024)
    site.came()
    site.world.listen(HERE, ends=True)
    assert site.came() == [Published(HERE, b"", b"NATS/1.0 408 No Interest\r\n\r\n")]
    site.world.advance(10)
    assert site.came() == []


def test_whoever_listens_within_two_seconds_gets_it_then() -> None:
    site = Site(messages=3)
    site.world.listen(HERE, ends=True)
    site.ask()
    site.world.advance(1)
    assert site.came() == []
    site.world.listen(HERE)
    site.world.settle()
    assert len(site.came()) == 2
    site.world.advance(10)
    assert site.came() == []


def test_a_damaged_message_ends_it_and_is_known_as_lost_then() -> None:
    site = Site(messages=100)
    path = place_of(site.stream.log, 1).path
    site.fs.open(path, create=False).overwrite(2000, b"\xff\xff\xff\xff")
    site.ask()
    [end] = site.came()
    assert end.headers.startswith(b"NATS/1.0 500 ")
    assert b"damaged record" in end.headers
    assert site.stream.log.losses.messages == 1
    assert len(site.bodies(site.take())) == 99


def test_deleting_the_stream_ends_it() -> None:
    site = Site(messages=1000)
    site.ask(chunk_size=1024, window_size=1024)
    [chunk] = site.came()
    site.account.delete(site.stream)
    for _ in range(200):
        site.world.send(chunk.reply)
        site.world.settle()
        came = site.came()
        if not came[-1].payload:
            break
        [chunk] = came
    assert came[-1].headers.startswith(b"NATS/1.0 500 ")


def test_a_server_that_stops_ends_it() -> None:
    site = Site(messages=100)
    site.ask(chunk_size=1024, window_size=1024)
    site.came()
    site.api.stop()
    assert site.came() == [Published(HERE, b"", b"NATS/1.0 500 Server Shutdown\r\n\r\n")]
    assert not any(file.held for file in layout(site.stream.log))


def test_streams_in_memory_have_snapshots_too() -> None:
    site = Site(messages=20, storage="memory")
    assert len(site.bodies(site.take())) == 20


def test_consumers_come_first_and_can_be_left_out() -> None:
    site = Site(messages=3)
    create = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    site.world.request(b"$JS.API.CONSUMER.DURABLE.CREATE.S.C", json.dumps(create).encode())
    found = entries_of(site.take())
    assert [each.name for each in found[:2]] == [b"state.json", b"consumers/C"]
    assert json.loads(found[0].body)["consumer_count"] == 1
    assert json.loads(found[1].body)["state"] == {
        "delivered": {"consumer_seq": 0, "stream_seq": 0},
        "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
    }
    without = entries_of(site.take(no_consumers=True))
    assert [each.name for each in without[:2]] == [b"state.json", b"a.0"]
    assert json.loads(without[0].body)["consumer_count"] == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 10003),
        (b"{}", 10003),
        (b'{"deliver_subject":""}', 10015),
        (b'{"deliver_subject":"a.*"}', 10015),
        (b'{"deliver_subject":"a b"}', 10015),
        (b'{"deliver_subject":1}', 10025),
        (b'{"zork":1}', 10025),
    ],
)
def test_what_is_no_request_is_refused(body: bytes, code: int) -> None:
    site = Site()
    answer = json.loads(site.world.request(b"$JS.API.STREAM.SNAPSHOT.S", body))
    assert answer["error"]["err_code"] == code
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_snapshot_response"


def test_config_is_told_as_it_is_stored() -> None:
    site = Site(messages=1)
    answer = site.ask()
    stored = decode_lenient(json.dumps(answer["config"]).encode(), StreamConfig)
    assert stored.metadata == {"_nats.req.level": "0"}


def test_one_that_could_not_be_made_durable_is_refused() -> None:
    disk = Disk()
    site = Site(messages=1, fs=disk)
    disk.full = True
    site.world.send(b"a.1", b"not on disk")
    answer = site.ask()
    assert answer["error"]["err_code"] == 10064
    assert "No space left" in answer["error"]["description"]
    assert site.came() == []
    assert not any(file.held for file in layout(site.stream.log))
