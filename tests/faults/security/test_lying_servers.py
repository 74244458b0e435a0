"""Commands that talk to a server which lies: nothing outside their folder changes, nobody waits for ever."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.cli.main import main
from millstream.transfer import snapshots
from millstream.transfer.archive import ArchiveReading, ArchiveWriting
from millstream.transfer.folder import BackupWriter
from tests.kits.foreign import FOREIGN, photograph
from tests.kits.security.lying_server import Client, LyingServer, info, names, snapshot, state


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder with somebody's files, in which the commands run; nothing of it may change."""
    FOREIGN["home"](tmp_path / "home")
    before = photograph(tmp_path / "home")
    yield tmp_path / "home"
    assert photograph(tmp_path / "home") == before


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert not any(each < " " and each != "\n" for each in told.out + told.err), (
        "a control character is printed"
    )
    return int(ended.value.code or 0), told.out, told.err


def archive(**more: Any) -> bytes:
    writing = ArchiveWriting(state(messages=1, bytes=40, first_seq=1, last_seq=1) | more)
    writing.add(1, 7, "a.b", b"", b"body")
    return writing.take() + writing.finish()


ONE = {"messages": 1, "bytes": 40, "first_seq": 1, "last_seq": 1}


def test_an_honest_answer_is_backed_up(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"STREAM.NAMES": names("A"), "STREAM.SNAPSHOT": snapshot(archive(), **ONE)}
    with LyingServer(answers) as server:
        code, out, err = run(capsys, "backup", tmp_path / "b", "--server", server.url)
    assert code == 0, err
    assert "A: 1 messages" in out
    assert sorted(os.listdir(tmp_path / "b" / "A")) == ["backup.json", "stream.tar.s2"]


NAMES = {
    "a path": "a/b",
    "a way up": "..",
    "a longer way up": "../../home/Documents",
    "here": ".",
    "nothing": "",
    "a backslash": "a\\b",
    "NUL": "a\0b",
    "an escape sequence": "\x1b]0;owned\x07\x1b[2J",
    "a line": "A\r\nPUB x 0\r\n\r\n",
    "a blank": "a b",
    "a dot": "a.b",
    "a wildcard": ">",
    "too long": "x" * 5000,
    "a number": 7,
    "a list": ["A"],
    "null": None,
    "lone surrogate": "\ud800",
    "bidi": "\u202eA",
}


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("name", [*NAMES.values(), "ABSOLUTE"], ids=[*NAMES, "absolute"])
def test_a_stream_name_that_is_none_writes_nothing(
    name: object, force: list[str], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "ABSOLUTE":
        name = str(home / "Documents")
    # Half of a character is found by the reader of JSON, before anybody looks at names.
    refusal = "is no JSON object" if name == NAMES["lone surrogate"] else "no stream can have the name"
    answers = {"STREAM.NAMES": names("A", name), "STREAM.SNAPSHOT": snapshot(archive(), **ONE)}
    with LyingServer(answers) as server:
        code, _, err = run(capsys, "backup", tmp_path / "b", "--server", server.url, *force)
        assert code == 1
        assert refusal in err
        assert not (tmp_path / "b").exists()
        code, _, err = run(capsys, "promote", "--server", server.url, "--to", server.url, "--replace")
        assert code == 1
        assert refusal in err
        assert not any("DELETE" in each for each in server.subjects)


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("linked", [False, True], ids=["", "link"])
def test_a_folder_that_is_no_backup_is_never_replaced(
    kind: str, linked: bool, force: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "b" / "A"
    there = tmp_path / "theirs" if linked else place
    FOREIGN[kind](there)
    if linked:
        place.parent.mkdir()
        place.symlink_to(there)
    before = photograph(tmp_path)
    answers = {"STREAM.NAMES": names("A"), "STREAM.SNAPSHOT": snapshot(archive(), **ONE)}
    with LyingServer(answers) as server:
        code, out, _ = run(capsys, "backup", tmp_path / "b", "--server", server.url, *force)
    assert code == 1
    assert "FAILED" in out
    del before["b"]  # a folder came and went in it
    after = photograph(tmp_path)
    del after["b"]
    assert after == before


@pytest.mark.parametrize("beside", [".A.partial", ".A.old", "A"])
def test_a_backup_with_a_file_of_somebody_else_is_not_replaced(
    beside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"STREAM.NAMES": names("A"), "STREAM.SNAPSHOT": snapshot(archive(), **ONE)}
    with LyingServer(answers) as server:
        assert run(capsys, "backup", tmp_path, "--server", server.url)[0] == 0
        assert run(capsys, "backup", tmp_path, "--server", server.url, "--force")[0] == 0
        (tmp_path / beside).mkdir(exist_ok=True)
        (tmp_path / beside / "thesis.txt").write_text("mine")
        before = photograph(tmp_path)
        code, out, _ = run(capsys, "backup", tmp_path, "--server", server.url, "--force")
    assert code == 1
    assert "thesis.txt" in out
    assert photograph(tmp_path) == before


SHAPES: dict[str, Any] = {
    "no object": b"[]",
    "no JSON": b"{",
    "deep": b'{"streams":' + b"[" * 200_000,
    "no list": {"streams": "A", "total": 1},
    "an error that is none": {"error": "no"},
    "an error with strange numbers": {"error": {"code": "x", "err_code": [], "description": "\x1b[2Jgone"}},
    "a total that is none": {"streams": ["A"], "total": "1"},
    "a long number": b'{"streams":["A"],"total":' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("command", ["backup", "promote"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_answer_that_makes_no_sense_is_told_in_a_line(
    shape: Any, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LyingServer({"STREAM.NAMES": shape}) as server:
        to = [tmp_path / "b"] if command == "backup" else ["--to", server.url]
        code, out, err = run(capsys, command, *to, "--server", server.url)
    assert code == 1
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("kind", ["the same page", "another page each time"])
def test_a_list_without_an_end_is_given_up(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.transfer.api._MOST_LISTED", 5000)

    def page(client: Client, subject: str, payload: bytes, reply: str) -> None:
        offset = json.loads(payload)["offset"] if kind != "the same page" else 0
        client.send(reply, json.dumps(names(*(f"S{offset + n}" for n in range(100)), total=2**63)).encode())

    with LyingServer({"STREAM.NAMES": page}) as server:
        code, _, err = run(capsys, "backup", tmp_path / "b", "--server", server.url)
    assert code == 1
    assert "has no end" in err


SNAPSHOTS: dict[str, Any] = {
    "of another stream": snapshot(archive(), name="B", **ONE),
    "without a state": {"config": {"name": "A"}},
    "with a negative state": snapshot(archive(), messages=-1),
    "with an endless number": snapshot(archive(), messages=2**70),
    "of bytes that are no number": snapshot(archive(), bytes="many"),
    "with other numbers than its archive": snapshot(archive(), messages=5, bytes=40, first_seq=1, last_seq=5),
    "that is no archive": snapshot(b"what is this", **ONE),
    "that ends too early": snapshot(archive()[:40], **ONE),
    "that is empty": snapshot(**ONE),
}


@pytest.mark.parametrize("answer", SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_a_snapshot_that_lies_leaves_nothing(
    answer: Any, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LyingServer({"STREAM.NAMES": names("A"), "STREAM.SNAPSHOT": answer}) as server:
        code, _, _ = run(capsys, "backup", tmp_path / "b", "--server", server.url)
    assert code == 1
    assert not (tmp_path / "b" / "A").exists()
    assert not (tmp_path / "b" / ".A.partial").exists()


def test_chunks_without_an_end_are_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_SPARE", 1024 * 1024)
    filler = b"\xfe\xf0\xff\x00" + bytes(0xFFF0)  # a frame to be stepped over

    def endless(client: Client, subject: str, payload: bytes, reply: str) -> None:
        snapshot(archive(), filler, end=False, **ONE)(client, subject, payload, reply)
        inbox = json.loads(payload)["deliver_subject"]
        for _ in range(1000):
            client.send(inbox, filler, reply="$JS.ACK.x")

    with LyingServer({"STREAM.NAMES": names("A"), "STREAM.SNAPSHOT": endless}) as server:
        code, out, _ = run(capsys, "backup", tmp_path / "b", "--server", server.url)
    assert code == 1
    assert "told of 40 bytes and sends more than" in out
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.parametrize("silent", ["at once", "after the first chunk", "after the connection"])
def test_a_server_that_falls_silent_is_not_waited_for_for_ever(
    silent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(snapshots.Snapshot.__init__.__kwdefaults__, "silence_s", 0.5)
    answers: dict[str, Any] = {"STREAM.NAMES": names("A")}
    if silent == "after the first chunk":
        answers["STREAM.SNAPSHOT"] = snapshot(archive()[:10], end=False, **ONE)
    elif silent == "at once":
        answers["STREAM.SNAPSHOT"] = lambda *_: None
    else:
        answers["STREAM.NAMES"] = lambda *_: None
    with LyingServer(answers) as server:
        code, out, err = run(capsys, "backup", tmp_path / "b", "--server", server.url, "--timeout", "0.5")
    assert code == 1
    assert out + err
    assert not (tmp_path / "b" / "A").exists()


FIRST = {
    "max_payload 0": {"max_payload": 0},
    "max_payload below 0": {"max_payload": -1},
    "a huge max_payload": {"max_payload": 2**62},
    "escape sequences": {"server_name": "\x1b[2J", "version": "\x1b[2J"},
}


@pytest.mark.parametrize("told", FIRST.values(), ids=FIRST)
def test_an_info_that_lies_costs_at_most_the_command(
    told: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"STREAM.NAMES": names("A"), "STREAM.SNAPSHOT": snapshot(archive(), **ONE)}
    with LyingServer(answers, info=told) as server:
        run(capsys, "backup", tmp_path / "b", "--server", server.url, "--timeout", "1")
        run(capsys, "promote", "--server", server.url, "--to", server.url, "--timeout", "1")


# -- restore --------------------------------------------------------------------------------------------


def a_backup(path: Path, name: Any = "A") -> Path:
    reading = ArchiveReading()
    reading.feed(archive())
    with BackupWriter(path) as writer:
        writer.write(archive())
        writer.commit({"name": "A", "subjects": ["a.>"]}, state(**ONE), reading.finish())
    if name != "A":
        found = json.loads((path / "backup.json").read_text())
        found["config"]["name"] = name
        (path / "backup.json").write_text(json.dumps(found))
    return path


@pytest.mark.parametrize(
    "name", [each for each in NAMES.values() if each], ids=[key for key, each in NAMES.items() if each]
)
def test_a_backup_of_a_stream_that_cannot_be_is_not_sent(
    name: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_backup(tmp_path / "A", name)
    with LyingServer() as server:
        code, _, err = run(capsys, "restore", tmp_path, "--server", server.url)
    assert code == 1
    assert "no stream can have the name" in err
    assert server.subjects == []


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "x",
        "victim.commands",
        "$JS.API.STREAM.DELETE.A",
        "$JS.SNAPSHOT.RESTORE.A.>",
        "a b",
        7,
        None,
        "$JS.SNAPSHOT.RESTORE.A.x\r\nPUB y 0\r\n",
    ],
)
def test_an_archive_is_only_sent_where_archives_go(
    subject: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_backup(tmp_path / "A")
    with LyingServer({"STREAM.RESTORE": {"deliver_subject": subject}}) as server:
        code, out, _ = run(capsys, "restore", tmp_path, "--server", server.url)
        assert code == 1
        assert "the archive cannot be sent to" in out
        assert server.subjects == ["$JS.API.STREAM.INFO.A", "$JS.API.STREAM.RESTORE.A"]


@pytest.mark.parametrize("end", [b"", b"[]", json.dumps(info("B")).encode(), b'{"config": 7}', b"{}"])
def test_the_end_of_a_restore_that_makes_no_sense_is_a_failure(
    end: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_backup(tmp_path / "A")

    def take(client: Client, subject: str, payload: bytes, reply: str) -> None:
        client.send(reply, b"" if payload else end)

    answers = {
        "STREAM.RESTORE": {"deliver_subject": "$JS.SNAPSHOT.RESTORE.A.x"},
        "$JS.SNAPSHOT.RESTORE": take,
    }
    with LyingServer(answers) as server:
        code, out, _ = run(capsys, "restore", tmp_path, "--server", server.url)
    assert code == 1
    assert "FAILED" in out


# -- promote --------------------------------------------------------------------------------------------

CONSUMERS: dict[str, Any] = {
    "with a path for a name": {"consumers": [{"name": "a/b", "config": {}}], "total": 1},
    "without a configuration": {"consumers": [{"name": "c"}], "total": 1},
    "that are no objects": {"consumers": ["c", 7], "total": 2},
    "that are no list": {"consumers": {"c": 1}, "total": 1},
    "without an end": {"consumers": [{"name": "c", "config": {}}], "total": 10**9},
}


@pytest.mark.parametrize("told", CONSUMERS.values(), ids=CONSUMERS)
def test_consumers_that_cannot_be_end_a_promotion_before_it_begins(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"STREAM.NAMES": names("A"), "STREAM.INFO": info("A"), "CONSUMER.LIST": told}
    with LyingServer(source) as server, LyingServer() as target:
        code, _, err = run(capsys, "promote", "--server", server.url, "--to", target.url, "--cut-over")
    assert code == 1
    assert err
    assert target.subjects == []
