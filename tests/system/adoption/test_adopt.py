"""`millstream adopt` on stores that several versions of nats-server left, stopped or killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from millstream.archive import store_files
from millstream.archive.frames import S2_START, PackLevel, s2_frames
from millstream.archive.store_files import NatsServerStream, stored_streams
from millstream.archive.store_keys import StoreKeys
from millstream.cli.progress_bars import Quiet
from millstream.jetstream.adoption.adoption import AdoptionError, AdoptionPlan, adopt
from millstream.jetstream.adoption.report import AdoptionReport
from millstream.jetstream.store_folder import PARTIAL, claim
from millstream.jsapi.consumer_types import ConsumerState
from millstream.store.errors import StoreError
from tests.kits.foreign import photograph
from tests.kits.lives import KEY, Life, differences, expected, live, told_by
from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S
from tests.kits.recorded_stores import unpack
from tests.kits.reference import OtherNatsServer, ServerKind, inherited_environment

STORES = sorted((GOLDEN / "adoption").glob("*.tar.xz"))
PLAIN = next(path for path in STORES if path.name.startswith("2.15") and path.name.count("-") == 1)
SECRET = next(path for path in STORES if path.name.count("-") == 2)
LIVES = int(os.environ.get("MILLSTREAM_LIVES", "20"))


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    return unpack(PLAIN, tmp_path)[0]


def adopted(store: Path, key: str = KEY) -> AdoptionReport:
    return adopt(AdoptionPlan(str(store), StoreKeys([key])), str(store.parent / "ours"), Quiet())


def told_by_ours(folder: Path) -> dict[str, Any]:
    life = Life(0, (2, 15))
    life.cipher = ""
    return told_by(life, ServerKind.MILLSTREAM, folder)


def command(store: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "millstream", "adopt", str(store), "--to", str(store.parent / "ours")]
    return subprocess.run(
        [*words, *arguments],
        env=inherited_environment() | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


# -- everything is there --------------------------------------------------------------------------


@pytest.mark.parametrize("archive", STORES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_recorded_store_is_as_its_server_said(archive: Path, tmp_path: Path) -> None:
    store, wanted = unpack(archive, tmp_path)
    before = photograph(store)
    assert adopted(store).sound
    assert differences(told_by_ours(tmp_path / "ours"), wanted) == []
    assert photograph(store) == before


@pytest.mark.soak
@pytest.mark.oracle
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_random_lives_are_adopted(killed: bool, tmp_path: Path) -> None:
    """Other versions: MILLSTREAM_NATS_SERVERS="2.10.25=/path/to/nats-server:…"."""
    servers: list[tuple[tuple[int, ...], Any]] = [((2, 15), ServerKind.NATS_SERVER)]
    for each in filter(None, os.environ.get("MILLSTREAM_NATS_SERVERS", "").split(":")):
        version, _, path = each.partition("=")
        servers.append((tuple(map(int, version.split("."))), OtherNatsServer(Path(path))))
    for number in range(LIVES):
        seed = random.randrange(2**32)
        version, server = servers[number % len(servers)]
        folder = tmp_path / str(number)
        life = Life(seed, version, killed=killed)
        live(life, server, folder / "store", killed=killed)
        shutil.copytree(folder / "store", folder / "copy")
        wanted = expected(told_by(life, server, folder / "copy"), folder / "store")
        assert adopted(folder / "store").sound, (seed, version)
        assert differences(told_by_ours(folder / "ours"), wanted) == [], (seed, version)
        shutil.rmtree(folder)


# -- damage ---------------------------------------------------------------------------------------


def largest(store: Path) -> NatsServerStream:
    found = [each for each in stored_streams(str(store), StoreKeys()) if each.name[0] == "S"]
    return max(found, key=lambda each: sum(block.size for block in each.blocks()))


def test_a_flipped_byte_costs_what_it_hit(unpacked: Path) -> None:
    wanted = json.loads((unpacked.parent / "told.json").read_text())
    pick = random.Random(4)
    stream = largest(unpacked)
    told = wanted["one"][stream.name]["messages"]
    for number in range(12):
        store = unpacked.parent / f"{number}" / "store"
        shutil.copytree(unpacked, store)
        block = largest(store).blocks()[0]
        data = bytearray(Path(block.path).read_bytes())
        at = pick.randrange(len(data) - 8)
        data[at] ^= 1 << pick.randrange(8)
        Path(block.path).write_bytes(data)
        report = adopted(store)
        mine = next(each for each in report.streams if each.stream == stream.name)
        lost = [seq for each in mine.damage for one, two in each.sequences for seq in range(one, two + 1)]
        assert mine.damage
        assert mine.messages == len(told) - len(lost)
        assert len(lost) <= 1
        assert all(each.sound for each in report.streams if each is not mine)


def compressed(records: bytes) -> bytes:
    """Return the content of a compressed block, as a server writes it when a block is full."""
    size = len(records)
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    frames = S2_START + s2_frames(records[:-8], PackLevel.FAST)
    return b"cmp\1" + length + frames + records[-8:]


def test_a_flipped_byte_of_a_compressed_block_costs_what_it_hit(unpacked: Path) -> None:
    wanted = json.loads((unpacked.parent / "told.json").read_text())
    block = largest(unpacked).blocks()[0]
    name, path = largest(unpacked).name, Path(block.path)
    told = wanted["one"][name]["messages"]
    whole = compressed(path.read_bytes())
    pick = random.Random(4)
    kept = []
    for _ in range(20):
        data = bytearray(whole)
        data[pick.randrange(30, len(data) - 8)] ^= 1 << pick.randrange(8)
        path.write_bytes(data)
        mine = next(each for each in adopted(unpacked).streams if each.stream == name)
        lost = [seq for each in mine.damage for one, two in each.sequences for seq in range(one, two + 1)]
        assert mine.damage
        assert mine.messages == len(told) - len(lost)
        kept.append(mine.messages)
        shutil.rmtree(unpacked.parent / "ours")
    assert sorted(kept)[len(kept) // 2] > len(told) // 2


def test_a_block_that_decompresses_to_too_much_costs_itself(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = largest(unpacked)
    frames = S2_START + s2_frames(bytes(3 * 2**20), PackLevel.FAST)
    Path(stream.blocks()[0].path).write_bytes(b"cmp\1\1" + frames + bytes(8))
    monkeypatch.setattr(store_files, "_LARGEST_BLOCK", 2 * 2**20)
    mine = next(each for each in adopted(unpacked).streams if each.stream == stream.name)
    assert [each.reason for each in mine.damage] == ["its content is larger than 2097152 bytes"]


def test_a_file_larger_than_any_block_costs_itself(unpacked: Path) -> None:
    stream = largest(unpacked)
    with open(stream.blocks()[0].path, "r+b") as file:
        file.truncate(2**40)  # sparse
    mine = next(each for each in adopted(unpacked).streams if each.stream == stream.name)
    assert [each.reason for each in mine.damage] == ["it is larger than 268435456 bytes"]


def test_a_lost_configuration_costs_its_stream_alone(unpacked: Path) -> None:
    stream = largest(unpacked)
    Path(stream.folder, "meta.inf").write_bytes(b"{")
    report = adopted(unpacked)
    assert [each.stream for each in report.streams if each.error] == [stream.name]


def test_a_lost_consumer_state_is_reported(unpacked: Path) -> None:
    stream = next(each for each in stored_streams(str(unpacked), StoreKeys()) if each.consumers())
    name = stream.consumers()[0]
    Path(stream.folder, "obs", name, "o.dat").write_bytes(b"?")
    notes = [note for each in adopted(unpacked).streams for note in each.notes]
    assert len(notes) == 1
    assert f"consumer {name}: its state is lost" in notes[0]


def test_pending_messages_below_the_floor_are_settled(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is killed after a purge leaves such a state."""
    pending = {each: (each, 10**18) for each in (2, 4, 6, 8)}
    state = ConsumerState(8, 8, 5, 5, pending)
    monkeypatch.setattr("millstream.archive.store_files.decode_state", lambda data: state)
    stream = next(each for each in stored_streams(str(unpacked), StoreKeys()) if each.consumers())
    consumer, problem = stream.consumer(stream.consumers()[0])
    assert not problem
    assert consumer.state is not None
    assert sorted(consumer.state.pending) == [6, 8]


# -- what is refused ------------------------------------------------------------------------------


def test_the_target_must_be_empty(unpacked: Path) -> None:
    target = unpacked.parent / "ours"
    target.mkdir()
    (target / "note").write_text("mine")
    with pytest.raises(AdoptionError, match="not empty"):
        adopted(unpacked)
    assert [each.name for each in target.iterdir()] == ["note"]


def test_the_target_is_not_inside_the_store(unpacked: Path) -> None:
    plan = AdoptionPlan(str(unpacked), StoreKeys())
    with pytest.raises(AdoptionError, match="inside the store"):
        adopt(plan, str(unpacked / "ours"), Quiet())


def test_an_encrypted_store_needs_its_key(tmp_path: Path) -> None:
    store, _ = unpack(SECRET, tmp_path)
    for key, words in (("", "no key was given"), ("wrong", "not with the key")):
        with pytest.raises(AdoptionError, match=words):
            adopted(store, key)
        assert not (tmp_path / "ours").exists()


def test_a_store_in_use_is_refused(unpacked: Path) -> None:
    block = largest(unpacked).blocks()[0].path
    program = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, block], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout is not None
        user.stdout.readline()
        with pytest.raises(AdoptionError, match=rf"process {user.pid}\) uses it"):
            adopted(unpacked)
        user.communicate()
    assert adopted(unpacked).sound


def test_a_store_that_changes_meanwhile_is_not_adopted(unpacked: Path) -> None:
    plan = AdoptionPlan(str(unpacked), StoreKeys())
    with open(largest(unpacked).blocks()[0].path, "ab") as file:
        file.write(b"\0")
    with pytest.raises(AdoptionError, match="changed while they were read"):
        adopt(plan, str(unpacked.parent / "ours"), Quiet())
    assert not (unpacked.parent / "ours").exists()


def test_other_folders_are_refused(tmp_path: Path) -> None:
    claim(str(tmp_path / "own"))
    (tmp_path / "empty").mkdir()
    for name, words in (("own", "of Millstream already"), ("empty", "no streams"), ("none", "no such")):
        with pytest.raises(AdoptionError, match=words):
            AdoptionPlan(str(tmp_path / name), StoreKeys())


def test_an_interrupted_adoption_is_no_store(unpacked: Path) -> None:
    target = unpacked.parent / "ours"
    shutil.copytree(unpacked, target / PARTIAL)  # as a kill leaves it: a folder `jetstream` in it
    with pytest.raises(StoreError, match="was interrupted"):
        claim(str(target))
    with pytest.raises(AdoptionError, match="was interrupted"):
        adopted(unpacked)


def test_an_adoption_that_began_meanwhile_keeps_its_files(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = unpacked.parent / "ours"
    monkeypatch.setattr("millstream.jetstream.adoption.adoption.check_target", lambda folder: None)
    (target / PARTIAL).mkdir(parents=True)  # by the other one, after this one had looked
    (target / PARTIAL / "file").write_text("theirs")
    with pytest.raises(AdoptionError, match="another adoption writes there"):
        adopted(unpacked)
    assert (target / PARTIAL / "file").read_text() == "theirs"


# -- the command ----------------------------------------------------------------------------------


def test_the_command_reports_json(unpacked: Path) -> None:
    looked = command(unpacked, "--dry-run", "--json")
    assert looked.returncode == 0, looked.stderr
    assert not (unpacked.parent / "ours").exists()
    ended = command(unpacked, "--json")
    assert ended.returncode == 0, ended.stderr
    one, two = json.loads(looked.stdout), json.loads(ended.stdout)
    assert two["sound"]
    assert [each["last_seq"] for each in one["streams"]] == [each["last_seq"] for each in two["streams"]]


def test_the_key_comes_from_the_environment_or_the_configuration(tmp_path: Path) -> None:
    store, _ = unpack(SECRET, tmp_path)
    config = tmp_path / "nats.conf"
    config.write_text("jetstream { key: $STORE_KEY }\n")
    assert command(store).returncode == 1
    assert command(store, "--dry-run", MILLSTREAM_ADOPT_KEY=KEY).returncode == 0
    ended = command(store, "--dry-run", "--config", str(config), STORE_KEY=json.dumps(KEY))
    assert ended.returncode == 0, ended.stderr


def test_serve_names_the_command(unpacked: Path) -> None:
    with pytest.raises(StoreError, match="millstream adopt"):
        claim(str(unpacked))
