"""The options of a connection against servers that ask who is there."""

from pathlib import Path

import pytest
from transfer_kit import run_aside

from millstream.testing.reference import ServerKind, ServerProcess

# The second where the server closes before all that was sent has been read.
REFUSALS = ("authorization violation", "reset by peer")
PASSWORD = 'authorization: {user: ops, password: "s3cret"}\n'
TOKEN = 'authorization: {token: "t0ken"}\n'


@pytest.mark.parametrize(
    ("config", "right", "wrong"),
    [
        (PASSWORD, ["--user", "ops", "--password", "s3cret"], ["--user", "ops", "--password", "guess"]),
        (TOKEN, ["--token", "t0ken"], []),
    ],
    ids=["password", "token"],
)
async def test_a_login_is_used_and_a_wrong_one_is_told(
    config: str, right: list[str], wrong: list[str], tmp_path: Path
) -> None:
    with ServerProcess(ServerKind.MILLSTREAM, config=config, jetstream=True) as server:
        done = await run_aside("backup", tmp_path, "-s", server.client_url, *right)
        assert (done.returncode, done.stdout) == (0, "there are no streams\n"), done.stderr
        done = await run_aside("backup", tmp_path, "-s", server.client_url, *wrong)
        assert done.returncode == 1
        assert any(sign in done.stderr.lower() for sign in REFUSALS)
        assert "Traceback" not in done.stderr


async def test_the_login_of_the_source_is_not_sent_to_the_target(tmp_path: Path) -> None:
    with (
        ServerProcess(ServerKind.MILLSTREAM, config=PASSWORD, jetstream=True) as source,
        ServerProcess(ServerKind.MILLSTREAM, config=TOKEN, jetstream=True) as target,
    ):
        both = ("promote", "-s", source.client_url, "--to", target.client_url)
        environment = {"NATS_USER": "ops", "NATS_PASSWORD": "s3cret"}
        done = await run_aside(*both, **environment)
        assert done.returncode == 1
        assert any(sign in done.stderr.lower() for sign in REFUSALS)
        done = await run_aside(*both, "--to-token", "t0ken", **environment)
        assert done.returncode == 0, done.stderr
