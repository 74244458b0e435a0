"""Contexts do what the options say, and options that cannot be honoured say what is wrong with them."""

import socket
import ssl
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from millstream.base.tls_files import TlsFileError
from millstream.broker.options import TlsOptions
from millstream.broker.tls import TlsOptionsError, server_context
from tests.kits.certs import CertificateAuthority
from tests.kits.patience import PATIENCE_S


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def options(authority: CertificateAuthority) -> TlsOptions:
    issued = authority.issue_for_loopback()
    return TlsOptions(cert_file=str(issued.cert_file), key_file=str(issued.key_file))


class Agreed(NamedTuple):
    version: str | None
    cipher: str


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> Agreed:
    """Shake hands over a pair of sockets; return what the client's end agreed to."""
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            with far, server.wrap_socket(far, server_side=True) as secured:
                secured.send(b"x")
        except OSError:
            pass  # the client's side of it is what the test looks at

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        near.settimeout(PATIENCE_S)
        with near, client.wrap_socket(near, server_hostname="localhost") as secured:
            secured.recv(1)  # with TLS 1.3 the server judges the client's certificate after its handshake
            cipher = secured.cipher()
            assert cipher is not None
            return Agreed(secured.version(), cipher[0])
    finally:
        thread.join()


def test_a_client_that_trusts_the_authority_can_connect(
    authority: CertificateAuthority, options: TlsOptions
) -> None:
    assert handshake(server_context(options), authority.client_context()).version == "TLSv1.3"


def test_the_minimum_version_is_1_2_unless_told_otherwise(
    authority: CertificateAuthority, options: TlsOptions
) -> None:
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(server_context(options), old).version == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        handshake(server_context(replace(options, min_version="1.3")), old)


@pytest.mark.parametrize(
    ("name", "openssl_name"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ],
)
def test_a_cipher_suite_is_chosen_by_its_go_name(
    authority: CertificateAuthority, options: TlsOptions, name: str, openssl_name: str
) -> None:
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.set_ciphers("ALL")
    context = server_context(replace(options, cipher_suites=(name, "TLS_AES_128_GCM_SHA256")))
    assert handshake(context, old).cipher == openssl_name


def test_suites_of_tls_1_3_alone_leave_nothing_for_older_clients(
    authority: CertificateAuthority, options: TlsOptions
) -> None:
    context = server_context(replace(options, cipher_suites=("TLS_AES_256_GCM_SHA384",)))
    handshake(context, authority.client_context())
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(context, old)


@pytest.mark.parametrize(
    ("preferences", "good", "bad"),
    [
        (("CurveP384",), "secp384r1", "prime256v1"),
        (("CurveP521", "CurveP256"), "prime256v1", "secp384r1"),
        (("X25519MLKEM768", "X25519"), "X25519", "prime256v1"),
    ],
)
def test_no_curve_outside_the_preferences_is_used(
    authority: CertificateAuthority, options: TlsOptions, preferences: tuple[str, ...], good: str, bad: str
) -> None:
    context = server_context(replace(options, curve_preferences=preferences))
    client = authority.client_context()
    client.set_ecdh_curve(good)
    handshake(context, client)
    client.set_ecdh_curve(bad)
    with pytest.raises(ssl.SSLError):
        handshake(context, client)


@pytest.mark.parametrize("option", ["verify", "verify_and_map"])
def test_verification_asks_for_a_certificate_of_the_authority(
    authority: CertificateAuthority, options: TlsOptions, option: str, tmp_path: Path
) -> None:
    strict = replace(options, ca_file=str(authority.cert_file))
    strict = replace(strict, verify=True) if option == "verify" else replace(strict, verify_and_map=True)
    context = server_context(strict)
    handshake(context, authority.client_context(authority.issue("client")))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate required"):
        handshake(context, authority.client_context())
    stranger = CertificateAuthority(tmp_path, "stranger").issue("client")
    with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
        handshake(context, authority.client_context(stranger))


def test_an_authority_alone_asks_for_nothing(authority: CertificateAuthority, options: TlsOptions) -> None:
    context = server_context(replace(options, ca_file=str(authority.cert_file)))
    handshake(context, authority.client_context())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_version": "1.1"}, "unsupported minimum TLS version '1.1': use 1.2 or 1.3"),
        ({"cipher_suites": ("TLS_NONE", "TLS_AES_128_GCM_SHA256")}, "unrecognized cipher suites: TLS_NONE"),
        (
            {"cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)},
            "insecure cipher suites are not supported: TLS_RSA_WITH_RC4_128_SHA",
        ),
        ({"curve_preferences": ("CurveP256", "P-1")}, "unrecognized curve preferences: P-1"),
        ({"cert_file": ""}, "missing 'cert_file' in TLS configuration"),
        ({"key_file": ""}, "missing 'key_file' in TLS configuration"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(
    options: TlsOptions, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(TlsOptionsError) as caught:
        server_context(replace(options, **changes))  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("option", "what"),
    [("cert_file", "certificate"), ("key_file", "key"), ("ca_file", "authorities")],
)
def test_a_file_that_is_missing_is_named(options: TlsOptions, option: str, what: str) -> None:
    with pytest.raises(TlsFileError) as caught:
        server_context(replace(options, **{option: "/no/x.pem"}))  # type: ignore[arg-type]
    told = f"cannot read the {what} in '/no/x.pem': No such file or directory; check the path"
    assert str(caught.value) == told


def test_curves_that_openssl_lacks_are_refused_with_those_it_has(options: TlsOptions) -> None:
    with pytest.raises(TlsOptionsError, match=r"X25519MLKEM768 .* name at least one of X25519, CurveP256"):
        server_context(replace(options, curve_preferences=("X25519MLKEM768",)))


def test_a_key_of_another_certificate_is_named(authority: CertificateAuthority, options: TlsOptions) -> None:
    other = str(authority.issue("other").key_file)
    with pytest.raises(TlsFileError) as caught:
        server_context(replace(options, key_file=other))
    told = f"the key in {other!r} does not belong to the certificate in {options.cert_file!r}"
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("option", "what"),
    [("cert_file", "certificate"), ("key_file", "private key"), ("ca_file", "certificate")],
)
def test_a_file_with_something_else_in_it_is_named(
    options: TlsOptions, tmp_path: Path, option: str, what: str
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    with pytest.raises(TlsFileError) as caught:
        server_context(replace(options, **{option: str(empty)}))  # type: ignore[arg-type]
    assert str(caught.value) == f"{str(empty)!r} holds no {what} in PEM"


def test_an_encrypted_key_is_refused_instead_of_asking_at_the_terminal(
    options: TlsOptions, tmp_path: Path
) -> None:
    key = serialization.load_pem_private_key(Path(options.key_file).read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsFileError, match=r"locked\.pem' is encrypted"):
        server_context(replace(options, key_file=str(locked)))
