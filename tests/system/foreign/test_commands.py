"""Every command, pointed at folders of other programs: every byte, mode and time is still there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.base.errors import MillstreamError
from millstream.cli.app import every_command
from millstream.cli.main import main
from millstream.link.options import FIELDS
from millstream.server.process_files import pid_file
from tests.kits.foreign import FOREIGN, photograph, run
from tests.kits.paths import ROOT
from tests.kits.security.lying_server import LyingServer, names, snapshot

NOWHERE = "nats://127.0.0.1:1"

PIPELINE = """
[nats]
servers = "{nowhere}"
[[job]]
name = "keep"
kind = "archive"
streams = ["ORDERS"]
table = "{folder}"
checkpoint = "{folder}"
"""


def _pipeline(*command: str) -> Callable[[Path, str], list[str | Path]]:
    def arguments(folder: Path, url: str) -> list[str | Path]:
        file = folder.parent / "pipeline.toml"
        file.write_text(PIPELINE.format(folder=folder, nowhere=NOWHERE))
        return ["pipeline", *command, file]

    return arguments


def _config(name: str) -> Callable[[Path, str], list[str | Path]]:
    names = name.split()

    def arguments(folder: Path, url: str) -> list[str | Path]:
        return [*names, *["S", "C"][: 1 + (names[0] == "consumer")], "--config", folder, "--server", url]

    return arguments


# How each command is pointed at a folder; the server has a stream with the folder's name.  `pipeline run`
# starts Spark, which takes half a minute: what it does to folders is tested at the table itself, below.
COMMANDS: dict[str, Callable[[Path, str], list[str | Path]]] = {
    "serve": lambda folder, url: ["serve", "-p", "-1", "-js", "-sd", folder, "-P", folder],
    "version": lambda folder, url: ["version"],
    "backup": lambda folder, url: ["backup", folder.parent, "--force", "--server", url],
    "restore": lambda folder, url: ["restore", folder, "--server", url],
    "promote": lambda folder, url: ["promote", "--server", url, "--to", url, "--work-dir", folder],
    "adopt": lambda folder, url: ["adopt", folder, "--to", folder.parent / "adopted"],
    "gateway": lambda folder, url: ["gateway", "--config-file", folder],
    "pipeline check": _pipeline("check"),
    "pipeline run": _pipeline("check"),
    "dev": lambda folder, url: ["dev", "--data", folder],
    "doctor": lambda folder, url: ["doctor", "--store", folder, "--server", url],
    "obj get": lambda folder, url: ["obj", "get", "b", "o", "--output", folder, "--force", "--server", url],
    "obj put": lambda folder, url: ["obj", "put", "b", folder, "--server", url],
    **{name: _config(name) for name in ("stream add", "stream edit", "consumer add", "consumer edit")},
    "pub": lambda folder, url: ["pub", "s", "--file", folder, "--server", url],
    "req": lambda folder, url: ["req", "s", "--file", folder, "--server", url],
    "kv put": lambda folder, url: ["kv", "put", "b", "k", "--file", folder, "--server", url],
    "kv create": lambda folder, url: ["kv", "create", "b", "k", "--file", folder, "--server", url],
    "dlq redrive": lambda folder, url: ["dlq", "redrive", "D", "1", "--file", folder, "--server", url],
}
# What does not look at the content of a folder.
DO_NOT_LOOK = set(COMMANDS) - {"serve", "backup", "restore", "dev", "doctor"}


OF_CONNECTIONS = {flag for each in FIELDS for flag in each.names.flags}


def _names() -> set[str]:
    """Every command that takes a path, by the command line's own table."""
    return {
        name
        for name, command in every_command().items()
        if any(
            each.metavar in ("FILE", "FOLDER") and each.opts[0].replace("--to-", "--") not in OF_CONNECTIONS
            for each in command.params
        )
    }


def test_every_command_with_a_path_is_tried() -> None:
    assert _names() | {"serve", "version"} == set(COMMANDS)  # `serve` has flags of its own


def _told(arguments: list[str | Path], capfd: pytest.CaptureFixture[str]) -> str:
    """Run a command, and return what it says; a server in a process of its own, as it sets up logging."""
    if arguments[0] == "serve":
        return run(*arguments).stderr
    with pytest.raises(SystemExit):
        main([str(each) for each in arguments])
    return capfd.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("linked", [False, True], ids=["", "link"])
def test_a_command_leaves_folders_of_others_as_they_are(
    command: str, linked: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind in ("nats-server-2.15.1",) if command in DO_NOT_LOOK else ("nats-server-2.15.1", "home"):
        there = tmp_path / kind / "theirs"
        FOREIGN[kind](there)
        way = tmp_path / kind / "link" if linked else there
        if linked:
            way.symlink_to(there)
        before = photograph(there)
        answers = {"STREAM.NAMES": names(way.name), "STREAM.SNAPSHOT": snapshot()}
        with LyingServer(answers) as server:
            assert "Traceback" not in _told(COMMANDS[command](way, server.url), capfd)
        assert photograph(there) == before, kind


# -- tables of Spark jobs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*FOREIGN, "one file", "a hidden folder"])
@pytest.mark.parametrize("linked", [False, True], ids=["", "link"])
def test_a_folder_with_anything_in_it_does_not_become_a_table(
    kind: str, linked: bool, tmp_path: Path
) -> None:
    from millstream.spark.jobs.errors import TableError
    from millstream.spark.jobs.files import LocalFiles
    from millstream.spark.jobs.table import ParquetTable

    there = tmp_path / "theirs"
    if kind == "one file":
        there.mkdir()
        (there / "thesis.txt").write_text("mine")
    elif kind == "a hidden folder":
        (there / "_millstream" / "staging").mkdir(parents=True)
        (there / "_millstream" / "staging" / "thesis.txt").write_text("mine")
    else:
        FOREIGN[kind](there)
    way = there
    if linked:
        way = tmp_path / "link"
        way.symlink_to(there)
    before = photograph(there)
    table = ParquetTable(LocalFiles(str(way)), ["day"])
    with pytest.raises(TableError, match="choose an empty folder"), table.writing():
        pass
    with pytest.raises(TableError, match="choose an empty folder"):
        table.claim("query", {})
    with pytest.raises(TableError, match="no table that Millstream wrote"):
        ParquetTable.open(LocalFiles(str(way)))
    assert photograph(there) == before


def test_what_others_put_into_a_table_stays_there(tmp_path: Path) -> None:
    from millstream.spark.jobs.errors import TableError
    from millstream.spark.jobs.files import LocalFiles
    from millstream.spark.jobs.table import ParquetTable

    files = LocalFiles(str(tmp_path))
    table = ParquetTable(files, ["day"])
    with table.writing():
        table.claim("query", {})
    (tmp_path / "day=1" / "batch=mine").mkdir(parents=True)
    (tmp_path / "day=1" / "batch=mine" / "thesis.txt").write_text("mine")
    unfinished = tmp_path / "day=1" / "batch=b000000000007"
    unfinished.mkdir()
    (unfinished / "part-0.snappy.parquet").write_bytes(b"")
    table._recover()
    assert not unfinished.exists()
    assert (tmp_path / "day=1" / "batch=mine" / "thesis.txt").read_text() == "mine"
    unfinished.mkdir()
    (unfinished / "thesis.txt").write_text("mine")
    table._recovered = False
    with pytest.raises(TableError, match=r"thesis\.txt"):
        table._recover()
    assert (unfinished / "thesis.txt").read_text() == "mine"
    (tmp_path / "day=1" / "batch=b000000000008").symlink_to(tmp_path / "day=1" / "batch=mine")
    (unfinished / "thesis.txt").unlink()
    table._recover()
    assert (tmp_path / "day=1" / "batch=mine" / "thesis.txt").read_text() == "mine"


# -- a pid file, and make clean -----------------------------------------------------------------------------


def test_a_pid_file_takes_the_place_of_nothing_but_a_process_id(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("mine")
    with pytest.raises(MillstreamError, match="something else than a process id"), pid_file(str(thesis)):
        pass
    assert thesis.read_text() == "mine"
    for text in ("", "123", "123\n"):
        path = tmp_path / "pid"
        path.write_text(text)
        with pid_file(str(path)):
            assert path.read_text() == str(os.getpid())
        assert not path.exists()
    with pid_file(str(path)):
        path.write_text("1")  # another server has begun
    assert path.read_text() == "1"


def test_make_clean_removes_only_what_make_has_made(tmp_path: Path) -> None:
    root = ROOT
    project = tmp_path / "project"
    (project / "src/millstream").mkdir(parents=True)
    (project / "Makefile").write_bytes((root / "Makefile").read_bytes())
    FOREIGN["home"](tmp_path / "elsewhere")
    (project / ".venv").symlink_to(tmp_path / "elsewhere")
    for name in (
        "build/notes.txt",
        "dist/thesis.pdf",
        "src/millstream/mine.so",
        "src/other.egg-info/PKG-INFO",
    ):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("mine")
    before = photograph(tmp_path)
    for name in (
        "build/lib.x/a.o",
        "dist/millstream-1.whl",
        "src/millstream/a.cpython-311.so",
        ".ruff_cache/x",
    ):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("ours")
    subprocess.run(["make", "-C", str(project), "clean"], check=True, capture_output=True)
    after = photograph(tmp_path)
    assert {path: what[3] for path, what in after.items()} == {path: what[3] for path, what in before.items()}
    (project / ".venv").unlink()
    (project / ".venv").mkdir()
    (project / ".venv" / "pyvenv.cfg").write_text("of somebody else")
    subprocess.run(["make", "-C", str(project), "clean"], check=True, capture_output=True)
    assert (project / ".venv" / "pyvenv.cfg").exists()
    (project / ".venv" / ".tools").write_text("")
    subprocess.run(["make", "-C", str(project), "clean"], check=True, capture_output=True)
    assert not (project / ".venv").exists()
