"""`millstream context`: files that the `nats` tool reads and writes, too."""

import json
import os
from pathlib import Path

import pytest

from millstream.cli.commands import context_files as files
from millstream.cli.endings import CONFLICT, FAILED, NOT_FOUND, WRONG_USAGE
from millstream.cli.main import main
from millstream.link.contexts import load_context, selected_context


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "nats"


def run(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["context", *map(str, arguments)])
    assert ended.value.code == code


def test_a_context_is_made_selected_changed_and_deleted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        "add",
        "prod",
        "-s",
        "tls://a,b:1",
        "--user",
        "me",
        "--password",
        "s3cret",
        "--description",
        "the real one",
        "--select",
    )
    path = folder / "context" / "prod.json"
    assert path.stat().st_mode & 0o777 == 0o600
    layer = load_context("prod", os.environ)
    assert (layer.values["user"], layer.values["password"], len(layer.values["servers"])) == (
        "me",
        "s3cret",
        2,
    )
    assert selected_context(os.environ) == "prod"
    run("add", "prod", "-s", "c", code=CONFLICT)
    path.write_text(json.dumps({**json.loads(path.read_text()), "color_scheme": "blue"}))
    run("add", "prod", "-s", "c", "--force")
    kept = json.loads(path.read_text())
    assert (kept["color_scheme"], kept["password"], kept["url"]) == ("blue", "s3cret", "nats://c:4222")
    capsys.readouterr()
    run("show")
    run("show", "--json")
    run("ls")
    run("ls", "--json")
    assert "s3cret" not in capsys.readouterr().out
    run("show", "prod", "--secrets")
    assert "s3cret" in capsys.readouterr().out
    run("rm", "prod", code=WRONG_USAGE)
    run("rm", "prod", "--force")
    assert selected_context(os.environ) == ""
    assert list(folder.rglob("*.json")) == []
    assert [each.name for each in (folder / "context").iterdir()] == []


def test_mistakes_change_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("add", "x", code=WRONG_USAGE)
    run("add", "../x", "-s", "a", code=WRONG_USAGE)
    run("add", "a b", "-s", "a", code=WRONG_USAGE)
    run("add", "x", "-s", "a", "--token", "t", "--user", "u", code=WRONG_USAGE)
    run("add", "x", "-s", "a", "--timeout", "3s", code=WRONG_USAGE)
    run("select", code=WRONG_USAGE)
    run("select", "none", code=NOT_FOUND)
    run("show", code=WRONG_USAGE)
    run("show", "none", code=NOT_FOUND)
    run("rm", "none", "-f", code=NOT_FOUND)
    assert not folder.exists()
    run("add", "x", "-s", "a", "--password", "env://NOT_SET", "--user", "u")
    (folder / "context" / "bad.json").write_text("{")
    run("show", "bad", code=FAILED)
    run("ls")
    assert "Traceback" not in capsys.readouterr().err


def test_passwords_in_addresses_are_hidden() -> None:
    shown = files.without_secrets(
        {"url": "nats://u:p@h:1,nats://t@h,nats://h", "token": "t", "user": "u", "creds": "/f"}
    )
    assert shown == {
        "url": "nats://u:********@h:1,nats://********@h,nats://h",
        "token": files.HIDDEN,
        "user": "u",
        "creds": "/f",
    }
