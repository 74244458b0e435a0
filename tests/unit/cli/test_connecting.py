"""Flags and environment variables become options of a connection."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from millstream.cli.connection import talks_to_a_second, talks_to_a_server
from millstream.cli.endings import UsageError
from millstream.link.options import FIELDS, LinkOptions, LinkTlsOptions

runner = CliRunner()


def parsed(arguments: list[str], **environment: str) -> tuple[LinkOptions, LinkOptions | None]:
    found: list[tuple[LinkOptions, LinkOptions | None]] = []
    app = typer.Typer()

    @app.command()
    @talks_to_a_server
    @talks_to_a_second
    def move(*, server: LinkOptions, to: LinkOptions | None, count: int = 1) -> None:
        assert count == 1
        found.append((server, to))

    nothing: dict[str, str | None] = {each.names.variable: None for each in FIELDS if each.names.variable}
    around = {**nothing, "XDG_CONFIG_HOME": "/none", **environment}
    result = runner.invoke(app, arguments, env=around, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_every_option_reaches_its_field() -> None:
    text = "--user u --password p --tlsca ca --tlscert c --tlskey k --tlsfirst --inbox-prefix i --js-domain d"
    server, to = parsed(
        [*text.split(), "-s", "a,b:1", "--timeout", "3", "--to", "tls://c", "--to-token", "t"]
    )
    assert str(server) == "nats://a:4222, nats://b:1"
    assert (server.user, server.password, server.inbox_prefix, server.domain) == ("u", "p", "i", "d")
    assert (server.tls, server.request_timeout_s) == (LinkTlsOptions("ca", "c", "k", first=True), 3)
    assert to is not None
    assert (str(to), to.token, to.user) == ("tls://c:4222", "t", "")


def test_servers_may_be_repeated() -> None:
    assert str(parsed(["-s", "a, b", "-s", "c"])[0]) == "nats://a:4222, nats://b:4222, nats://c:4222"


def test_the_environment_of_the_nats_command_line_is_for_the_first_server_only() -> None:
    server, to = parsed(["--to", "c"], NATS_URL=" nats://env , b", NATS_CREDS="file", NATS_PASSWORD="")
    assert (str(server), server.creds_file) == ("nats://env:4222, nats://b:4222", "file")
    assert to is not None
    assert (str(to), to.says_who) == ("nats://c:4222", False)


def test_a_flag_is_stronger_than_a_variable() -> None:
    server, _ = parsed(["--token", "t"], NATS_USER="u", NATS_PASSWORD="p")
    assert (server.token, server.user) == ("t", "")
    server, _ = parsed(["--user", "u"], NATS_PASSWORD="p")
    assert (server.user, server.password) == ("u", "p")


def test_without_a_server_there_is_no_second_one() -> None:
    assert parsed(["--to-token", "t"])[1] is None


def test_contexts_are_named_or_selected(tmp_path: Path) -> None:
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "one.json").write_text(json.dumps({"url": "nats://one:1", "token": "t"}))
    (folder / "two.json").write_text(json.dumps({"url": "nats://two:2"}))
    (folder.parent / "context.txt").write_text("one")
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    server, to = parsed([], **home)
    assert (str(server), server.token, to) == ("nats://one:1", "t", None)
    assert str(parsed(["--context", "two"], **home)[0]) == "nats://two:2"
    assert str(parsed([], NATS_CONTEXT="two", **home)[0]) == "nats://two:2"
    server, _ = parsed(["-s", "c"], **home)
    assert (str(server), server.token) == ("nats://c:4222", "")
    _, to = parsed(["--to-context", "two"], **home)
    assert str(to) == "nats://two:2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--user u --token t", "give one way to log in, not --user and --token"),
        ("--to a --to-user u --to-creds t", "give one way to log in, not --to-user and --to-creds"),
        ("--password p", "--password needs a user"),
        ("--tlskey k", "--tlskey needs the certificate"),
        ("--timeout soon", "--timeout is a duration such as 30s"),
        ("--context none", 'there is no NATS context "none"'),
    ],
)
def test_what_makes_no_sense_is_said(arguments: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(arguments.split())


def test_the_help_is_made_of_the_declaration() -> None:
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @talks_to_a_server
    def ask(*, server: LinkOptions) -> None:
        pass

    text = " ".join(runner.invoke(app, ["--help"]).output.split())
    for each in FIELDS:
        for flag in each.names.flags:
            assert flag in text
        if each.names.variable and each.names.flags:
            assert f"[env var: {each.names.variable}]" in text
