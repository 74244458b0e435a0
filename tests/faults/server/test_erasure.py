"""A real server, and every byte below its store: what was removed, in whatever way, is not there any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.store.block_file import BlockFile, open_segment_file
from millstream.store.fs import RealFileSystem
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller, files_of_running, is_anything_deleted
from tests.kits.wire import WireClient

MANY = 40_000
NS = 1_000_000_000


@contextmanager
def running(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(
        ServerKind.MILLSTREAM,
        jetstream=True,
        store_dir=tmp_path / "store",
        config='millstream { erase_within: "1s" }',
    )
    with server:
        yield server


def secret(number: int) -> bytes:
    return b"SECRET-%06d-" % number + b"%03d" % (number % 997) * 50


def publish(server: ServerProcess, caller: Caller, stream: str, count: int, subjects: int) -> None:
    """Messages with payloads that can be recognised."""
    client = WireClient.connect(server.port, timeout_s=PATIENCE_S)
    with client:
        client.handshake()
        before = caller.state(stream)["last_seq"]
        for start in range(0, count, 1000):
            lines = []
            for number in range(start + 1, min(start + 1000, count) + 1):
                payload = secret(number)
                subject = b"%b.key-%d-name" % (stream.encode(), number % subjects)
                lines.append(b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload))
            client.round_trip(b"".join(lines))
    wait_for(lambda: caller.state(stream)["last_seq"] == before + count)


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def stored(server_store: Path) -> set[int]:
    """The numbers of all payloads that can be found in any file, compressed or not."""
    found: set[int] = set()
    for path in files_of_running(server_store):
        data = b""
        try:
            data = path.read_bytes()
            if path.suffix == ".log":
                file = open_segment_file(RealFileSystem(), str(path))
                if isinstance(file, BlockFile):
                    data += file.read(0, file.size())
                file.close()
        except OSError:
            continue  # it goes while we look
        parts = data.split(b"SECRET-")[1:]
        found.update(int(part[:6]) for part in parts if part[:6].isdigit())
    return found


def wait_until_only(store: Path, wanted: set[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = stored(store)
        except Exception:  # a file is exchanged while we look
            found = {-1}
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"{len(found - wanted)} are still there, {sorted(found)[:5]}"
        time.sleep(0.1)


REMOVALS: dict[str, tuple[dict[str, object], Callable[[Caller], object], set[int]]] = {
    "everything": ({}, lambda caller: caller.ask("STREAM.PURGE.S"), set()),
    "all but ten": (
        {},
        lambda caller: caller.ask("STREAM.PURGE.S", {"keep": 10}),
        set(range(MANY - 9, MANY + 1)),
    ),
    "a subject": (
        {},
        lambda caller: caller.ask("STREAM.PURGE.S", {"filter": "S.key-3-name"}),
        {number for number in range(1, MANY + 1) if number % 10 != 3},
    ),
    "up to a sequence": (
        {},
        lambda caller: caller.ask("STREAM.PURGE.S", {"seq": 30_001}),
        set(range(30_001, MANY + 1)),
    ),
    "a limit": (
        {},
        lambda caller: caller.ask(
            "STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "allow_direct": True, "max_msgs": 7}
        ),
        set(range(MANY - 6, MANY + 1)),
    ),
    "age": (
        {},
        lambda caller: caller.ask(
            "STREAM.UPDATE.S",
            {
                "name": "S",
                "subjects": ["S.>"],
                "allow_direct": True,
                "max_age": NS // 5,
                "duplicate_window": NS // 5,
            },
        ),
        set(),
    ),
    "compressed, a subject": (
        {"compression": "s2"},
        lambda caller: caller.ask("STREAM.PURGE.S", {"filter": "S.key-3-name"}),
        {number for number in range(1, MANY + 1) if number % 10 != 3},
    ),
}


@pytest.mark.parametrize("removal", list(REMOVALS))
def test_removed_payloads_leave_the_disk(tmp_path: Path, removal: str) -> None:
    config, remove, left = REMOVALS[removal]
    with running(tmp_path) as server, Caller(server.port) as caller:
        caller.create("S", **config)
        publish(server, caller, "S", MANY, subjects=10)
        assert len(stored(tmp_path)) == MANY
        answer = remove(caller)
        assert "error" not in answer, answer  # type: ignore[operator]
        wait_until_only(tmp_path, left)
        wait_for(lambda: caller.state("S")["messages"] == len(left))
        assert {int(each.payload[7:13]) for each in caller.read("S").values()} == left


def test_a_purge_of_everything_needs_no_waiting(tmp_path: Path) -> None:
    server = ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=tmp_path / "store")
    with server, Caller(server.port) as caller:
        caller.create("S")
        publish(server, caller, "S", MANY, subjects=10)
        caller.ask("STREAM.PURGE.S")
        wait_until_only(tmp_path, set())  # within less than the two minutes that are the bound


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_removed_before_a_restart_leaves_the_disk_after_it(tmp_path: Path, end: str) -> None:
    with running(tmp_path) as server:
        with Caller(server.port) as caller:
            caller.create("S")
            publish(server, caller, "S", 5000, subjects=10)
            caller.ask("STREAM.PURGE.S", {"filter": "S.key-3-name"})
            for seq in range(1, 100, 10):
                caller.ask("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": True})
        if end == "kill":
            server.kill()
        else:
            server.stop()
        server.start()
        left = {number for number in range(1, 5001) if number % 10 != 3}
        left -= set(range(1, 100, 10))
        wait_until_only(tmp_path, left)
        with Caller(server.port) as caller:
            assert caller.state("S")["messages"] == len(left)


def test_values_of_a_bucket_that_were_overwritten_purged_or_expired_leave_the_disk(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        caller.create(
            "KV_b",
            subjects=["$KV.b.>"],
            max_msgs_per_subject=1,
            allow_rollup_hdrs=True,
            deny_delete=True,
            discard="new",
            allow_msg_ttl=True,
        )
        for number in range(1, 301):
            caller.publish(f"$KV.b.k{number % 100}", secret(number))
        caller.publish("$KV.b.k50", b"", KV_Operation="PURGE", Nats_Rollup="sub")
        caller.publish("$KV.b.k51", b"", KV_Operation="DEL")
        caller.publish("$KV.b.short", secret(999), Nats_TTL="1s")
        left = {number for number in range(201, 301) if number % 100 not in (50, 51)}
        wait_until_only(tmp_path, left)


def test_consumed_messages_of_a_work_queue_leave_the_disk(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        caller.create("S", retention="workqueue")
        consumer = {"durable_name": "c", "ack_policy": "explicit"}
        caller.ask("CONSUMER.DURABLE.CREATE.S.c", {"stream_name": "S", "config": consumer})
        publish(server, caller, "S", 500, subjects=3)
        with WireClient.connect(server.port, timeout_s=PATIENCE_S) as client:
            client.handshake()
            client.send(b"SUB pulled 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.c pulled 3\r\n400\r\n")
            replies = [client.read_frame().split(b" ", 4)[3] for _ in range(400)]
            client.round_trip(b"".join(b"PUB %b 4\r\n+ACK\r\n" % reply for reply in replies))
        wait_until_only(tmp_path, set(range(401, 501)))


def test_a_deleted_stream_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        caller.create("S")
        caller.create("T")
        publish(server, caller, "S", 2000, subjects=10)
        caller.ask("STREAM.DELETE.S")
        wait_until_only(tmp_path, set())
        wait_for(lambda: not is_anything_deleted(tmp_path / "store"))


def test_a_deletion_that_was_cut_by_a_crash_is_finished_at_the_next_start(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        with Caller(server.port) as caller:
            caller.create("S")
            publish(server, caller, "S", 2000, subjects=10)
        server.kill()
        (folder,) = (tmp_path / "store").rglob("streams/S")
        grave = folder.parent.parent / "deleted" / "S.cut"
        grave.parent.mkdir()
        folder.rename(grave)
        (grave / "meta.json").unlink()  # as far as it came
        server.start()
        wait_until_only(tmp_path, set())
        wait_for(lambda: not grave.exists())
