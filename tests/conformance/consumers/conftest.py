"""Clients for the tests of consumers: each test has an account of its own on a shared server."""

from typing import Final

import pytest

from tests.kits.conformance.clients import PATIENT_SERVER, Dial, ServerFactory, login
from tests.kits.conformance.consumers import Client
from tests.kits.reference import ServerKind, ServerProcess

_ACCOUNTS: Final = 150  # of a shared server; a test that comes when all are used gets a new server
_USED = dict.fromkeys(ServerKind, 0)


def _config(generation: int) -> str:
    accounts = "\n".join(
        f"a{number}: {{jetstream: enabled, users: [{{user: a{number}, password: p}}]}}"
        for number in range(_ACCOUNTS)
    )
    return (
        f"# {generation}\nserver_name: probe\njetstream: {{max_mem: 1GB, max_file: 4GB}}\n"
        f"{PATIENT_SERVER}accounts: {{\n{accounts}\nB: {{users: [{{user: b, password: p}}]}}\n}}\n"
    )


@pytest.fixture
def account(shared_server: ServerFactory, server_kind: ServerKind) -> tuple[ServerProcess, str]:
    """A server, and a user of an account there that nobody has used."""
    generation, number = divmod(_USED[server_kind], _ACCOUNTS)
    _USED[server_kind] += 1
    return shared_server(config=_config(generation), jetstream=True, monitor=True), f"a{number}"


@pytest.fixture
def js(account: tuple[ServerProcess, str], join: Dial) -> Client:
    server, user = account
    return Client(login(join, server, user, headers=True, no_responders=True))
