"""Limits of accounts on their links, and links of an account whose token changes."""

from pathlib import Path
from typing import Any

import pytest

from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, client, leafz, linked
from tests.kits.operator import Account, Key, Operator, User
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)

_USERS = "authorization { users: [ { user: one, password: p, account: A } ] }"


def limited(most: int) -> str:
    return (
        "accounts { A { users: [ { user: a, password: a } ], "
        f"limits {{ max_leafnodes: {most}, max_connections: 1 }} }} }}"
    )


def joined(pair: Linked, kind: ServerKind, name: str) -> ServerProcess:
    """Return another spoke of the hub; it is not started."""
    remote = f'{{ url: "nats-leaf://one:p@127.0.0.1:{pair.leaf_port}" }}'
    config = f"server_name: {name}\nleafnodes {{ reconnect: 100ms, remotes [ {remote} ] }}"
    return ServerProcess(kind, monitor=True, config=config)


@both_ways
def test_an_account_has_a_limit_of_links(kinds: Kinds) -> None:
    with (
        linked(kinds, hub=limited(1), hub_leaf=_USERS, user="one:p@") as pair,
        joined(pair, kinds[1], "late") as late,
    ):
        eventually(lambda: pair.hub.log.count("authentication error") >= 2)
        eventually(lambda: "Authorization Violation" in late.log)
        assert leafz(late)["leafs"] == []
        [leaf] = leafz(pair.hub)["leafs"]
        assert leaf["name"] == "spoke"
        pair.spoke.stop()
        eventually(lambda: [each["name"] for each in leafz(pair.hub)["leafs"]] == ["late"])


# -- tokens -----------------------------------------------------------------------------------------

OPERATOR = Operator("links")


def operated(kinds: Kinds, folder: Path, account: Account, user: User, **options: Any) -> Any:
    """Link to a hub in operator mode, as a user of the account."""
    credentials = folder / "user.creds"
    credentials.write_text(user.credentials())
    return linked(kinds, hub=OPERATOR.config([account]), remote=f'creds: "{credentials}"', **options)


def update(pair: Linked, account: Account) -> None:
    with WireClient.connect(pair.hub.port) as client:
        system = OPERATOR.system.user("sys")
        nonce = client.read_info()["nonce"]
        client.handshake(read_info=False, jwt=system.token, sig=system.signature(nonce))
        text = account.token.encode()
        client.send(
            b"SUB answer 1\r\nPUB $SYS.REQ.ACCOUNT.%b.CLAIMS.UPDATE answer %d\r\n%b\r\n"
            % (account.public.encode(), len(text), text)
        )
        assert b"jwt updated" in client.read_frame()


def until_locked_out(pair: Linked, text: str) -> None:
    eventually(lambda: pair.hub.log.count("authentication error") >= 2 and not leafz(pair.hub)["leafs"])
    eventually(lambda: text in pair.spoke.log)
    assert leafz(pair.spoke)["leafs"] == []


@both_ways
def test_a_signing_key_that_is_removed(kinds: Kinds, tmp_path: Path) -> None:
    key = Key("A", "removable")
    account = OPERATOR.account("A", signing_keys=[key.public])
    with operated(kinds, tmp_path, account, account.user("box", signer=key)) as pair:
        update(pair, account.but(signing_keys=[]))
        until_locked_out(pair, "Authorization Violation")


@both_ways
def test_a_token_of_an_account_has_a_limit_of_links(kinds: Kinds, tmp_path: Path) -> None:
    account = OPERATOR.account("A", limits={"leaf": 0})
    with operated(kinds, tmp_path, account, account.user("box"), links=0) as pair:
        eventually(lambda: "maximum account active connections exceeded" in pair.spoke.log)
        eventually(lambda: "maximum account active connections exceeded" in pair.hub.log)
        assert leafz(pair.hub)["leafs"] == leafz(pair.spoke)["leafs"] == []


@pytest.mark.parametrize("kinds", PAIRS[:2], ids=PAIR_NAMES[:2])
def test_default_permissions_that_change(kinds: Kinds, tmp_path: Path) -> None:
    """A nats-server keeps the former ones until the link is made anew."""
    account = OPERATOR.account("A")
    with (
        operated(kinds, tmp_path, account, account.user("box")) as pair,
        client(pair.spoke) as near,
        WireClient.connect(pair.hub.port) as far,
    ):
        user = account.user("far", pub={"allow": [">"]}, sub={"allow": [">"]})
        nonce = far.read_info()["nonce"]
        far.handshake(read_info=False, jwt=user.token, sig=user.signature(nonce))
        far.round_trip(b"SUB secret 1\r\nSUB open 2\r\n")
        pair.until_asked(pair.spoke, "secret", "open")
        update(pair, account.but(default_permissions={"pub": {"deny": ["secret"]}}))
        pair.until_not_asked(pair.spoke, "secret")
        pair.until_asked(pair.spoke, "open")
        near.send(b"PUB secret 1\r\n1\r\nPUB open 1\r\n2\r\n")
        assert far.read_frame() == b"MSG open 2 1\r\n2\r\n"


# -- limits of what passes ----------------------------------------------------------------------------


def small(**limits: int) -> str:
    text = ", ".join(f"{name}: {value}" for name, value in limits.items())
    return f"accounts {{ A {{ users: [ {{ user: a, password: a }} ], limits {{ {text} }} }} }}"


@both_ways
def test_an_account_limits_the_subscriptions_of_a_link(kinds: Kinds) -> None:
    with linked(kinds, hub=small(max_subscriptions=9), hub_leaf=_USERS, user="one:p@") as pair:
        [before] = leafz(pair.hub)["leafs"]
        with client(pair.spoke) as near:
            near.round_trip(b"".join(b"SUB x.%d %d\r\n" % (number, number) for number in range(20)))
            eventually(lambda: "maximum subscriptions exceeded" in pair.spoke.log)
            near.round_trip(b"PUB x.1 0\r\n\r\n")
            [after] = leafz(pair.hub)["leafs"]
            assert after["id"] == before["id"]
            assert after["subscriptions"] <= 9
            assert 0 < len([each for each in after["subscriptions_list"] if each.startswith("x.")]) < 9


@both_ways
def test_an_account_limits_the_messages_of_a_link(kinds: Kinds) -> None:
    with (
        linked(kinds, hub=small(max_payload=20), hub_leaf=_USERS, user="one:p@") as pair,
        client(pair.spoke) as near,
        client(pair.hub, user="a", **{"pass": "a"}) as far,
    ):
        far.round_trip(b"SUB x 1\r\n")
        pair.until_asked(pair.spoke, "x")
        near.round_trip(b"PUB x 30\r\n" + b"-" * 30 + b"\r\n")

        def arrives() -> bool:  # a hub may have ended the link
            near.round_trip(b"PUB x 5\r\nsmall\r\n")
            return b"MSG x 1 5\r\nsmall\r\n" in far.round_trip()

        eventually(arrives)
