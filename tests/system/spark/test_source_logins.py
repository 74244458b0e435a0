"""Every way to log in, and TLS, as options of a query; over every transport."""

from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.base.nkeys import KeyKind
from millstream.base.seeds import Signer, make_seed
from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, LinkTlsOptions, parse_servers
from millstream.tables.errors import SourceUnavailable
from tests.kits.certs import CertificateAuthority
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.source import rows

ServerFactory = Callable[..., ServerProcess]

SEED = make_seed(KeyKind.USER, b"s" * 32)
CREDS = f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
USERS = f"""
    accounts: {{ A: {{ jetstream: enabled, users: [
        {{ user: ann, password: secret }}
        {{ nkey: {Signer(SEED).public_key} }}
    ] }} }}
"""


def fill(options: LinkOptions) -> None:
    with BlockingLink(options) as link:
        link.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "allow_direct": True})
        for payload in (b"one", b"two"):
            link.request("o", payload)


def check(server: ServerProcess, login: dict[str, str]) -> None:
    options = {"nats.servers": server.client_url, "subscribe": "O"} | login
    arrow = ["arrow"] if server.kind is ServerKind.MILLSTREAM else []
    for transport in ["auto", "pull", "direct", *arrow]:
        found = rows(options | {"transport": transport}, ("data",))
        assert [row["data"] for row in found] == [b"one", b"two"], transport


def test_users_nkeys_and_files_with_seeds(own_server: ServerFactory, tmp_path: Path) -> None:
    server = own_server(jetstream=True, config=USERS)
    fill(LinkOptions(servers=parse_servers(server.client_url), user="ann", password="secret"))
    creds = tmp_path / "user.creds"
    creds.write_text(CREDS)
    check(server, {"nats.user": "ann", "nats.password": "secret"})
    check(server, {"nats.nkey.secret": SEED})
    check(server, {"nats.creds": str(creds)})
    address = server.client_url.replace("nats://", "nats://ann:secret@")
    check(server, {"nats.servers": address})


def test_a_token(own_server: ServerFactory) -> None:
    server = own_server(jetstream=True, config='authorization { token: "hush" }')
    fill(LinkOptions(servers=parse_servers(server.client_url), token="hush"))
    check(server, {"nats.token": "hush"})


@pytest.mark.parametrize("first", [False, True])
def test_tls_with_a_certificate_of_our_own(own_server: ServerFactory, tmp_path: Path, first: bool) -> None:
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue_for_loopback()
    papers = authority.issue("client")
    config = f"""
        tls {{ cert_file: "{issued.cert_file}", key_file: "{issued.key_file}"
               ca_file: "{authority.cert_file}", verify: true, handshake_first: {str(first).lower()} }}
    """
    server = own_server(jetstream=True, config=config)
    tls = LinkTlsOptions(str(authority.cert_file), str(papers.cert_file), str(papers.key_file), first=first)
    fill(LinkOptions(servers=parse_servers(server.client_url), tls=tls))
    trusting = {"nats.tls.ca": str(authority.cert_file), "nats.tls.first": str(first)}
    shown = {"nats.tls.cert": str(papers.cert_file), "nats.tls.key": str(papers.key_file)}
    check(server, trusting | shown)
    options = {"nats.servers": server.client_url, "subscribe": "O", "fetchTimeout": "10ms"}
    with pytest.raises(SourceUnavailable, match="cannot connect to"):
        rows(options | trusting)
    with pytest.raises(SourceUnavailable, match="certificate is not trusted"):
        rows(options | shown | {"nats.tls.first": str(first)})


def test_a_domain_and_a_prefix_of_the_api(own_server: ServerFactory) -> None:
    server = own_server(jetstream=True, config="jetstream: { domain: hub }")
    fill(LinkOptions(servers=parse_servers(server.client_url), domain="hub"))
    check(server, {"nats.jsDomain": "hub"})
    check(server, {"nats.apiPrefix": "$JS.hub.API"})
