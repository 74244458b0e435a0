"""TLS: the handshake in its several orders, client certificates, and users found by certificate."""

import json
import socket
import ssl

import pytest

from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    ServerFactory,
    closed_reason,
    library,
    message,
    monitor,
    publish,
)
from tests.kits.conformance.papers import Papers
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient


def secure(dial: Dial, server: ServerProcess, context: ssl.SSLContext) -> WireClient:
    """Open a connection, read INFO in clear, and do the TLS handshake."""
    client = dial(server)
    client.read_info()
    client.start_tls(context)
    return client


# -- INFO first, then TLS ---------------------------------------------------------------------------


@pytest.fixture
def server(shared_server: ServerFactory, papers: Papers) -> ServerProcess:
    return shared_server(config=papers.tls(), monitor=True)


def test_info_comes_in_clear_and_asks_for_tls(server: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = dial(server)
    info = client.read_info()
    assert info["tls_required"] is True
    assert "tls_verify" not in info
    assert "tls_available" not in info
    client.start_tls(papers.context())
    second = client.handshake(read_info=False)
    assert second["tls_required"] is True
    assert client.round_trip(b"SUB foo 1\r\n" + publish("foo", b"secret")) == message("foo", 1, b"secret")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(server: ServerProcess, dial: Dial, papers: Papers, version: ssl.TLSVersion) -> None:
    context = papers.context()
    context.minimum_version = context.maximum_version = version
    client = secure(dial, server, context)
    client.handshake(read_info=False)
    assert client.round_trip() == b""


def test_large_messages_pass(server: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = secure(dial, server, papers.context())
    client.handshake(read_info=False)
    payload = bytes(range(256)) * 4096
    assert client.round_trip(b"SUB big 1\r\n" + publish("big", payload)) == message("big", 1, payload)


def test_a_push_consumer_delivers_everything(
    shared_server: ServerFactory, dial: Dial, papers: Papers
) -> None:
    """A receiver that takes what it is sent is never taken for one that is behind."""
    server = shared_server(config="jetstream {}\n" + papers.tls(), jetstream=True)
    client = secure(dial, server, papers.context())
    client.handshake(read_info=False)
    client.send(b"SUB answer 1\r\nSUB deliver 2\r\n")
    stream = {"name": "PUSHED", "subjects": ["pushed"], "storage": "memory"}
    client.send(publish("$JS.API.STREAM.CREATE.PUSHED", json.dumps(stream).encode(), "answer"))
    assert b'"error"' not in client.read_frame()
    count = 3_000
    client.send(publish("pushed", b"x" * 100) * count)
    client.round_trip()
    config = {"deliver_subject": "deliver", "ack_policy": "none"}
    body = json.dumps({"stream_name": "PUSHED", "config": config}).encode()
    client.send(publish("$JS.API.CONSUMER.CREATE.PUSHED", body, "answer"))
    heard = client.read_frames(count + 1)
    assert heard.count(b"x" * 100) == count
    assert b".1.%d.%d." % (count, count) in heard


def test_plain_text_after_info_is_refused(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    client.send(b'CONNECT {"verbose":false}\r\nPING\r\n')
    answer = client.read_until_closed()
    assert b"PONG" not in answer
    assert closed_reason(server, client) == "TLS Handshake Failure"


def test_client_that_does_not_trust_us_leaves(server: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = dial(server)
    client.read_info()
    with pytest.raises(ssl.SSLCertVerificationError):
        client.start_tls(papers.stranger_authority.client_context())


def test_tls_is_shown_in_connz(server: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = secure(dial, server, papers.context())
    client.handshake(read_info=False)
    (connection,) = monitor(server, f"/connz?cid={client.info['client_id']}")["connections"]
    assert connection["tls_version"] == "1.3"
    assert connection["tls_cipher_suite"].startswith("TLS_")


def test_silent_client_is_dropped(shared_server: ServerFactory, dial: Dial, papers: Papers) -> None:
    server = shared_server(config=papers.tls("timeout: 0.2"), monitor=True)
    client = dial(server)
    client.read_info()
    client.read_until_closed()
    assert closed_reason(server, client) == "TLS Handshake Failure"


def test_half_a_handshake_stalls_nobody(server: ServerProcess, dial: Dial, papers: Papers) -> None:
    stuck = dial(server)
    stuck.read_info()
    stuck.send(b"\x16\x03\x01\x02\x00\x01")
    client = secure(dial, server, papers.context())
    client.handshake(read_info=False)
    assert client.round_trip() == b""


def test_minimum_version(shared_server: ServerFactory, dial: Dial, papers: Papers) -> None:
    server = shared_server(config=papers.tls('min_version: "1.3"'))
    context = papers.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    client = dial(server)
    client.read_info()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.start_tls(context)


def test_plain_and_secure_clients_side_by_side(
    shared_server: ServerFactory, dial: Dial, papers: Papers
) -> None:
    server = shared_server(config=papers.tls() + "allow_non_tls: true")
    plain = dial(server)
    info = plain.read_info()
    assert "tls_required" not in info
    assert info["tls_available"] is True
    plain.handshake(read_info=False)
    client = secure(dial, server, papers.context())
    client.handshake(read_info=False)
    client.round_trip(b"SUB mixed 1\r\n")
    plain.send(publish("mixed", b"x"))
    assert client.read_frame() == message("mixed", 1, b"x")


def test_authorization_over_tls(shared_server: ServerFactory, dial: Dial, papers: Papers) -> None:
    server = shared_server(config=papers.tls() + "authorization { user: me, password: p }")
    client = secure(dial, server, papers.context())
    client.handshake(read_info=False, user="me", **{"pass": "p"})
    refused = secure(dial, server, papers.context())
    refused.send_connect(user="me", **{"pass": "wrong"})
    assert refused.read_until_closed() == AUTHORIZATION_VIOLATION


# -- client certificates ----------------------------------------------------------------------------


@pytest.fixture
def verifying(shared_server: ServerFactory, papers: Papers) -> ServerProcess:
    return shared_server(config=papers.tls("verify: true"), monitor=True)


def test_certificate_of_our_authority(verifying: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = dial(verifying)
    info = client.read_info()
    assert (info["tls_required"], info["tls_verify"]) == (True, True)
    client.start_tls(papers.context(papers.client))
    client.handshake(read_info=False)
    assert client.round_trip() == b""


@pytest.mark.parametrize("whose", ["nobody", "stranger"])
def test_certificate_of_no_authority_of_ours(
    verifying: ServerProcess, dial: Dial, papers: Papers, whose: str
) -> None:
    client = dial(verifying)
    client.read_info()
    context = papers.context(papers.stranger if whose == "stranger" else None)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 lets the client go on before it is judged
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.start_tls(context)
    assert closed_reason(verifying, client) == "TLS Handshake Failure"


def test_pinned_certificates(shared_server: ServerFactory, dial: Dial, papers: Papers) -> None:
    other = papers.authority.issue("other")
    pins = f'verify: true, pinned_certs: ["{papers.client.public_key_sha256}"]'
    server = shared_server(config=papers.tls(pins), monitor=True)
    client = secure(dial, server, papers.context(papers.client))
    client.handshake(read_info=False)
    refused = dial(server)
    refused.read_info()
    refused.start_tls(papers.context(other))
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        refused.handshake(read_info=False)


MAPPED = """
authorization { users: [
  { user: "client@example.com", permissions: { publish: "email" } }
  { user: "dns.example.com", permissions: { publish: "dns" } }
  { user: "CN=subject,OU=mill,O=race", permissions: { publish: "subject" } }
] }
"""


@pytest.fixture
def mapping(shared_server: ServerFactory, papers: Papers) -> ServerProcess:
    return shared_server(config=papers.tls("verify_and_map: true") + MAPPED, monitor=True)


@pytest.mark.parametrize("kind", ["email", "dns", "subject"])
def test_user_found_by_certificate(mapping: ServerProcess, dial: Dial, papers: Papers, kind: str) -> None:
    certificate = {
        "email": papers.client,
        "dns": papers.authority.issue("dns", dns=["unknown.example.com", "dns.example.com"]),
        "subject": papers.authority.issue(
            "subject", subject=[("O", "race"), ("OU", "mill"), ("CN", "subject")]
        ),
    }[kind]
    client = secure(dial, mapping, papers.context(certificate))
    client.handshake(read_info=False)
    assert client.round_trip(publish(kind)) == b""
    assert b"Permissions Violation" in client.round_trip(publish("other"))


def test_no_user_found_by_certificate(mapping: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = secure(dial, mapping, papers.context(papers.authority.issue("nobody", dns=["no.example.com"])))
    client.send_connect()
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_certificate_beats_the_name_in_connect(mapping: ServerProcess, dial: Dial, papers: Papers) -> None:
    client = secure(dial, mapping, papers.context(papers.client))
    client.handshake(read_info=False, user="dns.example.com")
    assert client.round_trip(publish("email")) == b""


# -- TLS first --------------------------------------------------------------------------------------


def test_handshake_first(shared_server: ServerFactory, dial: Dial, papers: Papers) -> None:
    server = shared_server(config=papers.tls("handshake_first: true"))
    client = dial(server)
    client.start_tls(papers.context())
    assert client.read_info()["tls_required"] is True
    client.handshake(read_info=False)
    assert client.round_trip() == b""


def test_handshake_first_sends_nothing_in_clear(shared_server: ServerFactory, papers: Papers) -> None:
    server = shared_server(config=papers.tls("handshake_first: true, timeout: 0.3"))
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as silent:
        received = silent.recv(4096)
    assert not received.startswith(b"INFO")


def secure_at_once(dial: Dial, server: ServerProcess, context: ssl.SSLContext) -> WireClient:
    """Begin with TLS; again if it was too late, since `auto` waits 50 ms and then sends INFO in clear."""
    for _ in range(20):
        client = dial(server)
        try:
            client.start_tls(context)
        except ssl.SSLError:
            continue
        return client
    raise AssertionError("INFO always came in clear first")


@pytest.mark.parametrize("setting", ["auto", "'1s'"])
def test_handshake_first_with_fallback(
    shared_server: ServerFactory, dial: Dial, papers: Papers, setting: str
) -> None:
    server = shared_server(config=papers.tls(f"handshake_first: {setting}"))
    context = papers.context()
    early = secure_at_once(dial, server, context)
    early.read_info()
    early.handshake(read_info=False)
    waiting = secure(dial, server, context)
    waiting.handshake(read_info=False)
    assert early.round_trip() == waiting.round_trip() == b""


# -- with a client library --------------------------------------------------------------------------


async def test_library_over_tls(verifying: ServerProcess, papers: Papers) -> None:
    url = f"tls://127.0.0.1:{verifying.port}"
    connection = await library(url, tls=papers.context(papers.client))
    subscription = await connection.subscribe("foo")
    await connection.publish("foo", b"over TLS")
    assert (await subscription.next_msg(timeout=PATIENCE_S)).data == b"over TLS"
    await connection.close()


async def test_library_with_handshake_first(shared_server: ServerFactory, papers: Papers) -> None:
    server = shared_server(config=papers.tls("handshake_first: true"))
    connection = await library(
        f"tls://127.0.0.1:{server.port}", tls=papers.context(), tls_handshake_first=True
    )
    await connection.flush()
    await connection.close()


async def test_library_told_about_tls_by_info(server: ServerProcess, papers: Papers) -> None:
    connection = await library(server.client_url, tls=papers.context())
    await connection.flush()
    await connection.close()


def test_flags_switch_tls_on(shared_server: ServerFactory, dial: Dial, papers: Papers) -> None:
    server = shared_server(
        "--tls",
        "--tlscert",
        str(papers.server.cert_file),
        "--tlskey",
        str(papers.server.key_file),
        "--tlsverify",
        "--tlscacert",
        str(papers.authority.cert_file),
    )
    client = dial(server)
    assert client.read_info()["tls_verify"] is True
    client.start_tls(papers.context(papers.client))
    client.handshake(read_info=False)
