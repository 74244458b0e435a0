"""A server on a folder that is not provably ours: it says so, stops, and every byte is still there."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
from pathlib import Path

import nats
import pytest

import millstream
from millstream.jetstream import store_folder
from millstream.jetstream.store_folder import MARK, RESERVE, ForeignStore, claim
from millstream.store import commit_journal
from millstream.store.errors import StoreError
from tests.kits.foreign import FOREIGN, STORES, nats_server_store, photograph, run
from tests.kits.reference import ServerKind, ServerProcess


def serve(folder: Path, **environment: str) -> tuple[int, str]:
    """Start the command on a store directory where it must not stay; returns its exit code and its words."""
    done = run("serve", "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder, **environment)
    return done.returncode, done.stderr


@pytest.mark.parametrize("archive", STORES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_store_of_nats_server_is_refused_with_the_way_to_move_it(archive: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    nats_server_store(archive)(store)
    before = photograph(store)
    code, told = serve(store)
    assert code == 1
    assert "stream folders of nats-server: KV_settings, ORDERS" in told
    assert f"millstream adopt {store} --to" in told
    assert "Traceback" not in told
    assert photograph(store) == before


@pytest.mark.oracle
def test_a_store_that_a_nats_server_just_left_is_refused_and_still_its_own(tmp_path: Path) -> None:
    async def fill(url: str) -> None:
        connection = await nats.connect(url)
        await connection.jetstream().add_stream(name="OLD", subjects=["old"])
        await connection.jetstream().publish("old", b"1")
        await connection.close()

    async def count(url: str) -> int:
        connection = await nats.connect(url)
        info = await connection.jetstream().stream_info("OLD")
        await connection.close()
        return info.state.messages

    with ServerProcess(ServerKind.NATS_SERVER, jetstream=True, store_dir=tmp_path) as server:
        asyncio.run(fill(server.client_url))
    before = photograph(tmp_path)
    assert serve(tmp_path)[0] == 1
    assert photograph(tmp_path) == before
    with ServerProcess(ServerKind.NATS_SERVER, jetstream=True, store_dir=tmp_path) as server:
        assert asyncio.run(count(server.client_url)) == 1


@pytest.fixture(params=["folder", "link to it"])
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """Return the folder of foreign content, and the path by which we reach it."""
    there = tmp_path / "theirs"
    return there, there if request.param == "folder" else tmp_path / "link"


def _link(there: Path, way: Path) -> None:
    if way != there:
        way.symlink_to(there)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_folder_jetstream_of_somebody_else_is_refused(
    kind: str, placed: tuple[Path, Path], tmp_path: Path
) -> None:
    there, way = placed
    FOREIGN[kind](there)
    before = photograph(there)
    (tmp_path / "store").mkdir()
    if way == there:
        there.rename(tmp_path / "store" / "jetstream")
        there = tmp_path / "store" / "jetstream"
    else:
        (tmp_path / "store" / "jetstream").symlink_to(there)
    with pytest.raises(ForeignStore, match="Nothing in it was changed"):
        claim(str(tmp_path / "store"))
    assert photograph(there) == before


@pytest.mark.parametrize("kind", FOREIGN)
async def test_beside_the_files_of_somebody_else_only_our_own_folder_appears(
    kind: str, placed: tuple[Path, Path]
) -> None:
    there, way = placed
    FOREIGN[kind](there)
    _link(there, way)
    before = photograph(there)
    if kind.startswith("nats-server"):
        with pytest.raises(StoreError, match="stream folders of nats-server: KV_settings, ORDERS"):
            async with millstream.Server(port=-1, store_dir=way):
                pass
        with pytest.raises(StoreError, match="stream folders of nats-server: KV_settings, ORDERS"):
            claim(str(way / "jetstream"))
    else:
        async with millstream.Server(port=-1, store_dir=way) as server:
            connection = await nats.connect(server.client_url)
            await connection.jetstream().add_stream(name="S", subjects=["s"])
            await connection.jetstream().delete_stream("S")
            await connection.close()
    after = {path: what for path, what in photograph(there).items() if not path.startswith("jetstream")}
    del before["."], after["."]  # it has one name more
    assert after == {path: what for path, what in before.items() if not path.startswith("jetstream")}


@pytest.mark.parametrize(
    "name", ["notes.txt", "$G/notes.txt", "$G/streams/notes.txt", "$G/streams/S/notes.txt"]
)
@pytest.mark.parametrize("where", ["", "$G/streams/S/log"])
async def test_a_file_of_somebody_else_in_our_own_store_is_named_and_left_alone(
    name: str, where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await _store_with_a_stream(tmp_path)
    root = tmp_path / "jetstream"
    path = root / (f"{where}/notes.txt" if where else name)
    path.write_text("mine")
    before = photograph(root)
    async with millstream.Server(port=-1, store_dir=tmp_path) as server:
        assert f"leaves alone: {path.relative_to(root)}" in caplog.text
        connection = await nats.connect(server.client_url)
        assert (await connection.jetstream().stream_info("S")).state.messages == 1
        await connection.close()
    assert photograph(root)[str(path.relative_to(root))] == before[str(path.relative_to(root))]
    (root / MARK).unlink()
    before = photograph(root)
    with pytest.raises(ForeignStore, match=f"did not write: .*{path.name}"):
        claim(str(tmp_path))
    assert photograph(root) == before
    path.unlink()
    claim(str(tmp_path))


@pytest.mark.parametrize(
    "name", ["$G/streams/S/meta.json", "$G/streams/S/log/0000000001.log", "$G/streams/S/log"]
)
async def test_something_else_where_we_would_open_a_file_is_refused(name: str, tmp_path: Path) -> None:
    await _store_with_a_stream(tmp_path)
    path = tmp_path / "jetstream" / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("mine")
    else:
        path.unlink()
        path.mkdir()
    before = photograph(tmp_path)
    with pytest.raises(ForeignStore, match=f"did not write: .*{path.name}"):
        claim(str(tmp_path))
    assert photograph(tmp_path) == before


async def test_streams_that_nats_server_added_to_our_store_are_named_and_kept(tmp_path: Path) -> None:
    await _store_with_a_stream(tmp_path / "ours")
    nats_server_store(STORES[-1])(tmp_path / "theirs")
    streams = Path("jetstream/$G/streams")
    shutil.copytree(tmp_path / "theirs" / streams / "ORDERS", tmp_path / "ours" / streams / "ORDERS")
    before = photograph(tmp_path / "ours")
    with pytest.raises(ForeignStore, match="stream folders of nats-server: ORDERS"):
        claim(str(tmp_path / "ours"))
    assert photograph(tmp_path / "ours") == before


async def _store_with_a_stream(folder: Path, *names: str) -> None:
    async with millstream.Server(port=-1, store_dir=folder) as server:
        connection = await nats.connect(server.client_url)
        for name in names or ("S",):
            await connection.jetstream().add_stream(name=name, subjects=[name.lower()])
            await connection.jetstream().publish(name.lower(), b"1")
        await connection.close()


# -- the mark -----------------------------------------------------------------------------------------


def test_a_new_store_is_marked_first_and_known_again(tmp_path: Path) -> None:
    folder = Path(claim(str(tmp_path / "new")))
    assert os.listdir(folder) == [MARK]
    assert json.loads((folder / MARK).read_text()) == {"format": "millstream store", "version": 1}
    before = photograph(folder)
    claim(str(tmp_path / "new"))
    assert photograph(folder) == before


@pytest.mark.parametrize("size", range(0, 48, 5))
def test_a_mark_that_a_crash_cut_off_is_written_again(size: int, tmp_path: Path) -> None:
    folder = Path(claim(str(tmp_path)))
    whole = (folder / MARK).read_bytes()
    (folder / MARK).unlink()
    (folder / f"{MARK}.new").write_bytes(whole[:size])
    claim(str(tmp_path))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {MARK: whole}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "millstream store", "version": 3}', "a store of version 3"),
        ('{"format": "something", "version": 1}', "not the mark of a store"),
        ("", "not the mark of a store"),
        ("[" * 4000, "not the mark of a store"),
        ('{"format": "millstream store", "version": true}', "not the mark of a store"),
    ],
)
async def test_a_mark_that_is_not_of_this_version_is_refused(text: str, message: str, tmp_path: Path) -> None:
    await _store_with_a_stream(tmp_path)
    (tmp_path / "jetstream" / MARK).write_text(text)
    before = photograph(tmp_path)
    with pytest.raises(ForeignStore, match=message):
        claim(str(tmp_path))
    assert photograph(tmp_path) == before


async def test_a_store_whose_commit_journal_is_gone_starts_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await _store_with_a_stream(tmp_path)
    store_folder.mark_journaled(str(tmp_path / "jetstream"), journaled=True)
    assert json.loads((tmp_path / "jetstream" / MARK).read_text())["version"] == 2
    async with millstream.Server(port=-1, store_dir=tmp_path):
        assert "had a commit journal, which is not there" in caplog.text
        assert json.loads((tmp_path / "jetstream" / MARK).read_text())["version"] == 1


@pytest.mark.parametrize("kept", [(), (0,), (3,), (1, 7)])
def test_a_commit_journal_that_was_being_made_when_power_went_is_ours(
    kept: tuple[int, ...], tmp_path: Path
) -> None:
    folder = Path(claim(str(tmp_path)))
    header = commit_journal.encode_header(bytes(16))
    torn = bytearray(len(header))
    for sector in kept:
        torn[512 * sector : 512 * (sector + 1)] = header[512 * sector : 512 * (sector + 1)]
    (folder / "millstream-0000000002.journal").write_bytes(torn)
    claim(str(tmp_path))


async def test_a_store_that_was_copied_without_its_mark_is_marked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await _store_with_a_stream(tmp_path, "A", "B")
    (tmp_path / "jetstream" / MARK).unlink()
    (tmp_path / "jetstream" / "lock").unlink()
    async with millstream.Server(port=-1, store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        assert (await connection.jetstream().stream_info("B")).state.messages == 1
        await connection.close()
    assert "the mark is written again" in caplog.text
    assert (tmp_path / "jetstream" / MARK).exists()


async def test_without_a_mark_a_stream_without_a_sound_meta_is_not_taken_for_ours(tmp_path: Path) -> None:
    await _store_with_a_stream(tmp_path, "A", "B")
    (tmp_path / "jetstream" / MARK).unlink()
    (tmp_path / "jetstream/$G/streams/B/meta.json").write_text("{}")
    before = photograph(tmp_path)
    with pytest.raises(ForeignStore, match=r"\$G/streams/B"):
        claim(str(tmp_path))
    assert photograph(tmp_path) == before


def test_a_store_inside_of_a_store_is_refused(tmp_path: Path) -> None:
    claim(str(tmp_path))
    before = photograph(tmp_path)
    with pytest.raises(StoreError, match="the folder above it"):
        claim(str(tmp_path / "jetstream"))
    assert photograph(tmp_path) == before


def test_an_empty_folder_and_a_fresh_file_system_are_taken(tmp_path: Path) -> None:
    (tmp_path / "jetstream" / "lost+found").mkdir(parents=True)
    claim(str(tmp_path))
    assert sorted(os.listdir(tmp_path / "jetstream")) == ["lost+found", MARK]


async def test_a_folder_that_cannot_be_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _store_with_a_stream(tmp_path)
    hidden = str(tmp_path / "jetstream/$G/streams/S")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path) == hidden:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    before = photograph(tmp_path)
    with pytest.raises(StoreError, match=f"look at {re.escape(hidden)}: Permission denied"):
        claim(str(tmp_path))
    assert photograph(tmp_path) == before


@pytest.mark.parametrize("name", ["$G", "$G/streams", "$G/streams/S", "$G/streams/S/log", "lock", MARK])
async def test_links_in_a_store_are_not_followed(name: str, tmp_path: Path) -> None:
    await _store_with_a_stream(tmp_path / "store")
    path = tmp_path / "store/jetstream" / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = photograph(tmp_path)
    with pytest.raises(StoreError):
        claim(str(tmp_path / "store"))
    assert photograph(tmp_path) == before


# -- the default folder -------------------------------------------------------------------------------


def test_the_default_store_is_this_users_own_and_not_nats_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    nats_server_store(STORES[0])(tmp_path / "nats")
    before = photograph(tmp_path / "nats")
    folder = Path(claim(""))
    assert folder == tmp_path / f"millstream-{os.geteuid()}" / "jetstream"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    claim("")
    assert photograph(tmp_path / "nats") == before


@pytest.mark.parametrize("trap", ["link", "file", "writable", "other owner"])
def test_a_default_store_that_another_user_may_have_made_is_refused(
    trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = Path(store_folder.default_folder())
    if trap == "link":
        (tmp_path / "victim").mkdir()
        folder.symlink_to(tmp_path / "victim")
    elif trap == "file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o777 if trap == "writable" else 0o700)
    if trap == "other owner":
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
        folder.rename(store_folder.default_folder())
    before = photograph(tmp_path)
    with pytest.raises(StoreError, match="choose a store_dir"):
        claim("")
    assert photograph(tmp_path) == before


# -- while the server runs ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["", "log/", "consumers/", "sub/folder/"])
async def test_deleting_a_stream_leaves_a_file_of_somebody_else_where_it_was(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with millstream.Server(port=-1, store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        streams = connection.jetstream()
        await streams.add_stream(name="S", subjects=["s"])
        await streams.publish("s", b"1")
        await streams.pull_subscribe("s", durable="d")
        notes = tmp_path / "jetstream/$G/streams/S" / where / "notes.txt"
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_text("mine")
        await streams.delete_stream("S")
        with pytest.raises(nats.js.errors.NotFoundError):
            await streams.stream_info("S")
        await connection.close()
    assert notes.read_text() == "mine"
    root = tmp_path / "jetstream"
    kept = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert kept == {str(notes.relative_to(root)), "lock", MARK, RESERVE, "$G/stopped"}
    assert f"S stays, because it holds what Millstream did not write: {where.split('/')[0]}" in caplog.text
    async with millstream.Server(port=-1, store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        assert await connection.jetstream().streams_info() == []
        with pytest.raises(nats.js.errors.APIError, match="not empty"):
            await connection.jetstream().add_stream(name="S", subjects=["s"])
        await connection.close()
    assert notes.read_text() == "mine"


async def test_a_link_in_a_stream_that_is_deleted_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "0000000001.log").write_text("mine")
    async with millstream.Server(port=-1, store_dir=tmp_path / "store") as server:
        connection = await nats.connect(server.client_url)
        await connection.jetstream().add_stream(name="S", subjects=["s"])
        folder = tmp_path / "store/jetstream/$G/streams/S"
        (folder / "log").rename(folder / "consumers")
        (folder / "log").symlink_to(tmp_path / "log")
        await connection.jetstream().delete_stream("S")
        await connection.close()
    assert (tmp_path / "log" / "0000000001.log").read_text() == "mine"


async def test_a_stream_without_strangers_leaves_nothing(tmp_path: Path) -> None:
    await _store_with_a_stream(tmp_path)
    async with millstream.Server(port=-1, store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        await connection.jetstream().delete_stream("S")
        await connection.close()
    root = tmp_path / "jetstream"
    left = sorted(path.name for path in root.rglob("*") if path.is_file())
    assert left == ["lock", MARK, RESERVE, "stopped"]
    assert list((root / "$G/deleted").iterdir()) == []
