"""The options of a connection against servers that ask who is there."""

import json
from pathlib import Path

import pytest

from millstream.base.seeds import Signer
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.transfer import run_aside

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


async def test_a_context_of_the_nats_tool_says_where_and_who(tmp_path: Path) -> None:
    contexts = tmp_path / "nats" / "context"
    contexts.mkdir(parents=True)
    seed = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
    (tmp_path / "user.nk").write_text(f"{seed}\n")
    config = f"authorization: {{users: [{{nkey: {Signer(seed).public_key}}}]}}\n"
    with ServerProcess(ServerKind.MILLSTREAM, config=config, jetstream=True) as server:
        ours = {"description": "", "url": f" {server.client_url} ", "nkey": "$WHERE/user.nk", "token": ""}
        (contexts / "ours.json").write_text(json.dumps(ours))
        environment = {"XDG_CONFIG_HOME": str(tmp_path), "WHERE": str(tmp_path)}
        named = await run_aside("backup", tmp_path / "out", "--context", "ours", **environment)
        assert (named.returncode, named.stdout) == (0, "there are no streams\n"), named.stderr
        (contexts.parent / "context.txt").write_text("ours\n")
        selected = await run_aside("backup", tmp_path / "out", **environment)
        assert (selected.returncode, selected.stdout) == (0, "there are no streams\n"), selected.stderr
        # An address alone does not take the login of the selected context along.
        elsewhere = await run_aside("backup", tmp_path / "out", "-s", server.client_url, **environment)
        assert elsewhere.returncode == 1
        assert "asks for credentials, and none were given" in elsewhere.stderr
    assert (contexts / "ours.json").read_text() == json.dumps(ours)


async def test_the_api_of_another_account_is_asked_under_its_prefix(tmp_path: Path) -> None:
    config = """accounts: {
        A: {jetstream: enabled, exports: [{service: "$JS.API.>"}], users: [{user: a, password: a}]}
        B: {imports: [{service: {account: A, subject: "$JS.API.>"}, to: "near.API.>"}]
            users: [{user: b, password: b}]}
    }
    """
    with ServerProcess(ServerKind.MILLSTREAM, config=config, jetstream=True) as server:
        login = ("-s", server.client_url, "--user", "b", "--password", "b")
        done = await run_aside("backup", tmp_path, *login, "--js-api-prefix", "near.API.")
        assert (done.returncode, done.stdout) == (0, "there are no streams\n"), done.stderr
        done = await run_aside("backup", tmp_path, *login)
        assert done.returncode == 1
