"""Clients that log in with a file of credentials, as `nsc` writes it."""

import asyncio
from pathlib import Path

import nats
import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.operator import JETSTREAM, Key, Operator, User, token
from tests.kits.reference import ServerProcess

OPERATOR = Operator("clients")
SCOPED = Key("A", "clients scoped")
A = OPERATOR.account(
    "A",
    limits=JETSTREAM,
    signing_keys=[
        {
            "kind": "user_scope",
            "key": SCOPED.public,
            "role": "all",
            "template": {"subs": -1, "data": -1, "payload": -1},
        }
    ],
)
USERS = {
    "plain": A.user("plain"),
    "scoped": User(
        Key("U", "clients scoped"),
        token(SCOPED, "user", Key("U", "clients scoped").public, {"issuer_account": A.public}),
    ),
}


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=OPERATOR.config([A]), jetstream=True)


@pytest.mark.parametrize("name", USERS)
def test_nats_py(server: ServerProcess, tmp_path: Path, name: str) -> None:
    credentials = tmp_path / "user.creds"
    credentials.write_text(USERS[name].credentials())

    async def use() -> int:
        client = await nats.connect(server.client_url, user_credentials=str(credentials))
        stream = client.jetstream()
        await stream.add_stream(name=f"OF_{name}", subjects=[f"{name}.>"])
        ack = await stream.publish(f"{name}.x", b"a")
        await client.close()
        return ack.seq

    assert asyncio.run(use()) == 1
