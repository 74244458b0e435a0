"""`millstream dlq` on a real server, with letters as pipelines write them."""

from millstream.cli.endings import FAILED, NOT_FOUND, WRONG_USAGE
from tests.kits.cli import ESCAPES, Cli, assert_harmless

HEADERS = (
    "Millstream-Dlq-Reason: max_deliver",
    "Millstream-Dlq-Consumer: billing",
    "Millstream-Dlq-Deliveries: 5",
    "Millstream-Orig-Stream: {name}",
    "Millstream-Orig-Seq: 1",
    "Millstream-Orig-Subject: {name}.eu",
    "Own: \x1b[31m",
)


def letters(cli: Cli, name: str, count: int = 2) -> str:
    """Make a stream, and a stream with dead letters of it."""
    cli("stream", "add", name, "--subjects", f"{name}.>")
    cli("stream", "add", f"{name}_DLQ", "--subjects", f"dead.{name}.>")
    flags = [word for each in HEADERS for word in ("-H", each.format(name=name))]
    for _ in range(count):
        cli("pub", f"dead.{name}.billing", *flags, "-J", stdin=ESCAPES.encode())
    return f"{name}_DLQ"


def test_letters_are_listed_shown_and_redriven(cli: Cli, name: str) -> None:
    dead = letters(cli, name)
    assert dead in [each["stream"] for each in cli("dlq", "ls", "--json").json]
    listed = cli("dlq", "ls", dead, "--json").json
    assert [(each["seq"], each["reason"], each["deliveries"]) for each in listed] == [
        (1, "max_deliver", 5),
        (2, "max_deliver", 5),
    ]
    for command in (["ls"], ["ls", dead], ["show", dead, 1]):
        assert_harmless(cli("dlq", *command).out)
    assert cli("dlq", "show", dead, 1, "--json").json["original_subject"] == f"{name}.eu"
    cli("dlq", "redrive", dead, 1, "--body", "mended")
    assert cli("stream", "view", name, "--json").lines[0]["data"] == "mended"
    cli("dlq", "redrive", dead, 1, code=FAILED)
    cli("dlq", "redrive", dead, "--all", code=WRONG_USAGE)
    cli("dlq", "redrive", dead, "--all", "--force")
    assert cli("stream", "info", dead, "--json").json["state"]["messages"] == 0
    assert cli("stream", "info", name, "--json").json["state"]["messages"] == 2


def test_mistakes_are_one_clear_sentence(cli: Cli, name: str) -> None:
    dead = letters(cli, name, 1)
    cli("dlq", "show", dead, 9, code=NOT_FOUND)
    cli("dlq", "ls", "NONE", code=NOT_FOUND)
    cli("dlq", "redrive", dead, code=WRONG_USAGE)
    cli("dlq", "redrive", dead, 1, 2, "--body", "x", code=WRONG_USAGE)
