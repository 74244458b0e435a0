"""A real server whose streams share a commit journal: power goes, content is erased, the server stops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.store.commit_journal import Entry, journals, read_batches
from millstream.store.fs import RealFileSystem
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller, files_of_running, read_of_running
from tests.kits.wire import WireClient

STREAMS = 40


@contextmanager
def running(tmp_path: Path, erase_within: str = "1h") -> Iterator[ServerProcess]:
    server = ServerProcess(
        ServerKind.MILLSTREAM,
        jetstream=True,
        store_dir=tmp_path / "store",
        config=f'millstream {{ erase_within: "{erase_within}" }}',
    )
    with server:
        yield server


def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "jetstream"


def payload(stream: int, number: int) -> bytes:
    return b"SECRET-%03d-%06d" % (stream, number)


class Crowd:
    """Publishes to all streams at once, and knows what was acknowledged."""

    def __init__(self, caller: Caller, port: int) -> None:
        self.rounds = 0
        self._port = port
        for number in range(STREAMS):
            caller.create(f"S{number}")

    def publish(self) -> None:
        """One message to each stream; all of them are acknowledged when this returns."""
        self.rounds += 1
        with WireClient.connect(self._port, timeout_s=PATIENCE_S) as client:
            client.handshake()
            lines = [b"SUB acks 1\r\n"]
            for number in range(STREAMS):
                body = payload(number, self.rounds)
                lines.append(b"PUB S%d.x acks %d\r\n%b\r\n" % (number, len(body), body))
            client.send(b"".join(lines))
            for _ in range(STREAMS):
                assert b'"seq":%d' % self.rounds in client.read_frame()

    def check(self, caller: Caller) -> None:
        for stream in range(STREAMS):
            found = caller.read(f"S{stream}")
            expected = {number: payload(stream, number) for number in range(1, self.rounds + 1)}
            assert {seq: each.payload for seq, each in found.items()} == expected


def journal_entries(folder: Path) -> list[Entry]:
    fs = RealFileSystem()
    batches = [
        batch
        for number in journals(fs, str(folder))
        for batch in read_batches((folder / f"millstream-{number:010d}.journal").read_bytes())
    ]
    return [entry for _, entries in sorted(batches, key=lambda batch: batch[0]) for entry in entries]


def file_of(folder: Path, entry: Entry) -> Path:
    log = entry.key.partition(b"\0")[0].decode()
    return folder / log / f"{entry.segment:010d}.log"


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def publish_until_journaled(crowd: Crowd, folder: Path) -> list[Entry]:
    """Publish until a journal has something; returns what it has, which may be gone from there soon."""
    entries: list[Entry] = []

    def journaled() -> bool:
        nonlocal entries
        crowd.publish()
        entries = journal_entries(folder)
        return len(entries) > 0

    wait_for(journaled)
    return entries


@pytest.mark.parametrize("loss", ["end", "middle", "file"])
def test_what_the_files_of_streams_lost_is_there_after_a_start(tmp_path: Path, loss: str) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        crowd = Crowd(caller, server.port)
        publish_until_journaled(crowd, store(tmp_path))
        crowd.publish()
        server.kill()
        entries = reversed(journal_entries(store(tmp_path)))
        hurt = {file_of(store(tmp_path), entry): entry for entry in entries}  # with its first one
        for path, first in hurt.items():
            data = bytearray(path.read_bytes())
            if loss == "middle":  # the journal vouches for all of it
                data[first.base : first.base + len(first.data)] = bytes(len(first.data))
            elif loss == "file" and first.base == 0:
                path.unlink()
                continue
            else:
                del data[first.base :]
            path.write_bytes(data)
        server.start()
        with Caller(server.port) as again:
            crowd.check(again)
            crowd.publish()
            crowd.check(again)
        assert "lost" not in server.log


def test_a_deleted_message_is_in_no_file_when_the_delete_is_answered(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        crowd = Crowd(caller, server.port)
        entry = publish_until_journaled(crowd, store(tmp_path))[-1]
        stream = int(entry.key.split(b"/")[2][1:])
        answer = caller.ask(f"STREAM.MSG.DELETE.S{stream}", {"seq": crowd.rounds})
        assert answer["success"], answer
        gone = payload(stream, crowd.rounds)
        for path in files_of_running(store(tmp_path)):
            assert gone not in read_of_running(path), path
        crowd.publish()  # the stream goes on


def test_purged_messages_leave_the_journal_in_time(tmp_path: Path) -> None:
    with running(tmp_path, erase_within="1s") as server, Caller(server.port) as caller:
        crowd = Crowd(caller, server.port)
        publish_until_journaled(crowd, store(tmp_path))
        for number in range(STREAMS):
            assert caller.ask(f"STREAM.PURGE.S{number}")["success"]

        def is_clean() -> bool:
            return not any(b"SECRET" in read_of_running(path) for path in files_of_running(store(tmp_path)))

        wait_for(is_clean)


def version(tmp_path: Path) -> int:
    return int(json.loads((store(tmp_path) / "millstream.json").read_text())["version"])


@pytest.mark.parametrize("orderly", [True, False])
def test_a_store_with_a_journal_is_none_for_versions_without(tmp_path: Path, orderly: bool) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        crowd = Crowd(caller, server.port)
        assert version(tmp_path) == 1
        publish_until_journaled(crowd, store(tmp_path))
        assert version(tmp_path) == 2
        if orderly:
            server.stop()
            assert version(tmp_path) == 1
        else:
            server.kill()
            assert version(tmp_path) == 2
        server.start()
        assert version(tmp_path) == 1
        with Caller(server.port) as again:
            crowd.check(again)


def test_a_server_that_stops_leaves_no_journal(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        crowd = Crowd(caller, server.port)
        publish_until_journaled(crowd, store(tmp_path))
        server.stop()
        assert journals(RealFileSystem(), str(store(tmp_path))) == []
        server.start()
        with Caller(server.port) as again:
            crowd.check(again)


def test_a_stream_that_was_made_again_gets_nothing_of_the_one_before(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        crowd = Crowd(caller, server.port)
        publish_until_journaled(crowd, store(tmp_path))
        for number in range(STREAMS):
            assert caller.ask(f"STREAM.DELETE.S{number}")["success"]
            caller.create(f"S{number}")
        server.kill()
        server.start()
        with Caller(server.port) as again:
            for number in range(STREAMS):
                assert again.state(f"S{number}")["messages"] == 0
