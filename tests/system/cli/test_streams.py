"""`millstream stream` on a real server."""

import json
from pathlib import Path

from millstream.cli.endings import CONFLICT, NO_SERVER, NOT_FOUND, NOTHING, WRONG_USAGE
from tests.kits.cli import ESCAPES, Cli, assert_harmless


def test_a_stream_is_made_filled_read_and_deleted(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--max-age", "7d", "--metadata", "team=blue")
    cli("pub", f"{name}.eu", "order {n}", "--count", 3, "--jetstream")
    info = cli("stream", "info", name, "--json").json
    assert info["config"]["max_age"] == 7 * 86_400 * 10**9
    assert info["config"]["metadata"]["team"] == "blue"
    assert info["state"]["messages"] == 3
    assert name in cli("stream", "ls").out
    assert name in cli("stream", "ls", "--names", "--json").json
    assert f"{name}.eu" in cli("stream", "info", name, "--subjects").out
    assert "order 2" in cli("stream", "view", name, "--seq", 2, "--limit", 1).out
    assert [each["data"] for each in cli("stream", "view", name, "--last", 2, "--json").lines] == [
        "order 2",
        "order 3",
    ]
    assert cli("stream", "view", name, "--seq", 3, "--raw").raw == b"order 3\n"
    assert cli("stream", "purge", name, "--keep", 1, "--force", "--json").json == {"purged": 2}
    cli("stream", "rm", name, "--force")
    cli("stream", "info", name, code=NOT_FOUND)


def test_a_work_queue_is_viewed_without_consuming(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--retention", "work")
    cli("consumer", "add", name, "workers")
    cli("pub", name, "job {n}", "--count", 3, "-J")
    seen = [each["data"] for each in cli("stream", "view", name, "--json").lines]
    assert seen == [
        each["data"] for each in cli("stream", "tail", name, "--seq", 1, "--count", 3, "--json").lines
    ]
    assert seen == ["job 1", "job 2", "job 3"]
    assert cli("consumer", "info", name, "workers", "--json").json["num_pending"] == 3
    assert cli("consumer", "ls", name, "--names", "--json").json == ["workers"]


def test_the_newest_are_found_behind_gaps_and_other_subjects(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    for each in ("a", "b"):
        cli("pub", f"{name}.{each}", "x{n}", "--count", 20, "-J")
    cli("stream", "purge", name, "--subject", f"{name}.b", "--keep", 1, "-f")
    last = cli("stream", "view", name, "--last", 3, "--json").lines
    assert [each["seq"] for each in last] == [19, 20, 40]
    only = cli("stream", "view", name, "--last", 2, "--subject", f"{name}.a", "--json").lines
    assert [each["seq"] for each in only] == [19, 20]


def test_tail_follows_a_stream_with_limits(cli: Cli, name: str) -> None:
    cli("stream", "add", name)
    cli("pub", name, "{n}", "--count", 5, "-J")
    assert [
        each["seq"] for each in cli("stream", "tail", name, "--seq", 3, "--count", 3, "--json").lines
    ] == [3, 4, 5]
    assert [
        each["seq"] for each in cli("stream", "tail", name, "--last", 2, "--count", 2, "--json").lines
    ] == [4, 5]
    since = cli("stream", "tail", name, "--since", "1h", "--count", 1, "--json").lines
    assert [each["seq"] for each in since] == [1]


def test_edit_shows_what_changes_and_asks(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    refused = cli("stream", "edit", name, "--max-msgs", 10, code=WRONG_USAGE)
    assert "max_msgs" in refused.out
    assert "--force" in refused.err
    assert cli("stream", "info", name, "--json").json["config"]["max_msgs"] == -1
    cli("stream", "edit", name, "--max-msgs", 10, stdin=b"n\n", terminal=True, code=WRONG_USAGE)
    assert cli("stream", "info", name, "--json").json["config"]["max_msgs"] == -1
    cli("stream", "edit", name, "--max-msgs", 10, stdin=b"y\n", terminal=True)
    changed = cli("stream", "info", name, "--json").json["config"]
    assert (changed["max_msgs"], changed["subjects"]) == (10, [f"{name}.>"])
    dry = cli("stream", "edit", name, "--max-msgs", "unlimited", "--dry-run", "--json").json
    assert dry == {"would_change": [["max_msgs", "10", "-1"]]}
    assert "so already" in cli("stream", "edit", name, "--max-msgs", 10).out


def test_nothing_is_destroyed_without_a_yes(cli: Cli, name: str) -> None:
    cli("stream", "add", name)
    cli("pub", name, "kept", "-J")
    for command in (["stream", "rm", name], ["stream", "purge", name]):
        assert "--force" in cli(*command, code=WRONG_USAGE).err
        assert "nothing was done" in cli(*command, stdin=b"\n", terminal=True, code=WRONG_USAGE).err
    assert cli("stream", "info", name, "--json").json["state"]["messages"] == 1


def test_a_copy_has_configuration_and_messages(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--max-age", "1h")
    cli("pub", f"{name}.a", "{n}", "--count", 50, "-J")
    cli("stream", "copy", name, f"{name}B", code=WRONG_USAGE)
    cli("stream", "copy", name, f"{name}B", "--subjects", f"{name}B.>")
    cli("stream", "copy", name, f"{name}C", "--messages", "--storage", "memory")
    copied = cli("stream", "info", f"{name}C", "--json").json
    assert (copied["state"]["messages"], copied["config"]["storage"]) == (50, "memory")
    assert not copied["config"].get("sources")
    assert copied["config"]["max_age"] == 3600 * 10**9
    cli("pub", f"{name}.a", "later", "-J")
    assert cli("stream", "info", f"{name}C", "--json").json["state"]["messages"] == 50


def test_a_configuration_can_be_kept_in_a_file(cli: Cli, name: str, tmp_path: Path) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--max-msgs", 5)
    file = tmp_path / "stream.json"
    file.write_bytes(cli("stream", "info", name, "--json").raw)
    cli("stream", "add", f"{name}B", "--config", file, "--subjects", f"{name}B.>")
    assert cli("stream", "info", f"{name}B", "--json").json["config"]["max_msgs"] == 5
    assert json.loads(cli("stream", "add", "X", "--max-msgs", 7, "--dry-run").raw)["max_msgs"] == 7
    file.write_text("[1")
    assert "is not JSON" in cli("stream", "add", "X", "--config", file, code=WRONG_USAGE).err


def test_mistakes_are_one_clear_sentence(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    assert f'did you mean "{name}"?' in cli("stream", "info", f"{name}x", code=NOT_FOUND).err
    assert "Did you mean 'info'?" in cli("stream", "inf", name, code=WRONG_USAGE).err
    assert "stream edit" in cli("stream", "add", name, "--subjects", "other", code=CONFLICT).err
    cli("stream", "add", f"{name}B", "--subjects", f"{name}.a", code=CONFLICT)
    cli("stream", "info", "a.b", code=WRONG_USAGE)
    cli("stream", "info", "a b", code=WRONG_USAGE)
    cli("stream", "add", "X", "--max-age", "soon", code=WRONG_USAGE)
    cli("stream", "add", "X", "--max-bytes", "10XB", code=WRONG_USAGE)
    cli("stream", "add", "X", "--retention", "forever", code=WRONG_USAGE)
    cli("stream", "ls", "--sort", "colour", code=WRONG_USAGE)
    cli("stream", "view", name, "--since", "1h", "--seq", 1, code=WRONG_USAGE)
    cli("stream", "view", name, code=NOTHING)
    cli("stream", "ls", "-s", "127.0.0.1:1", code=NO_SERVER)
    cli("stream", "ls", "-s", "127.0.0.1:1", "--creds", "/none", code=WRONG_USAGE)


def test_whatever_is_stored_is_shown_harmlessly(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--description", "plain")
    cli("pub", f"{name}.a", "-J", "-H", "Evil: \x1b[31m\u202e", stdin=ESCAPES.encode())
    cli("pub", f"{name}.\u202eevil", "-J", stdin=b"\0\xff\x1b")
    for command in (
        ["view", name],
        ["tail", name, "--seq", 1, "--count", 2],
        ["info", name, "--subjects"],
        ["ls"],
    ):
        for terminal in (False, True):
            done = cli("stream", *command, terminal=terminal)
            if not (terminal and command == ["ls"]):  # a table on a terminal has colours of its own
                assert_harmless(done.out)
    shown = cli("stream", "view", name, "--json").lines
    assert shown[0]["data"] == ESCAPES
    assert shown[1]["base64"] == "AP8b"
    assert cli("stream", "view", name, "--limit", 1, "--raw").raw == ESCAPES.encode() + b"\n"
    assert "terminal" in cli("stream", "view", name, "--raw", terminal=True, code=WRONG_USAGE).err
