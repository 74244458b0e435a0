"""Links whose users have tokens end when the token does; accounts limit their links."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, publish
from tests.kits.operator import Account, Operator, User
from tests.kits.ports import free_ports
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient, WireError

OPERATOR = Operator("linking")
Start = Callable[..., tuple[ServerProcess, int]]


@pytest.fixture
def start(own_server: ServerFactory) -> Start:
    def run(*accounts: Account, config: str = "") -> tuple[ServerProcess, int]:
        port = free_ports(1)[0]
        leaf = f'leafnodes {{ listen: "127.0.0.1:{port}", compression: off }}\n'
        return own_server(config=leaf + (config or OPERATOR.config(accounts))), port

    return run


def link(port: int, name: str, owner: User | None = None, **fields: Any) -> WireClient:
    """Return a spoke that has logged in; raise WireError if the hub refuses it."""
    spoke = WireClient.connect(port)
    nonce = spoke.read_info()["nonce"]
    if owner is not None:
        fields |= {"jwt": owner.token, "sig": owner.signature(nonce)}
    connect = {"name": name, "server_id": name, "version": "2.12.0", "headers": True, **fields}
    spoke.send(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")
    spoke.read_until_pong()
    return spoke


def last_error(spoke: WireClient) -> bytes:
    """Return the error with which the hub ends a link."""
    lines = spoke.read_until_closed().split(b"\r\n")
    return next((line for line in lines if line.startswith(b"-ERR")), b"")


def test_a_link_ends_when_the_token_of_its_user_expires(start: Start) -> None:
    account = OPERATOR.account("A")
    _, port = start(account)
    for seconds in (1, 4, 16, 64):  # on a busy machine, it may expire before the login
        try:
            spoke = link(port, "s", account.user("short", exp=int(time.time()) + seconds))
        except WireError:
            continue
        break
    assert last_error(spoke) == b"-ERR 'User Authentication Expired'"


def test_links_end_with_their_account(start: Start) -> None:
    for seconds in (1, 4, 16, 64):
        account = OPERATOR.account("A").but(exp=int(time.time()) + seconds)
        _, port = start(account)
        try:
            spoke = link(port, "s", account.user("any"))
        except WireError:
            continue
        break
    assert last_error(spoke) == b"-ERR 'Account Authentication Expired'"


def update(dial: Dial, server: ServerProcess, account: Account) -> None:
    system = OPERATOR.system.user("sys").join(dial, server)
    subject = f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE"
    system.send(b"SUB box 1\r\n" + publish(subject, account.token.encode(), "box"))
    assert b"jwt updated" in system.read_frame()


def test_the_link_of_a_revoked_user_ends(start: Start, dial: Dial) -> None:
    account = OPERATOR.account("A")
    server, port = start(account)
    good, bad = account.user("good"), account.user("bad")
    stays, goes = link(port, "one", good), link(port, "two", bad)
    update(dial, server, account.but(revocations={bad.public: int(time.time())}))
    assert last_error(goes) == b"-ERR 'User Authentication Revoked'"
    stays.round_trip()


def test_a_token_limits_the_links_of_an_account(start: Start) -> None:
    account = OPERATOR.account("A", limits={"leaf": 1})
    _, port = start(account)
    with (
        link(port, "one", account.user("any")),
        pytest.raises(WireError, match="maximum account active connections exceeded"),
    ):
        link(port, "two", account.user("any"))


def test_the_configuration_limits_the_links_of_an_account(start: Start) -> None:
    _, port = start(
        config="accounts { A { users: [ { user: a, password: a } ], limits { max_leafnodes: 1 } } }"
    )
    who = {"user": "a", "pass": "a"}
    with (
        link(port, "one", **who),
        pytest.raises(WireError, match="maximum account active connections exceeded"),
    ):
        link(port, "two", **who)
