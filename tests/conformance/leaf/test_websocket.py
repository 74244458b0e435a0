"""Links over WebSocket, with servers of both kinds at both ends."""

import os
from pathlib import Path

import pytest

from tests.kits.certs import CertificateAuthority
from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, client, leafz, linked
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind
from tests.kits.server.monitor import eventually
from tests.kits.tunnel_proxy import TunnelProxy

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)


def exchange(pair: Linked) -> None:
    """Send messages of many sizes both ways."""
    with client(pair.hub) as far, client(pair.spoke) as near:
        for wire, other, server in ((far, near, pair.spoke), (near, far, pair.hub)):
            wire.round_trip(b"SUB x 1\r\n")
            pair.until_asked(server, "x")
            for size in (0, 10, 200, 5_000, 300_000, 900_000):
                for payload in (b"some words " * (size // 11), os.urandom(size)):
                    other.send(b"PUB x %d\r\n%b\r\n" % (len(payload), payload))
                    frame = b"MSG x 1 %d\r\n%b\r\n" % (len(payload), payload)
                    assert wire.read_exactly(len(frame)) == frame
            wire.round_trip(b"UNSUB 1\r\n")
            pair.until_not_asked(server, "x")


@both_ways
@pytest.mark.parametrize(
    ("hub", "remote", "compression"),
    [
        ("", "", "s2_uncompressed"),
        ("", "ws_no_masking: true", "s2_uncompressed"),
        ("compression: true", "ws_compression: true", "off"),
        ("compression: true", "ws_compression: true, ws_no_masking: true", "off"),
        ("", "ws_compression: true", "s2_uncompressed"),
    ],
    ids=["plain", "unmasked", "compressed", "compressed and unmasked", "compression refused"],
)
def test_messages(kinds: Kinds, hub: str, remote: str, compression: str) -> None:
    [port] = free_ports(1)
    still = "compression: { rtt_thresholds: [60s] }"  # whatever the machine is busy with
    with linked(
        kinds,
        hub=f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true\n{hub} }}',
        hub_leaf=still,
        remote=f"{remote}\n{still}",
        scheme="ws",
        port=port,
    ) as pair:
        assert leafz(pair.spoke)["leafs"][0]["compression"] == compression
        exchange(pair)


@both_ways
def test_a_path_of_the_url(kinds: Kinds) -> None:
    """A proxy in front of the hub may want one; the hub looks at its end alone."""
    [port] = free_ports(1)
    with linked(
        kinds,
        hub=f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}',
        scheme="ws",
        port=port,
        path="/some/where",
    ) as pair:
        exchange(pair)


@both_ways
def test_tls_and_a_user(kinds: Kinds, tmp_path: Path) -> None:
    [port] = free_ports(1)
    authority = CertificateAuthority(tmp_path)
    server = authority.issue_for_loopback()
    with linked(
        kinds,
        hub=(
            f'websocket {{ listen: "127.0.0.1:{port}"\n'
            f'tls {{ cert_file: "{server.cert_file}", key_file: "{server.key_file}" }} }}\n'
            "accounts { A { users: [ { user: a, password: a } ] } }"
        ),
        hub_leaf="authorization { users: [ { user: one, password: p, account: A } ] }",
        remote=f'tls {{ ca_file: "{authority.cert_file}" }}',
        user="one:p@",
        scheme="wss",
        port=port,
    ) as pair:
        assert leafz(pair.hub)["leafs"][0]["account"] == "A"


@both_ways
def test_a_link_is_made_anew(kinds: Kinds) -> None:
    [port] = free_ports(1)
    with linked(
        kinds,
        hub=f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true, compression: true }}',
        remote="ws_compression: true",
        scheme="ws",
        port=port,
    ) as pair:
        pair.hub.restart()
        eventually(lambda: leafz(pair.hub)["leafs"])
        pair.until_ready()
        exchange(pair)


@both_ways
def test_a_wrong_password(kinds: Kinds) -> None:
    [port] = free_ports(1)
    with linked(
        kinds,
        hub=f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}',
        hub_leaf="authorization { user: one, password: p }",
        user="one:wrong@",
        scheme="ws",
        port=port,
        links=0,
    ) as pair:
        eventually(lambda: pair.hub.log.count("authentication error") >= 2)
        assert leafz(pair.hub)["leafs"] == leafz(pair.spoke)["leafs"] == []


@both_ways
def test_through_a_proxy(kinds: Kinds) -> None:
    [port] = free_ports(1)
    with (
        TunnelProxy() as proxy,
        linked(
            kinds,
            hub=f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}',
            remote=f'proxy {{ url: "http://127.0.0.1:{proxy.port}", username: u, password: p, timeout: 5s }}',
            scheme="ws",
            port=port,
        ) as pair,
    ):
        exchange(pair)
        request = proxy.requests[0]
        assert request.startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic dTpw\r\n" in request


@both_ways
def test_a_proxy_that_refuses(kinds: Kinds) -> None:
    [port] = free_ports(1)
    with (
        TunnelProxy(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as proxy,
        linked(
            kinds,
            hub=f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}',
            remote=f'proxy {{ url: "http://127.0.0.1:{proxy.port}" }}',
            scheme="ws",
            port=port,
            links=0,
        ) as pair,
    ):
        eventually(lambda: "proxy CONNECT failed: " in pair.spoke.log)
        assert "407 Proxy Authentication Required" in pair.spoke.log
        assert leafz(pair.hub)["leafs"] == []
