"""Logins of links, and what their permissions let through, with servers of both kinds at both ends."""

import json
from pathlib import Path

import pytest

from tests.kits.certs import CertificateAuthority
from tests.kits.leaf import OURS, PAIR_NAMES, PAIRS, THEIRS, Linked, client, leafz, linked
from tests.kits.link import Operator
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)

_ACCOUNTS = """
accounts { A { users: [ { user: a, password: a } ] }, B { users: [ { user: b, password: b } ] } }
"""
_A = {"user": "a", "pass": "a"}
_B = {"user": "b", "pass": "b"}
_USERS = "authorization { users: [ { user: one, password: p, account: A } ] }"
_SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"


def accounts_of(pair: Linked) -> list[str]:
    return [server_leafs[0]["account"] for server_leafs in (leafz(each)["leafs"] for each in pair[:2])]


@both_ways
def test_a_user_of_the_link_chooses_the_account(kinds: Kinds) -> None:
    with linked(
        kinds, hub=_ACCOUNTS, hub_leaf=_USERS, spoke=_ACCOUNTS, remote="account: B", user="one:p@"
    ) as pair:
        assert accounts_of(pair) == ["A", "B"]
        with (
            client(pair.hub, **_A) as far,
            client(pair.spoke, **_B) as near,
        ):
            far.round_trip(b"SUB x 1\r\n")
            pair.until_asked(pair.spoke, "x")
            near.send(b"PUB x 1\r\nz\r\n")
            assert far.read_frame() == b"MSG x 1 1\r\nz\r\n"


@both_ways
def test_a_user_of_the_server_may_link(kinds: Kinds) -> None:
    with linked(kinds, hub=_ACCOUNTS, user="b:b@") as pair:
        assert accounts_of(pair) == ["B", "$G"]


@both_ways
def test_a_wrong_password(kinds: Kinds) -> None:
    with linked(kinds, hub=_ACCOUNTS, hub_leaf=_USERS, user="one:wrong@", links=0) as pair:
        eventually(lambda: pair.hub.log.count("authentication error") >= 2)
        assert leafz(pair.hub)["leafs"] == leafz(pair.spoke)["leafs"] == []
        assert "Authorization Violation" in pair.spoke.log


@both_ways
def test_a_token_in_the_url(kinds: Kinds) -> None:
    with linked(kinds, hub="authorization { token: secret }", user="secret@") as pair:
        assert accounts_of(pair) == ["$G", "$G"]


@both_ways
def test_an_nkey(kinds: Kinds) -> None:
    from millstream.base.seeds import Signer

    key = Signer(_SEED).public_key
    with linked(
        kinds, hub=f"accounts {{ A {{ users: [ {{ nkey: {key} }} ] }} }}", remote=f'nkey: "{_SEED}"'
    ) as pair:
        assert accounts_of(pair) == ["A", "$G"]


@both_ways
@pytest.mark.parametrize("first", [False, True], ids=["after INFO", "first"])
def test_tls(kinds: Kinds, first: bool, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    server = authority.issue_for_loopback()
    files = (
        f'cert_file: "{server.cert_file}", key_file: "{server.key_file}", ca_file: "{authority.cert_file}"'
    )
    more = ", handshake_first: true" if first else ""
    with (
        linked(
            kinds,
            hub_leaf=f"tls {{ {files}{more} }}",
            remote=f'tls {{ ca_file: "{authority.cert_file}"{more} }}',
        ) as pair,
        client(pair.hub) as far,
        client(pair.spoke) as near,
    ):
        far.round_trip(b"SUB x 1\r\n")
        pair.until_asked(pair.spoke, "x")
        near.send(b"PUB x 1\r\nz\r\n")
        assert far.read_frame() == b"MSG x 1 1\r\nz\r\n"


@both_ways
def test_an_unknown_certificate(kinds: Kinds, tmp_path: Path) -> None:
    server = CertificateAuthority(tmp_path).issue_for_loopback()
    with linked(
        kinds, hub_leaf=f'tls {{ cert_file: "{server.cert_file}", key_file: "{server.key_file}" }}', links=0
    ) as pair:
        eventually(lambda: "certificate" in pair.spoke.log)
        assert leafz(pair.hub)["leafs"] == []


@both_ways
def test_deny_lists(kinds: Kinds) -> None:
    with (
        linked(kinds, remote='deny_imports: ["no.in.>"], deny_exports: ["no.out.>"]') as pair,
        client(pair.hub) as far,
        client(pair.spoke) as near,
    ):
        far.round_trip(b"SUB no.> 1\r\n")
        near.round_trip(b"SUB no.> 1\r\nSUB no.in.a 2\r\n")
        pair.until_asked(pair.spoke, "no.>")
        pair.until_asked(pair.hub, "no.>")
        near.round_trip(b"PUB no.out.a 1\r\n1\r\nPUB no.way 1\r\n2\r\n")
        assert far.read_frame() == b"MSG no.way 1 1\r\n2\r\n"
        far.send(b"UNSUB 1\r\nPUB no.in.a 1\r\n3\r\nPUB no.way 1\r\n4\r\n")
        got = b""
        while b"4" not in got:
            got = near.read_frame()
            assert b"\r\n3\r\n" not in got


@both_ways
def test_permissions_of_the_user(kinds: Kinds) -> None:
    """Messages that the user may publish come in, those it may subscribe to go out; the spoke obeys."""
    hub = (
        "accounts { A { users: [ { user: a, password: a }, "
        "{ user: one, password: p, permissions: { publish: [up.>], subscribe: [down.>] } } ] } }"
    )
    with linked(kinds, hub=hub, user="one:p@") as pair:
        with client(pair.hub, **_A) as far, client(pair.spoke) as near:
            far.round_trip(b"SUB up.a 1\r\nSUB other.a 2\r\n")
            near.round_trip(b"SUB down.a 1\r\nSUB other.b 2\r\n")
            pair.until_asked(pair.spoke, "up.a")
            pair.until_asked(pair.hub, "down.a")
            near.send(b"PUB other.a 1\r\n1\r\nPUB up.a 1\r\n2\r\n")
            assert far.read_frame() == b"MSG up.a 1 1\r\n2\r\n"
            far.send(b"PUB other.b 1\r\n3\r\nPUB down.a 1\r\n4\r\n")
            assert near.read_frame() == b"MSG down.a 1 1\r\n4\r\n"
        [leaf] = leafz(pair.hub)["leafs"]
        assert leaf["name"] == "spoke"


@pytest.mark.parametrize("kind", [OURS, THEIRS])
def test_answers_come_in_whatever_the_permissions_are(kind: ServerKind) -> None:
    """A spoke is not told of acks and answers to services, but the hub takes those that it sends."""
    (port,) = free_ports(1)
    config = (
        "accounts { A { users: [ { user: a, password: a }, "
        "{ user: one, password: p, permissions: { publish: [up], subscribe: [up] } } ] } }\n"
        f'leafnodes {{ listen: "127.0.0.1:{port}", compression: off }}'
    )
    with ServerProcess(kind, config=config) as hub, client(hub, **_A) as inside:
        inside.round_trip(b"SUB $JS.ACK.> 1\r\nSUB _R_.> 2\r\nSUB other 3\r\nSUB up 4\r\n")
        with WireClient.connect(port) as spoke:
            spoke.read_until(b"\r\n")
            login = {"name": "spoke", "server_id": "spoke", "headers": True, "user": "one", "pass": "p"}
            spoke.send(f"CONNECT {json.dumps(login)}\r\n".encode())
            asked_for = b""
            while b"LS+ up\r\n" not in asked_for:
                asked_for += spoke.read_until(b"\r\n")
            spoke.send(b"PING\r\n")
            while b"PONG\r\n" not in asked_for:
                asked_for += spoke.read_until(b"\r\n")
            assert b"LS+ $JS.ACK" not in asked_for
            assert b"LS+ _R_" not in asked_for
            for subject in ("$JS.ACK.S.C.1.1.1.1.0", "_R_.x.y", "up", "other"):
                spoke.send(f"LMSG {subject} 1\r\nz\r\n".encode())
            assert inside.read_frames(3) == (
                b"MSG $JS.ACK.S.C.1.1.1.1.0 1 1\r\nz\r\nMSG _R_.x.y 2 1\r\nz\r\nMSG up 4 1\r\nz\r\n"
            )
            assert b"Permissions Violation for Publish to" in spoke.read_until_closed()
        assert inside.round_trip() == b""


@both_ways
def test_an_import_of_the_linked_account(kinds: Kinds) -> None:
    hub = """
    accounts {
      A { users: [ { user: a, password: a } ], exports: [ { stream: "s.>" } ] }
      B { users: [ { user: b, password: b } ], imports: [ { stream: { account: A, subject: "s.>" } } ] }
    }
    """
    with (
        linked(kinds, hub=hub, user="b:b@") as pair,
        client(pair.hub, **_A) as far,
        client(pair.spoke) as near,
    ):
        near.round_trip(b"SUB s.x 1\r\n")
        pair.until_asked(pair.hub, "s.x")
        far.send(b"PUB s.x 1\r\nz\r\n")
        assert near.read_frame() == b"MSG s.x 1 1\r\nz\r\n"


@both_ways
def test_credentials_of_operator_mode(kinds: Kinds, tmp_path: Path) -> None:
    operator = Operator()
    credentials = tmp_path / "user.creds"
    credentials.write_text(operator.credentials)
    with linked(kinds, hub=operator.config, remote=f'creds: "{credentials}"') as pair:
        account, own = accounts_of(pair)
        assert (account, own) == (operator.account, "$G")


@both_ways
def test_no_credentials_in_operator_mode(kinds: Kinds) -> None:
    with linked(kinds, hub=Operator().config, links=0) as pair:
        eventually(lambda: pair.hub.log.count("authentication error") >= 2)
        assert leafz(pair.hub)["leafs"] == leafz(pair.spoke)["leafs"] == []


@both_ways
def test_a_hub_that_tells_no_address(kinds: Kinds) -> None:
    with linked(kinds, hub_leaf="no_advertise: true") as pair:
        assert accounts_of(pair) == ["$G", "$G"]
