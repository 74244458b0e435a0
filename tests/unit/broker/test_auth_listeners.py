"""Differences between listeners: credentials of the web socket, certificates that stand for users."""

import pytest

from millstream.broker.auth import ClientAuthenticator, ClientCredentials, Identity
from millstream.broker.options import (
    Authorization,
    BrokerOptions,
    ConnectionType,
    TlsOptions,
    User,
    WebSocketOptions,
)
from millstream.broker.tls_peer import PeerNames, parse_name

PLAIN_TLS = TlsOptions(cert_file="c", key_file="k", verify=True)
MAPPING_TLS = TlsOptions(cert_file="c", key_file="k", verify=True, verify_and_map=True)


def server(
    *users: User,
    tls: TlsOptions | None = None,
    websocket: WebSocketOptions | None = None,
    token: str = "",
    no_auth_user: str = "",
) -> ClientAuthenticator:
    authorization = Authorization(users=users, token=token, no_auth_user=no_auth_user)
    return ClientAuthenticator(BrokerOptions(authorization=authorization, tls=tls, websocket=websocket))


def login(authenticator: ClientAuthenticator, kind: ConnectionType, **shown: object) -> Identity | None:
    candidate = authenticator.candidate(ClientCredentials(connection_type=kind, **shown))  # type: ignore[arg-type]
    return None if candidate is None else candidate.verify()


def names(
    *,
    emails: tuple[str, ...] = (),
    dns_names: tuple[str, ...] = (),
    uris: tuple[str, ...] = (),
    subject: str = "",
) -> PeerNames:
    return PeerNames(
        emails=emails,
        dns_names=dns_names,
        uris=uris,
        subject=subject,
        domain_components="",
        distinguished_name=parse_name(subject) if subject else (),
    )


TCP, WEB = ConnectionType.STANDARD, ConnectionType.WEBSOCKET


# -- the web socket's own credentials --------------------------------------------------------------


def test_a_web_socket_may_ask_for_a_token_where_tcp_asks_for_nothing() -> None:
    authenticator = server(websocket=WebSocketOptions(token="w"))
    assert not authenticator.required
    assert not authenticator.required_for(TCP)
    assert authenticator.required_for(WEB)
    assert not authenticator.announced_for(TCP)
    assert authenticator.announced_for(WEB)
    assert not authenticator.connect_may_be_skipped(WEB)
    assert login(authenticator, TCP) is not None
    assert login(authenticator, WEB, token="w") is not None
    assert login(authenticator, WEB, token="x") is None
    assert login(authenticator, WEB) is None


def test_a_web_socket_user_replaces_the_token_of_the_server() -> None:
    authenticator = server(token="t", websocket=WebSocketOptions(username="me", password="pw"))
    assert login(authenticator, TCP, token="t") is not None
    assert login(authenticator, TCP, user="me", password="pw") is None
    assert login(authenticator, WEB, token="t") is None
    assert login(authenticator, WEB, user="me", password="pw") is not None


def test_a_web_socket_without_credentials_uses_those_of_the_server() -> None:
    authenticator = server(token="t", websocket=WebSocketOptions())
    assert login(authenticator, WEB, token="t") is not None
    assert login(authenticator, WEB) is None


def test_a_web_socket_may_have_its_own_no_auth_user() -> None:
    users = (User(name="a", password="x"), User(name="b", password="y", account="B"))
    authenticator = server(*users, no_auth_user="a", websocket=WebSocketOptions(no_auth_user="b"))
    assert login(authenticator, TCP) == Identity(user="a", label="user:a")
    assert login(authenticator, WEB) == Identity(user="b", label="user:b", account="B")
    assert login(authenticator, WEB, user="a", password="x") == Identity(user="a", label="user:a")
    assert authenticator.connect_may_be_skipped(WEB)


def test_a_web_socket_inherits_the_no_auth_user() -> None:
    authenticator = server(User(name="a", password="x"), no_auth_user="a", websocket=WebSocketOptions())
    assert login(authenticator, WEB) == Identity(user="a", label="user:a")


# -- certificates ----------------------------------------------------------------------------------

DN = "CN=alice,OU=ops,O=Acme"
MAPPED = (
    User(name="alice@acme.org", account="MAIL"),
    User(name="alice.acme.org", account="DNS"),
    User(name="spiffe://acme/alice", account="URI"),
    User(name=DN, account="SUBJECT"),
)


@pytest.mark.parametrize(
    ("peer", "account"),
    [
        (names(emails=("alice@acme.org",), dns_names=("alice.acme.org",), subject=DN), "MAIL"),
        (names(emails=("bob@acme.org",), dns_names=("x", "alice.acme.org"), subject=DN), "DNS"),
        (names(uris=("spiffe://acme/alice",), subject=DN), "URI"),
        (names(dns_names=("x",), subject=DN), "SUBJECT"),
        (names(subject="O=Acme,OU=ops,CN=alice"), "SUBJECT"),
        (names(subject="CN=bob,OU=ops,O=Acme"), None),
        (names(), None),
        (None, None),
    ],
)
def test_a_certificate_stands_for_a_user(peer: PeerNames | None, account: str | None) -> None:
    identity = login(server(*MAPPED, tls=MAPPING_TLS), TCP, peer=peer)
    assert (identity.account if identity else None) == account


def test_a_mapped_user_with_a_password_needs_both() -> None:
    authenticator = server(User(name="alice", password="pw"), tls=MAPPING_TLS)
    peer = names(dns_names=("alice",))
    assert login(authenticator, TCP, peer=peer) is None
    assert login(authenticator, TCP, peer=peer, user="whoever", password="pw") is not None
    assert login(authenticator, TCP, user="alice", password="pw") is None


def test_a_shown_user_name_does_not_matter_where_certificates_are_mapped() -> None:
    authenticator = server(*MAPPED, User(name="eve"), tls=MAPPING_TLS)
    identity = login(authenticator, TCP, user="eve", peer=names(dns_names=("alice.acme.org",)))
    assert identity == Identity(user="alice.acme.org", label="user:alice.acme.org", account="DNS")


def test_a_mapping_skips_users_of_another_kind_of_connection() -> None:
    authenticator = server(
        User(name="alice", connection_types=frozenset({WEB})), User(name="CN=alice"), tls=MAPPING_TLS
    )
    identity = login(authenticator, TCP, peer=names(dns_names=("alice",), subject="CN=alice"))
    assert identity is not None
    assert identity.user == "CN=alice"


def test_certificates_are_mapped_per_listener() -> None:
    authenticator = server(
        User(name="alice", password="pw"),
        tls=PLAIN_TLS,
        websocket=WebSocketOptions(tls=MAPPING_TLS),
    )
    peer = names(dns_names=("alice",))
    assert login(authenticator, TCP, peer=peer) is None
    assert login(authenticator, TCP, user="alice", password="pw") is not None
    assert login(authenticator, WEB, user="alice", password="pw") is None
    assert login(authenticator, WEB, password="pw", peer=peer) is not None


def test_a_user_without_password_for_certificates_is_closed_to_other_listeners() -> None:
    users = (User(name="alice"), User(name="tcp", connection_types=frozenset({TCP})))
    mapped = server(*users, websocket=WebSocketOptions(tls=MAPPING_TLS))
    assert login(mapped, TCP, user="alice") is None
    assert login(mapped, TCP, user="tcp") is not None
    unmapped = server(*users, websocket=WebSocketOptions(tls=PLAIN_TLS))
    assert login(unmapped, TCP, user="alice") is not None
    silent = server(*users, no_auth_user="alice", websocket=WebSocketOptions(tls=MAPPING_TLS))
    assert login(silent, TCP) == Identity(user="alice", label="user:alice")


def test_a_token_is_not_affected_by_mapping() -> None:
    assert login(server(token="t", tls=MAPPING_TLS), TCP, token="t") is not None
