"""Who is asking, and where: options and environment to what nats-py is told."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from millstream.cli.connecting import (
    LoginError,
    Target,
    talks_to_a_second,
    talks_to_a_server,
)
from millstream.client import ServerUnavailable

runner = CliRunner()


def parsed(arguments: list[str], **environment: str) -> tuple[Target, Target]:
    found: list[tuple[Target, Target]] = []
    app = typer.Typer()

    @app.command()
    @talks_to_a_server
    @talks_to_a_second
    def move(*, server: Target, to: Target, count: int = 1) -> None:
        assert count == 1
        found.append((server, to))

    result = runner.invoke(app, arguments, env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_every_option_reaches_its_field() -> None:
    text = "--user u --password p --tlsca ca --tlscert c --tlskey k --tlsfirst --inbox-prefix i --js-domain d"
    server, to = parsed(
        [*text.split(), "-s", "a,b:1", "--timeout", "3", "--to", "tls://c", "--to-token", "t"]
    )
    assert server == Target("a,b:1", "u", "p", "", "", "", "ca", "c", "k", True, "i", "d", 3.0)
    assert server.servers == ["nats://a", "nats://b:1"]
    assert (to.servers, to.token, to.user) == (["tls://c"], "t", "")


def test_the_environment_of_the_nats_command_line_is_for_the_first_server_only() -> None:
    server, to = parsed(["--to", "c"], NATS_URL="nats://env", NATS_CREDS="file", NATS_PASSWORD="")
    assert (server.server, server.creds) == ("nats://env", "file")
    assert to == Target(server="c")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target(), {}),
        (Target(user="u", password="p"), {"user": "u", "password": "p"}),
        (Target(token="t"), {"token": "t"}),
        (Target(inbox_prefix="_IN"), {"inbox_prefix": "_IN"}),
    ],
)
def test_logins_become_arguments(target: Target, expected: dict[str, Any]) -> None:
    assert target.arguments() == expected


def test_files_of_keys_are_named_when_they_can_be_read(tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    seed.write_text("SU…")
    assert Target(nkey=str(seed)).arguments() == {"nkeys_seed": str(seed)}
    assert Target(creds=str(seed)).arguments() == {"user_credentials": str(seed)}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(user="u", token="t"), "2 ways to log in"),
        (Target(password="p"), "needs a user"),
        (Target(tlscert="c"), "belong together"),
    ],
)
def test_what_makes_no_sense_is_said(target: Target, message: str) -> None:
    with pytest.raises(LoginError, match=message):
        target.arguments()


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(ServerUnavailable, match=r"^cannot connect to nats://127\.0\.0\.1:1: ") as caught:
        async with Target(server="nats://me:secret@127.0.0.1:1").connected():
            pass
    assert "secret" not in str(caught.value)
