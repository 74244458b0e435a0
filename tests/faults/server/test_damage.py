"""Bits flipped and files cut short in every kind of file of a store, and a server started on it.

It starts; what is damaged costs itself and nothing else; and whoever looks at the log, at stream info, at
advisories or at ``/healthz`` learns of it.
"""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller

DAMAGED = b"$JS.EVENT.ADVISORY.STREAM.DAMAGED.*"
LARGE = 900_000
Payloads = dict[int, bytes]
Harm = Callable[[bytearray, Random], None]


@contextmanager
def running(store: Path) -> Iterator[ServerProcess]:
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=store, monitor=True) as server:
        yield server


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Payloads]:
    """A store, and what is in its stream `hurt`: a sealed segment and a growing one."""
    store = tmp_path_factory.mktemp("original")
    payloads: Payloads = {}
    with running(store) as server, Caller(server.port) as caller:
        caller.create("hurt")
        caller.create("whole")
        for number in range(160):
            payload = b"message %03d" % number
            if number % 4 == 0:
                payload += bytes([number]) * LARGE
            payloads[caller.publish(f"hurt.{number % 3}", payload)["seq"]] = payload
            caller.publish("whole.a", b"whole %d" % number)
        server.kill()
    return store, payloads


@pytest.fixture
def store(original: tuple[Path, Payloads], tmp_path: Path) -> Path:
    return Path(shutil.copytree(original[0], tmp_path / "store"))


def folder(store: Path, stream: str = "hurt") -> Path:
    return store / "jetstream" / "$G" / "streams" / stream


SEALED, SUMMARY, GROWING = "log/0000000001.log", "log/0000000001.sum", "log/0000000002.log"
META = "meta.json"
KINDS = [SEALED, SUMMARY, GROWING, META]
NOTE = "log/0000000002.unsynced"  # empty


def flip(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)


def cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def blank(data: bytearray, random: Random) -> None:
    """Zeros, as a disk gives for a sector that it lost."""
    at = random.randrange(len(data)) // 512 * 512
    part = len(data[at : at + 512])
    data[at : at + part] = bytes(part)


def test_the_store_has_every_kind_of_file(store: Path) -> None:
    names = {str(path.relative_to(folder(store))) for path in folder(store).rglob("*") if path.is_file()}
    assert names == {*KINDS, NOTE}
    top = {path.name for path in (store / "jetstream").iterdir()}
    assert top == {"lock", "millstream.json", "millstream.reserve", "$G"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", [flip, cut, blank])
def test_damage_costs_what_it_hit_and_is_told(
    original: tuple[Path, Payloads], store: Path, kind: str, harm: Harm
) -> None:
    hurt(original, store, kind, harm, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", [flip, cut, blank])
def test_damage_anywhere_costs_what_it_hit_and_is_told(
    original: tuple[Path, Payloads], store: Path, kind: str, harm: Harm, seed: int
) -> None:
    hurt(original, store, kind, harm, seed)


def hurt(original: tuple[Path, Payloads], store: Path, kind: str, harm: Harm, seed: int) -> None:
    random = Random(f"{kind} {harm.__name__} {seed}")
    path = folder(store) / kind
    data = bytearray(path.read_bytes())
    if kind == META and harm is cut:
        del data[random.randrange(data.index(b" " * 2), len(data)) :]  # the first copy is whole
    else:
        harm(data, random)
    path.write_bytes(data)
    with running(store) as server, Caller(server.port) as caller, Caller(server.port) as listener:
        listener.listen(DAMAGED)
        check_whole(caller)
        found = {seq: message.payload for seq, message in caller.read("hurt").items()}
        sent = original[1]
        assert all(sent[seq] == payload for seq, payload in found.items()), "a payload is wrong"
        lost = sorted(sent.keys() - found.keys())
        if kind in (SUMMARY, META):
            assert lost == []
        elif harm is cut:
            assert lost == list(range(lost[0], lost[-1] + 1)) if lost else True
        else:
            assert len(lost) <= (1 if harm is flip else 12)  # some 40 bytes each
        if kind == META:
            assert f"{kind} is damaged" in server.log
        if lost and not (kind == GROWING and harm is cut):  # that looks like a write that did not finish
            check_told(caller, listener, server, lost)
        answer = caller.publish("hurt.new", b"new")
        assert answer["seq"] not in sent or (kind == GROWING and harm is cut)
        assert health(server)["status"] == "ok"
        server.kill()
        server.start()
        with Caller(server.port) as again:
            after = {seq: message.payload for seq, message in again.read("hurt").items()}
            assert after == found | {answer["seq"]: b"new"}


def check_whole(caller: Caller) -> None:
    assert [message.payload for message in caller.read("whole").values()] == [
        b"whole %d" % number for number in range(160)
    ]


def check_told(caller: Caller, listener: Caller, server: ServerProcess, lost: list[int]) -> None:
    told = caller.state("hurt")["lost"]
    assert set(lost) <= set(told["msgs"])
    assert told["bytes"] > 0
    server.wait_for_log("damaged|missing")
    advisory = listener.heard()
    assert advisory["type"] == "io.millstream.jetstream.advisory.v1.stream_damaged"
    assert advisory["stream"] == "hurt"
    assert set(lost) <= set(advisory["sequences"])
    assert advisory["messages"] >= len(lost)


@pytest.mark.parametrize("kind", [SEALED, SUMMARY, GROWING])
def test_a_file_that_is_gone_costs_what_it_had(
    original: tuple[Path, Payloads], store: Path, kind: str
) -> None:
    (folder(store) / kind).unlink()
    with running(store) as server, Caller(server.port) as caller, Caller(server.port) as listener:
        listener.listen(DAMAGED)
        check_whole(caller)
        found = {seq: message.payload for seq, message in caller.read("hurt").items()}
        assert found.items() <= original[1].items()
        lost = sorted(original[1].keys() - found.keys())
        assert bool(lost) == (kind in (SEALED, GROWING))
        if kind == SEALED:  # its summary tells what it had
            check_told(caller, listener, server, lost)
        elif kind == GROWING:
            assert "missing" in server.log
            assert listener.heard()["stream"] == "hurt"
        answer = caller.publish("hurt.new", b"new")
        assert answer["seq"] not in original[1]


def spoil_both_copies(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in (100, len(data) - 100):
        data[at : at + 8] = bytes(8)
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [spoil_both_copies, Path.unlink])
def test_a_stream_without_a_sound_configuration_is_reported_and_the_others_start(
    store: Path, harm: Callable[[Path], None]
) -> None:
    harm(folder(store) / META)
    with running(store) as server, Caller(server.port) as caller:
        check_whole(caller)
        assert caller.ask("STREAM.INFO.hurt")["error"]["err_code"] == 10059
        assert "stream hurt cannot be started" in server.log
        sick = health(server)
        assert sick["status"] == "error"
        assert "hurt" in json.dumps(sick)
        refused = caller.ask("STREAM.CREATE.hurt", {"name": "hurt", "subjects": ["hurt.>"]})
        assert "damaged" in refused["error"]["description"]
        assert (folder(store) / SEALED).exists(), "what may be saved by hand was removed"


def test_things_that_are_not_ours_do_not_matter(store: Path) -> None:
    (folder(store) / "log" / "notes.txt").write_text("mine")
    (folder(store) / "core.123").write_text("dump")
    (folder(store).parent / "a-file").write_text("not a stream")
    (folder(store).parent / "empty").mkdir()
    with running(store) as server, Caller(server.port) as caller:
        server.wait_for_log("holds what Millstream did not write, and leaves alone: .*core.123")
        check_whole(caller)
        assert caller.state("hurt")["messages"] == 160
        assert (folder(store) / "log" / "notes.txt").read_text() == "mine"
        assert caller.ask("STREAM.NAMES")["streams"] == ["hurt", "whole"]


def health(server: ServerProcess) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{server.monitor_url}/healthz?details=true") as answer:
            return json.load(answer)  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)  # type: ignore[no-any-return]
