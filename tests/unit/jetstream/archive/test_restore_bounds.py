"""Restores and their bounds: what is really stored counts, and little that unpacks to much costs little."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from millstream.archive import old_archive
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.resources import Resources
from millstream.jsapi.enums import StorageType
from tests.kits.jetstream.archive import (
    Entry,
    archive,
    block_record,
    consumer,
    message,
    old_files,
    pack,
    state,
    tar_of,
)
from tests.kits.jetstream.stream import Site

MB = 1024 * 1024
PIECE = 128 * 1024
NO_ROOM = {"file": (500, 10047, "insufficient storage resources available"), "memory": (500, 10028)}


def begin(site: Site, name: str = "S", **config: Any) -> bytes:
    answer = site.ask(f"STREAM.RESTORE.{name}", {"config": {"name": name, "subjects": ["a.>"], **config}})
    assert "error" not in answer, answer
    return str(answer["deliver_subject"]).encode()


def restore(site: Site, data: bytes, name: str = "S", **config: Any) -> dict[str, Any]:
    subject = begin(site, name, **config)
    for at in range(0, len(data), MB):
        site.world.request(subject, data[at : at + MB])
    return json.loads(site.world.request(subject))  # type: ignore[no-any-return]


def lying(pieces: int, size: int = PIECE) -> bytes:
    """An archive that says it has ten bytes."""
    told = state(messages=pieces, bytes=10, first_seq=1, last_seq=pieces)
    return archive(told, *(message(seq, bytes(size - 100)) for seq in range(1, pieces + 1)))


def old_lying(pieces: int) -> bytes:
    blocks = {
        number: block_record("S", number, number, b"a", bytes(PIECE - 100)) for number in range(1, pieces + 1)
    }
    return pack(tar_of(old_files("S", blocks)))


def refusal(site: Site, data: bytes, **config: Any) -> tuple[Any, ...]:
    """Return the error of a restore, after checking that the account has as much room as before."""
    error = restore(site, data, **config)["error"]
    assert site.account.streams == {}
    assert site.disk.list("store/restoring") == []
    for storage in StorageType:
        assert site.account.resources.staged.of_server(storage) == 0
        assert site.account.resources.staged.of_account("$G", storage) == 0
    return error["code"], error["err_code"], error["description"]


@pytest.mark.parametrize("make", [lying, pytest.param(old_lying, marks=pytest.mark.compiled)])
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_the_limit_of_the_account_holds_whatever_the_archive_says(storage: str, make: Any) -> None:
    options = AccountJetStreamOptions(max_memory=5 * PIECE, max_store=5 * PIECE)
    site = Site(options=options)
    error = refusal(site, make(8), storage=storage)
    assert error[: len(NO_ROOM[storage])] == NO_ROOM[storage]
    assert "error" not in restore(site, make(4), storage=storage)
    assert site.refusal("a.b", bytes(2 * PIECE))[1] == 10002


@pytest.mark.parametrize("make", [lying, pytest.param(old_lying, marks=pytest.mark.compiled)])
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_the_limit_of_the_server_holds_whatever_the_archive_says(storage: str, make: Any) -> None:
    site = Site(resources=Resources(max_memory=5 * PIECE, max_store=5 * PIECE))
    error = refusal(site, make(8), storage=storage)
    assert error[: len(NO_ROOM[storage])] == NO_ROOM[storage]
    assert "error" not in restore(site, make(4), storage=storage)


def test_restores_at_the_same_time_share_the_limit() -> None:
    site = Site(options=AccountJetStreamOptions(max_store=5 * PIECE))
    first, second = begin(site, "S"), begin(site, "T", subjects=["t.>"])
    site.world.request(first, lying(3))
    site.world.request(second, lying(3))
    found = [json.loads(site.world.request(subject)) for subject in (first, second)]
    assert ["error" in each for each in found] == [False, True]


def test_publishers_see_what_a_restore_holds() -> None:
    site = Site(options=AccountJetStreamOptions(max_store=5 * PIECE))
    site.create("P")
    site.world.request(begin(site), lying(4))
    assert site.refusal("p.1", bytes(2 * PIECE))[1] == 10002
    site.world.advance(6)  # nobody goes on with it
    assert site.publish("p.1", bytes(2 * PIECE))["seq"] == 1


@pytest.mark.compiled
def test_a_stream_that_drops_old_messages_does_so_while_it_loads() -> None:
    site = Site(options=AccountJetStreamOptions(max_store=5 * PIECE))
    answer = restore(site, lying(12), max_bytes=3 * PIECE)
    assert answer["state"]["messages"] == 3
    assert answer["state"]["last_seq"] == 12


@pytest.mark.compiled
def test_a_chunk_that_unpacks_to_much_leaves_the_workers_to_others_in_between() -> None:
    site = Site()
    subject = begin(site)
    data = lying(64, MB)
    assert len(data) < 8 * MB
    turns = 0
    run = site.world.run_in_worker

    def counted(work: Any, done: Any) -> None:
        nonlocal turns
        turns += 1
        run(work, done)

    site.world.run_in_worker = counted  # type: ignore[method-assign]
    site.world.request(subject, data)
    assert turns >= 8
    assert "error" not in json.loads(site.world.request(subject))


@pytest.mark.parametrize("depth", [0, 190, 10_000])
@pytest.mark.compiled
def test_a_state_that_is_larger_than_any_is_refused_in_little_memory(depth: int) -> None:
    inner = b"[" * depth + b"1," * (4 * MB) + b"1" + b"]" * depth
    data = archive(Entry(b"state.json", body=b'{"x":%b}' % inner))
    tracemalloc.start()
    assert refusal(Site(), data)[1] == 10062
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * MB


@pytest.mark.parametrize("depth", [300, 10_000, 100_000])
def test_a_consumer_that_is_nested_deep_is_refused(depth: int) -> None:
    body = b'{"config":%b,"state":{}}' % (b'{"a":' * depth + b"1" + b"}" * depth)
    data = archive(state(consumer_count=1), Entry(b"consumers/c", body=body))
    assert refusal(Site(), data)[1] == 10062


@pytest.mark.compiled
def test_consumers_beyond_all_measure_are_refused() -> None:
    where = {"delivered": {}, "ack_floor": {}, "pad": "x" * (12 * MB)}
    each = consumer("c", {}, where)
    data = archive(state(consumer_count=20), *(each._replace(name=b"consumers/c%d" % n) for n in range(20)))
    assert refusal(Site(), data) == (500, 10062, "restore failed: its consumers are too large")


def test_so_many_restores_may_be_under_way_and_those_that_stall_make_room() -> None:
    site = Site()
    for number in range(16):
        begin(site, f"S{number}", subjects=[f"s{number}"])
    request = {"config": {"name": "T", "subjects": ["t"]}}
    assert site.error("STREAM.RESTORE.T", request)[:2] == (503, 10023)
    site.world.advance(6)
    begin(site, "T", subjects=["t"])


def test_files_without_number_in_an_older_archive_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_archive, "_MOST_FILES", 100)
    files = old_files("S", {}) | {f"msgs/x{number}": b"" for number in range(100)}
    assert refusal(Site(), pack(tar_of(files))) == (
        500,
        10062,
        "restore failed: there are too many files in it",
    )


@pytest.mark.compiled
def test_an_older_archive_with_a_name_of_gigabytes_is_refused() -> None:
    long_name = bytearray(tar_of({"x": b""})[:512])
    long_name[156:157] = b"L"
    long_name[124:136] = b"77777777777\0"
    long_name[148:156] = b"        "
    long_name[148:156] = b"%06o\0 " % sum(long_name)
    assert refusal(Site(), pack(bytes(long_name) + bytes(4 * MB)))[1] == 10062
