"""`millstream backup` and `millstream restore`, between all servers, and with backups that are damaged."""

import asyncio
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from nats.errors import Error as NatsError

from millstream.transfer.backup import back_up
from millstream.transfer.errors import BadBackup
from millstream.transfer.folder import open_backup
from millstream.transfer.progress import Silence
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.transfer import HOUR, command, run_aside, run_millstream, site_of

NATS, MILLSTREAM = ServerKind.NATS_SERVER, ServerKind.MILLSTREAM
Servers = dict[ServerKind, ServerProcess]


@pytest.mark.parametrize("origin", ServerKind, ids=str)
@pytest.mark.parametrize("target", ServerKind, ids=str)
async def test_a_stream_comes_back_as_it_was(
    origins: Servers, targets: Servers, origin: ServerKind, target: ServerKind, name: str, tmp_path: Path
) -> None:
    async with (
        site_of(origins[origin].client_url) as here,
        site_of(targets[target].client_url) as there,
    ):
        await here.fill(name)
        messages, places = await here.messages(name), await here.places(name)
        config = (await here.api.stream(name))["config"]
        done = await run_aside("backup", tmp_path, name, "--json", "-s", origins[origin].client_url)
        assert done.returncode == 0, done.stderr
        (report,) = json.loads(done.stdout)["streams"]
        assert (report["messages"], report["last_seq"]) == (17, 20)
        assert report["consumers"] == ["done", "filtered", "fresh", "some"]
        done = await run_aside("restore", tmp_path, "--json", NATS_URL=targets[target].client_url)
        assert done.returncode == 0, done.stderr + done.stdout
        (restored,) = json.loads(done.stdout)["streams"]
        assert restored["verified"] is True
        assert restored["digest"] == report["digest"]
        assert await there.messages(name) == messages
        assert await there.places(name) == places
        assert (await there.api.stream(name))["config"] == config


async def test_every_stream_of_the_account_is_taken_if_none_is_named(tmp_path: Path) -> None:
    with ServerProcess(MILLSTREAM, jetstream=True) as server:
        async with site_of(server.client_url) as site:
            await site.fill("ONE", 5)
            await site.fill("TWO", 6)
            done = await run_aside("backup", tmp_path / "all", "-s", server.client_url)
            assert done.returncode == 0, done.stderr
            assert entries(tmp_path / "all") == ["ONE", "TWO"]
            for stream in ("ONE", "TWO"):
                await site.api.delete_stream(stream)
            done = await run_aside("restore", tmp_path / "all", "T*", "-s", server.client_url)
            assert done.returncode == 0, done.stdout
            assert await site.api.stream_names() == ["TWO"]


@pytest.mark.parametrize("kind", ServerKind, ids=str)
async def test_a_stream_may_be_restored_under_another_name_without_consumers(
    origins: Servers, kind: ServerKind, name: str, tmp_path: Path
) -> None:
    url = origins[kind].client_url
    async with site_of(url) as site:
        await site.fill(name)
        assert (
            await run_aside("backup", tmp_path, name, "--no-consumers", "--check", "-s", url)
        ).returncode == 0
        done = await run_aside(
            "restore", tmp_path / name, "--name", f"{name}X", "--subject", f"{name}X.>", "-s", url
        )
        assert done.returncode == 0, done.stdout
        info = await site.api.stream(f"{name}X")
        assert info["config"]["subjects"] == [f"{name}X.>"]
        assert info["state"]["consumer_count"] == 0
        assert await site.messages(f"{name}X") == await site.messages(name)


@pytest.mark.parametrize("kind", ServerKind, ids=str)
async def test_a_stream_that_exists_is_not_touched(
    origins: Servers, kind: ServerKind, name: str, tmp_path: Path
) -> None:
    url = origins[kind].client_url
    async with site_of(url) as site:
        await site.fill(name)
        assert (await run_aside("backup", tmp_path, name, "-s", url)).returncode == 0
        await site.publish(f"{name}.new", b"later")
        done = await run_aside("restore", tmp_path, "-s", url)
        assert done.returncode == 1
        assert f"stream {name} exists" in done.stdout
        assert (await site.api.stream(name))["state"]["last_seq"] == 21


async def test_a_backup_that_is_there_is_replaced_only_on_demand(
    origins: Servers, name: str, tmp_path: Path
) -> None:
    url = origins[MILLSTREAM].client_url
    async with site_of(url) as site:
        await site.fill(name)
        assert (await run_aside("backup", tmp_path, name, "-s", url)).returncode == 0
        await site.publish(f"{name}.new", b"later")
        done = await run_aside("backup", tmp_path, name, "-s", url)
        assert done.returncode == 1
        assert "--force" in done.stdout
        assert open_backup(tmp_path / name).state["last_seq"] == 20
        assert (await run_aside("backup", tmp_path, name, "--force", "-s", url)).returncode == 0
        assert open_backup(tmp_path / name).state["last_seq"] == 21
        assert entries(tmp_path) == [name]


def spoil(folder: Path, how: str) -> None:
    archive, meta = folder / "stream.tar.s2", folder / "backup.json"
    data = archive.read_bytes()
    if how == "cut":
        archive.write_bytes(data[:-1])
    elif how == "empty":
        archive.write_bytes(b"")
    elif how == "altered":
        at = 14  # in the checksum of the first block: elsewhere it may change nothing that is read
        archive.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    elif how == "longer":
        archive.write_bytes(data + b"\xfe\x00\x00\x00")
    elif how == "no archive":
        archive.unlink()
    elif how == "no meta":
        meta.unlink()
    elif how == "half meta":
        meta.write_bytes(meta.read_bytes()[:-40])
    elif how == "other state":
        found = json.loads(meta.read_bytes())
        found["state"]["messages"] += 1
        meta.write_text(json.dumps(found))


@pytest.mark.parametrize(
    "how",
    ["cut", "empty", "altered", "longer", "no archive", "no meta", "half meta", "other state"],
)
@pytest.mark.parametrize("sealed", [True, False], ids=["ours", "of the nats command line"])
async def test_a_damaged_backup_is_refused_before_anything_is_sent(
    origins: Servers, name: str, tmp_path: Path, how: str, sealed: bool
) -> None:
    if how == "longer" and not sealed:
        pytest.skip("what may stand behind an archive is told by its checksum alone")
    async with site_of(origins[MILLSTREAM].client_url) as site:
        await site.fill(name, 12)
        await take(site, name, tmp_path / name, sealed=sealed)
    spoil(tmp_path / name, how)
    with pytest.raises(BadBackup):
        open_backup(tmp_path / name).check()


async def take(site: Any, name: str, folder: Path, *, sealed: bool) -> None:
    """A backup of ours, or what the nats command line would write."""
    await back_up(site.api, name, folder, Silence())
    if not sealed:
        meta = folder / "backup.json"
        found = json.loads(meta.read_bytes())
        del found["millstream"]
        meta.write_text(json.dumps(found, indent=2))


async def test_an_archive_of_another_stream_is_noticed(origins: Servers, name: str, tmp_path: Path) -> None:
    async with site_of(origins[MILLSTREAM].client_url) as site:
        await site.fill(name, 8)
        await site.fill(f"{name}B", 9)
        for each in (name, f"{name}B"):
            await take(site, each, tmp_path / each, sealed=False)
    shutil.copy(tmp_path / f"{name}B" / "stream.tar.s2", tmp_path / name / "stream.tar.s2")
    with pytest.raises(BadBackup, match="not of the same backup"):
        open_backup(tmp_path / name).check()


async def test_a_dry_run_of_a_restore_needs_no_server_and_finds_damage(
    origins: Servers, name: str, tmp_path: Path
) -> None:
    async with site_of(origins[MILLSTREAM].client_url) as site:
        await site.fill(name, 8)
        await take(site, name, tmp_path / name, sealed=True)
    done = await run_aside("restore", tmp_path, "--dry-run", "-s", "nats://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (0, f"{name}: sound, 5 messages\n")
    spoil(tmp_path / name, "altered")
    done = await run_aside("restore", tmp_path, "--dry-run", "-s", "nats://127.0.0.1:1")
    assert done.returncode == 1
    assert "damaged" in done.stderr


@pytest.mark.parametrize("origin", ServerKind, ids=str)
@pytest.mark.parametrize("target", ServerKind, ids=str)
async def test_a_backup_of_what_the_nats_command_line_wrote_is_restored(
    origins: Servers, targets: Servers, origin: ServerKind, target: ServerKind, name: str, tmp_path: Path
) -> None:
    async with (
        site_of(origins[origin].client_url) as here,
        site_of(targets[target].client_url) as there,
    ):
        await here.fill(name)
        await take(here, name, tmp_path / name, sealed=False)
        done = await run_aside("restore", tmp_path / name, "-s", targets[target].client_url)
        assert done.returncode == 0, done.stdout
        assert await there.messages(name) == await here.messages(name)


async def big_stream(site: Any, name: str) -> None:
    await site.create(name, subjects=[f"{name}.>"])
    body = bytes(range(256)) * 64
    for number in range(3000):
        await site.client.publish(f"{name}.a", number.to_bytes(8, "big") + body)
    await site.publish(f"{name}.a", b"the last one")  # so the others are stored
    await site.add_consumer(name, "some", ack_wait=HOUR)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def entries(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def has_begun(archive: Path) -> bool:
    try:
        return archive.stat().st_size > 0
    except FileNotFoundError:  # not yet, or no longer there
        return False


def kill_when(process: subprocess.Popen[bytes], ready: Any) -> None:
    """End it as a crash would, when it has begun."""
    deadline = time.monotonic() + 60
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


async def test_a_backup_that_is_killed_leaves_nothing_that_looks_whole_and_the_next_one_is(
    origins: Servers, name: str, tmp_path: Path
) -> None:
    url = origins[MILLSTREAM].client_url
    async with site_of(url) as site:
        await big_stream(site, name)
        arguments = ("backup", tmp_path, name, "--chunk-size", 1024, "-s", url)
        partial = tmp_path / f".{name}.partial" / "stream.tar.s2"
        for _ in range(20):
            process = start(*arguments)
            kill_when(process, lambda: has_begun(partial))
            if process.returncode == -signal.SIGKILL and name not in entries(tmp_path):
                break
            open_backup(tmp_path / name).check()  # it was faster, so it is whole
            shutil.rmtree(tmp_path / name)
        else:
            pytest.fail("it was never killed in the middle")
        assert run_millstream("restore", tmp_path, "--dry-run").returncode == 1
        done = await run_aside("backup", tmp_path, name, "-s", url)
        assert done.returncode == 0, done.stdout
        assert entries(tmp_path) == [name]
        await site.api.delete_stream(name)


@pytest.mark.parametrize("kind", ServerKind, ids=str)
async def test_a_restore_that_is_killed_can_be_done_again(kind: ServerKind, tmp_path: Path) -> None:
    with ServerProcess(kind, jetstream=True) as server:
        async with site_of(server.client_url) as site:
            await big_stream(site, "BIG")
            await take(site, "BIG", tmp_path / "BIG", sealed=True)
            before = (await site.api.stream("BIG"))["state"]
            for _ in range(10):
                await site.api.delete_stream("BIG")
                begun = await site.client.subscribe("$JS.EVENT.ADVISORY.STREAM.RESTORE_CREATE.>")
                process = start("restore", tmp_path, "-s", server.client_url)
                await begun.next_msg(timeout=PATIENCE_S)
                process.send_signal(signal.SIGKILL)
                process.wait()
                await begun.unsubscribe()
                if kind is NATS:
                    await given_up(site, "BIG")
                done = await run_aside("restore", tmp_path, "-s", server.client_url)
                faster = "exists" in done.stdout or "in use" in done.stdout  # than we killed it
                assert done.returncode == 0 or faster, done.stdout
                after = (await site.api.stream("BIG"))["state"]
                assert (after["messages"], after["bytes"]) == (before["messages"], before["bytes"])
                if done.returncode == 0:
                    break
            else:
                pytest.fail("it was never killed in the middle")


async def given_up(site: Any, name: str) -> None:
    """Nats-server notices after seconds, and keeps what it had: a stream that takes messages from then on."""
    for _ in range(60):
        try:
            await site.publish(f"{name}.a")
        except NatsError:
            await asyncio.sleep(0.25)
        else:
            await site.api.delete_stream(name)
            return
    assert name not in await site.api.stream_names()  # it had not begun
