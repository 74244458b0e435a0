"""Contexts of servers: no session outlives the check of a certificate, and every refusal is told."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from millstream.base.tls_server import ServerContext, failure_handler
from tests.kits.certs import CertificateAuthority, IssuedCertificate

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@dataclass
class World:
    authority: CertificateAuthority
    server: IssuedCertificate
    client: IssuedCertificate

    def context(self, *, verifying: bool) -> ServerContext:
        context = ServerContext()
        context.load_cert_chain(self.server.cert_file, self.server.key_file)
        context.load_verify_locations(self.authority.cert_file)
        if verifying:
            context.require_certificates()
        return context

    def client_context(self, version: ssl.TLSVersion, *, tickets: bool = True) -> ssl.SSLContext:
        context = self.authority.client_context(self.client)
        context.minimum_version = context.maximum_version = version
        if not tickets:
            context.options |= ssl.OP_NO_TICKET
        return context


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    authority = CertificateAuthority(tmp_path_factory.mktemp("certs"))
    return World(authority, authority.issue_for_loopback(), authority.issue("client"))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def meet(
    pool: ThreadPoolExecutor,
    server: ServerContext,
    client: ssl.SSLContext,
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLSocket, ssl.SSLSocket, ssl.SSLSession | None]:
    """Return both ends of a connection that carried a byte each way, and the client's session."""
    left, right = socket.socketpair()
    ours = server.wrap_socket(left)
    doing = pool.submit(ours.do_handshake)
    try:
        theirs = client.wrap_socket(right, server_hostname="127.0.0.1", session=session)
    except ssl.SSLError:
        right.close()
        doing.exception()
        ours.close()
        raise
    doing.result()
    ours.sendall(b"x")
    assert theirs.recv(1) == b"x"  # with it came the tickets of TLS 1.3
    return ours, theirs, theirs.session


def end(pool: ThreadPoolExecutor, ours: ssl.SSLSocket, theirs: ssl.SSLSocket) -> None:
    """Close as the standard asks for: OpenSSL forgets sessions that ended otherwise."""
    closing = pool.submit(theirs.unwrap)
    ours.unwrap()
    closing.result()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("tickets", [True, False], ids=["tickets", "session-ids"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_context_that_verifies_resumes_nothing(
    world: World, pool: ThreadPoolExecutor, version: ssl.TLSVersion, tickets: bool
) -> None:
    server = world.context(verifying=True)
    client = world.client_context(version, tickets=tickets)
    ours, theirs, session = meet(pool, server, client)
    end(pool, ours, theirs)
    for _ in range(3):
        ours, theirs, session = meet(pool, server, client, session)
        assert not ours.session_reused
        assert not theirs.session_reused
        assert ours.getpeercert(binary_form=True) is not None
        end(pool, ours, theirs)


@pytest.mark.parametrize("tickets", [True, False], ids=["tickets", "session-ids"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_context_that_verifies_nobody_resumes(
    world: World, pool: ThreadPoolExecutor, version: ssl.TLSVersion, tickets: bool
) -> None:
    """This proves that the test above can fail."""
    server = world.context(verifying=False)
    client = world.client_context(version, tickets=tickets)
    ours, theirs, session = meet(pool, server, client)
    end(pool, ours, theirs)
    ours, theirs, _ = meet(pool, server, client, session)
    assert ours.session_reused
    end(pool, ours, theirs)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_suites_and_curves_hold_for_a_context_that_verifies(
    world: World, pool: ThreadPoolExecutor, version: ssl.TLSVersion
) -> None:
    server = world.context(verifying=True)
    server.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    server.set_ecdh_curve("prime256v1")
    client = world.client_context(version)
    ours, theirs, _ = meet(pool, server, client)
    suite = ours.cipher()
    assert suite is not None
    if version is ssl.TLSVersion.TLSv1_2:
        assert suite[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    end(pool, ours, theirs)
    client.set_ecdh_curve("secp384r1")  # which leaves no curve that both have
    with pytest.raises(ssl.SSLError):
        meet(pool, server, client)


def test_the_lowest_version_holds_for_a_context_that_verifies(world: World, pool: ThreadPoolExecutor) -> None:
    server = world.context(verifying=True)
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        meet(pool, server, world.client_context(ssl.TLSVersion.TLSv1_2))


@pytest.mark.parametrize("verifying", [True, False])
def test_a_failed_handshake_in_memory_leaves_an_alert_and_is_told_once(world: World, verifying: bool) -> None:
    failures: list[ssl.SSLError] = []
    token = failure_handler.set(failures.append)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = world.context(verifying=verifying).wrap_bio(incoming, outgoing, server_side=True)
    failure_handler.reset(token)
    incoming.write(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
    with pytest.raises(ssl.SSLWantReadError):
        secured.do_handshake()
    assert outgoing.read()[0] == 0x15  # an alert
    assert len(failures) == 1
    for _ in range(3):  # whatever comes then is neither kept nor looked at
        incoming.write(b"x" * 100_000)
        with pytest.raises(ssl.SSLWantReadError):
            secured.do_handshake()
        assert incoming.pending == 0
    assert len(failures) == 1
