"""`millstream kv` and `millstream obj` on a real server."""

import os
from pathlib import Path

from millstream.cli.endings import CONFLICT, FAILED, NOT_FOUND, NOTHING, WRONG_USAGE
from tests.kits.cli import ESCAPES, Cli, assert_harmless


def test_keys_are_written_read_and_deleted(cli: Cli, name: str) -> None:
    cli("kv", "add", name, "--history", 5, "--storage", "memory")
    cli("kv", "put", name, "a.b", "one")
    cli("kv", "create", name, "a.b", "again", code=CONFLICT)
    assert cli("kv", "update", name, "a.b", "two", 1, "--json").json["revision"] == 2
    cli("kv", "update", name, "a.b", "late", 1, code=CONFLICT)
    assert cli("kv", "get", name, "a.b").out == "two\n"
    assert cli("kv", "get", name, "a.b", "--revision", 1, "--raw").raw == b"one"
    assert [each["data"] for each in cli("kv", "history", name, "a.b", "--json").json] == ["one", "two"]
    cli("kv", "put", name, "c", stdin=b"piped")
    assert cli("kv", "keys", name).out == "a.b\nc\n"
    assert cli("kv", "keys", name, "a.").out == "a.b\n"
    cli("kv", "keys", name, "zz", code=NOTHING)
    cli("kv", "del", name, "c", "--force")
    cli("kv", "get", name, "c", code=NOT_FOUND)
    watched = cli("kv", "watch", name, "--count", 2, "--json").lines
    assert [(each["key"], each["operation"]) for each in watched] == [("a.b", "put"), ("c", "delete")]
    cli("kv", "purge", name, "a.b", "--force")
    assert len(cli("kv", "history", name, "a.b", "--json").json) == 1
    assert name in cli("kv", "ls", "--names", "--json").json
    assert cli("kv", "status", name, "--json").json["history"] == 5
    cli("kv", "rm", name, code=WRONG_USAGE)
    cli("kv", "rm", name, "--force")
    cli("kv", "status", name, code=NOT_FOUND)


def test_keys_come_in_pages(cli: Cli, name: str) -> None:
    cli("kv", "add", name, "--storage", "memory")
    for number in range(5):
        cli("kv", "put", name, f"k{number}", "x")
    first = cli("kv", "keys", name, "--limit", 3)
    assert first.out == "k0\nk1\nk2\n"
    after = first.err.split("--after ")[1].strip()
    assert cli("kv", "keys", name, "--after", after).out == "k3\nk4\n"


def test_objects_are_stored_and_read(cli: Cli, name: str, tmp_path: Path) -> None:
    content = os.urandom(700_000)
    file = tmp_path / "data.bin"
    file.write_bytes(content)
    cli("obj", "add", name, "--storage", "memory")
    cli("obj", "put", name, file)
    cli("obj", "put", name, file, code=CONFLICT)
    cli("obj", "put", name, "-", "--name", "piped", stdin=b"")
    assert cli("obj", "get", name, "data.bin", "-O", "-").raw == content
    cli("obj", "get", name, "data.bin", "-O", file, code=CONFLICT)
    cli("obj", "get", name, "data.bin", "-O", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "data.bin"]
    cli("obj", "link", name, "alias", "data.bin")
    assert cli("obj", "get", name, "alias", "-O", "-").raw == content
    assert [each["name"] for each in cli("obj", "ls", name, "--json").lines] == ["data.bin", "piped", "alias"]
    assert cli("obj", "info", name, "data.bin", "--json").json["size"] == len(content)
    assert cli("obj", "watch", name, "--count", 1, "--json").lines[0]["name"] == "data.bin"
    cli("obj", "rm", name, "data.bin", "--force")
    cli("obj", "get", name, "data.bin", "-O", "-", code=NOT_FOUND)
    cli("obj", "seal", name, "--force")
    cli("obj", "put", name, file, code=FAILED)
    cli("obj", "rm", name, "--force")
    cli("obj", "ls", name, code=NOT_FOUND)


def test_ls_of_a_bucket_lists_its_keys(cli: Cli, name: str) -> None:
    cli("kv", "add", name, "--storage", "memory")
    cli("kv", "ls", name, code=NOTHING)
    cli("kv", "put", name, "a.b", "1")
    assert cli("kv", "ls", name).out == "a.b\n"
    assert cli("kv", "ls", name, "--json").lines[0]["key"] == "a.b"
    cli("kv", "ls", f"{name}x", code=NOT_FOUND)


def test_names_and_values_are_shown_harmlessly(cli: Cli, name: str, tmp_path: Path) -> None:
    cli("kv", "add", name, "--storage", "memory", "--description", "\x1b[31mred")
    cli("kv", "put", name, "k", stdin=ESCAPES.encode())
    cli("obj", "add", name, "--storage", "memory")
    cli("obj", "put", name, "-", "--name", ESCAPES, "--description", ESCAPES, stdin=b"x")
    for command in (
        ["kv", "get", name, "k"],
        ["kv", "history", name, "k"],
        ["kv", "watch", name, "--count", 1],
        ["kv", "ls"],
        ["kv", "status", name],
        ["obj", "ls", name],
        ["obj", "info", name, ESCAPES],
        ["obj", "watch", name, "--count", 1],
    ):
        assert_harmless(cli(*command).out)
    assert_harmless(cli("obj", "get", name, ESCAPES, code=WRONG_USAGE).err)
    cli("obj", "get", name, "../../etc/passwd", code=NOT_FOUND)
    cli("obj", "get", name, "..", code=WRONG_USAGE)
    cli("obj", "get", name, "x", "-O", "-", terminal=True, code=WRONG_USAGE)
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_one_clear_sentence(cli: Cli, name: str) -> None:
    cli("kv", "add", name, "--storage", "memory")
    assert f'did you mean "{name}"?' in cli("kv", "get", f"{name}x", "k", code=NOT_FOUND).err
    cli("kv", "get", name, "a b", code=WRONG_USAGE)
    cli("kv", "get", name, "none", code=NOT_FOUND)
    cli("kv", "add", "a.b", code=WRONG_USAGE)
    assert "--history" in cli("kv", "add", "x", "--history", 65, code=WRONG_USAGE).err
    cli("kv", "add", name, "--storage", "memory", "--history", 9, code=CONFLICT)
    cli("kv", "put", name, "k", "v", "--ttl", "1ms", code=WRONG_USAGE)
    cli("obj", "put", f"{name}y", "/none", code=NOT_FOUND)
    cli("obj", "ls", "a b", code=WRONG_USAGE)
