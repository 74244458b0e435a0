"""`millstream consumer` on a real server."""

import json

from millstream.cli.endings import CONFLICT, FAILED, NOT_FOUND, NOTHING, WRONG_USAGE
from tests.kits.cli import Cli, assert_harmless


def filled(cli: Cli, name: str, count: int = 3) -> str:
    cli("stream", "add", name, "--subjects", f"{name}.>")
    cli("pub", f"{name}.a", "{n}", "--count", count, "-J")
    return name


def test_messages_are_taken_and_acknowledged(cli: Cli, name: str) -> None:
    stream = filled(cli, name)
    cli("consumer", "add", stream, "c", "--max-deliver", 5)
    assert [each["data"] for each in cli("consumer", "next", stream, "c", "--count", 2, "--json").lines] == [
        "1",
        "2",
    ]
    info = cli("consumer", "info", stream, "c", "--json").json
    assert (info["ack_floor"]["stream_seq"], info["num_pending"], info["num_ack_pending"]) == (2, 1, 0)
    assert cli("consumer", "next", stream, "c", "--raw", "--no-ack").raw == b"3\n"
    assert cli("consumer", "info", stream, "c", "--json").json["num_ack_pending"] == 1
    cli("consumer", "next", stream, "c", "--wait", 0, code=NOTHING)


def test_a_message_that_is_refused_comes_again(cli: Cli, name: str) -> None:
    stream = filled(cli, name, 1)
    cli("consumer", "add", stream, "c")
    cli("consumer", "next", stream, "c", "--answer", "nak")
    again = cli("consumer", "next", stream, "c", "--answer", "term", "--reason", "bad", "--json").lines
    assert again[0]["delivered"] == 2
    cli("consumer", "next", stream, "c", "--wait", 0, code=NOTHING)
    cli("consumer", "next", stream, "c", "--delay", "1s", code=WRONG_USAGE)


def test_a_consumer_is_changed_paused_reset_and_deleted(cli: Cli, name: str) -> None:
    stream = filled(cli, name)
    cli(
        "consumer",
        "add",
        stream,
        "c",
        "--filter",
        f"{name}.a",
        "--deliver",
        2,
        "--backoff",
        "1s,5s",
        "--max-deliver",
        3,
    )
    cli("consumer", "edit", stream, "c", "--filter", f"{name}.a", "--filter", f"{name}.b", "--force")
    config = cli("consumer", "info", stream, "c", "--json").json["config"]
    assert config["filter_subjects"] == [f"{name}.a", f"{name}.b"]
    assert (config["opt_start_seq"], config["backoff"]) == (2, [10**9, 5 * 10**9])
    cli("consumer", "pause", stream, "c", "1h")
    assert "paused" in cli("consumer", "ls", stream).out
    assert "Paused" in cli("consumer", "info", stream, "c").out
    cli("consumer", "resume", stream, "c")
    assert not cli("consumer", "info", stream, "c", "--json").json.get("paused")
    cli("consumer", "rm", stream, "c", code=WRONG_USAGE)
    cli("consumer", "rm", stream, "c", "-f")
    cli("consumer", "info", stream, "c", code=NOT_FOUND)


def test_a_reset_begins_again(cli: Cli, name: str) -> None:
    stream = filled(cli, name)
    cli("consumer", "add", stream, "c")
    cli("consumer", "next", stream, "c", "--count", 3)
    cli("consumer", "reset", stream, "c", "--seq", 2, "--force")
    assert cli("consumer", "next", stream, "c", "--json").lines[0]["seq"] == 2
    cli("consumer", "reset", stream, "c", "--since", "1h", "--force")
    assert cli("consumer", "next", stream, "c", "--json").lines[0]["seq"] == 1


def test_why_names_cause_and_advice(cli: Cli, name: str) -> None:
    stream = filled(cli, name)
    cli("consumer", "add", stream, "c", "--max-pending", 1)
    cli("consumer", "next", stream, "c", "--no-ack")
    blocked = cli("consumer", "why", stream, "c", code=FAILED)
    assert blocked.out.startswith("BLOCKED: ")
    assert "→ " in blocked.out
    found = cli("consumer", "why", stream, "c", "--json", code=FAILED).json
    assert found["verdict"] == "blocked"
    assert all(each["advice"] for each in found["causes"])
    cli("consumer", "add", stream, "idle", "--deliver", "new")
    assert cli("consumer", "why", stream, "idle", "--json").json["verdict"] == "idle"
    cli("consumer", "why", stream, "none", code=NOT_FOUND)


def test_mistakes_are_one_clear_sentence(cli: Cli, name: str) -> None:
    stream = filled(cli, name)
    cli("consumer", "add", stream, "push", "--target", f"to.{name}", "--ack", "none")
    assert f"millstream sub to.{name}" in cli("consumer", "next", stream, "push", code=WRONG_USAGE).err
    cli("consumer", "add", stream, "push", "--target", f"other.{name}", code=CONFLICT)
    assert 'did you mean "push"?' in cli("consumer", "info", stream, "pussh", code=NOT_FOUND).err
    cli("consumer", "ls", f"{stream}x", code=NOT_FOUND)
    cli("consumer", "add", stream, "x", "--deliver", "sometimes", code=WRONG_USAGE)
    cli("consumer", "add", stream, "x", "--ack", "maybe", code=WRONG_USAGE)
    cli("consumer", "pause", stream, "push", "whenever", code=WRONG_USAGE)
    cli("consumer", "edit", stream, "push", code=WRONG_USAGE)
    assert "Commands:" in cli("consumer", code=None).err


def test_a_strange_name_hides_no_other_consumer(cli: Cli, name: str) -> None:
    stream = filled(cli, name)
    cli("consumer", "add", stream, "billing")
    config = {"durable_name": "\u202eevil", "name": "\u202eevil", "ack_policy": "explicit"}
    request = json.dumps({"stream_name": stream, "config": config})
    answer = cli("req", f"$JS.API.CONSUMER.CREATE.{stream}.\u202eevil", request, "--json").lines[0]["data"]
    assert "error" not in json.loads(answer)
    shown = cli("consumer", "ls", stream)
    assert_harmless(shown.out)
    assert "billing" in shown.out
    assert "u202eevil" in shown.out
