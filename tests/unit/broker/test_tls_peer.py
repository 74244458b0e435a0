"""The names in a client's certificate, the user they stand for, and the key's fingerprint."""

import datetime
import hashlib
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from millstream.broker.tls_peer import (
    UnreadableCertificate,
    parse_name,
    peer_names,
    pinned_fingerprint,
)

OIDS = {
    "CN": NameOID.COMMON_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "C": NameOID.COUNTRY_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "POSTALCODE": NameOID.POSTAL_CODE,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
    "DC": NameOID.DOMAIN_COMPONENT,
    "EMAIL": NameOID.EMAIL_ADDRESS,
}
KEY = ec.generate_private_key(ec.SECP256R1())
Part = tuple[str, str]


def certificate(
    *subject: Part | Sequence[Part],
    emails: Sequence[str] = (),
    dns: Sequence[str] = (),
    uris: Sequence[str] = (),
) -> bytes:
    """Make a certificate; a part of the subject may be several attributes at the same level."""
    levels = [[part] if isinstance(part[0], str) else part for part in subject]
    name = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(OIDS[kind], text) for kind, text in level])  # type: ignore[misc]
            for level in levels
        ]
    )
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
    )
    names: list[x509.GeneralName] = [
        *map(x509.RFC822Name, emails),
        *map(x509.DNSName, dns),
        *map(x509.UniformResourceIdentifier, uris),
    ]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not subject)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_every_kind_of_name_is_read() -> None:
    der = certificate(
        ("CN", "app"), emails=["a@x", "b@x"], dns=["localhost", "*.x"], uris=["spiffe://localhost/app"]
    )
    names = peer_names(der)
    assert names.emails == ("a@x", "b@x")
    assert names.dns_names == ("localhost", "*.x")
    assert names.uris == ("spiffe://localhost/app",)
    assert names.subject == "CN=app"


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ([], ""),
        ([("CN", "a"), ("OU", "b")], "CN=a,OU=b"),
        ([("OU", "b"), ("CN", "a")], "CN=a,OU=b"),
        ([("OU", "b"), ("OU", "c"), ("CN", "a")], "CN=a,OU=b+OU=c"),
        (
            [
                ("C", "US"),
                ("ST", "CA"),
                ("L", "Los Angeles"),
                ("STREET", "Main"),
                ("POSTALCODE", "90"),
                ("O", "NATS"),
                ("OU", "io"),
                ("CN", "a"),
                ("SERIALNUMBER", "7"),
            ],
            "SERIALNUMBER=7,CN=a,OU=io,O=NATS,POSTALCODE=90,STREET=Main,L=Los Angeles,ST=CA,C=US",
        ),
        ([("CN", "first"), ("CN", "last")], "CN=last"),
        ([("CN", ' a, "b" + c '), ("O", "#x#")], 'CN=\\ a\\, \\"b\\" \\+ c\\ ,O=\\#x#'),
        ([("CN", "a"), ("DC", "example"), ("DC", "com"), ("EMAIL", "a@x")], "CN=a"),
    ],
)
def test_the_subject_is_written_as_go_writes_it(subject: list[Part], text: str) -> None:
    assert peer_names(certificate(*subject)).subject == text


FULL = certificate(("DC", "com"), ("DC", "example"), ("O", "NATS"), ("OU", "a"), ("CN", "bob"))


@pytest.mark.parametrize(
    ("der", "users", "found"),
    [
        (certificate(("CN", "x"), emails=["a@x"], dns=["host"]), ["host", "a@x", "CN=x"], "a@x"),
        (certificate(("CN", "x"), emails=["a@x"], dns=["host"]), ["CN=x", "host"], "host"),
        (certificate(("CN", "x"), dns=["host"], uris=["spiffe://x/y"]), ["spiffe://x/y"], "spiffe://x/y"),
        (certificate(("CN", "x"), emails=["a@x"]), ["CN=x"], "CN=x"),
        (certificate(("CN", "x")), ["x"], None),
        (certificate(("CN", "x")), ["cn=x"], "cn=x"),
        (certificate(("CN", "x")), ["CN=X"], None),
        (certificate(("OU", "o"), ("CN", "x")), ["CN=x, OU=o"], "CN=x, OU=o"),
        (certificate(("OU", "o"), ("CN", "x")), ["OU=o,CN=x"], "OU=o,CN=x"),
        (certificate(("OU", "o"), ("CN", "x")), ["OU=o,CN=x", "CN=x,OU=o"], "CN=x,OU=o"),
        (certificate(("OU", "o"), ("CN", "x")), ["CN=x"], None),
        (certificate(("OU", "o"), ("OU", "o"), ("CN", "x")), ["OU=o,CN=x,CN=x"], None),
        (certificate([("OU", "o"), ("CN", "x")]), ["CN=x+OU=o"], "CN=x+OU=o"),
        (certificate([("OU", "o"), ("CN", "x")]), ["CN=x,OU=o"], "CN=x,OU=o"),
        (certificate([("OU", "o"), ("CN", "x")]), ["OU=o"], None),
        (certificate(("CN", "a,b")), [r"CN=a\,b"], r"CN=a\,b"),
        (certificate(("CN", "é")), [r"CN=\c3\A9"], r"CN=\c3\A9"),
        (FULL, ["CN=bob,OU=a,O=NATS,DC=example,DC=com"], "CN=bob,OU=a,O=NATS,DC=example,DC=com"),
        (FULL, ["DC=com,DC=example,CN=bob,OU=a,O=NATS"], "DC=com,DC=example,CN=bob,OU=a,O=NATS"),
        (FULL, ["CN=bob,OU=a,O=NATS"], "CN=bob,OU=a,O=NATS"),
        (certificate(("CN", "x"), ("EMAIL", "a@x")), ["CN=x"], "CN=x"),
        (certificate(("DC", "y"), ("CN", "x"), ("EMAIL", "a@x")), ["CN=x,DC=y"], "CN=x,DC=y"),
        (certificate(emails=["a@x"]), ["", "b@x"], None),
        (certificate(), [""], None),
    ],
    ids=lambda value: "certificate" if isinstance(value, bytes) else None,  # keys are new each time
)
def test_the_user_is_found_in_the_order_of_nats_server(
    der: bytes, users: list[str], found: str | None
) -> None:
    assert peer_names(der).match(users) == found


@pytest.mark.parametrize(
    "text",
    ["", "bob", "CN", "=x", " =x", "CN=x,", "CN=x,,OU=y", "CN=#04024869", "CN=a\\", "CN=a\\z", "CN=a\\4"],
)
def test_what_is_not_a_distinguished_name_is_not_taken_for_one(text: str) -> None:
    assert parse_name(text) is None


def test_blanks_around_the_parts_of_a_name_do_not_count() -> None:
    assert parse_name(" CN = a b  , OU= c") == parse_name("CN=a b,OU=c")
    assert parse_name("CN=a\\ ") == parse_name("CN=a\\20") != parse_name("CN=a")


def test_the_fingerprint_is_that_of_the_public_key_info() -> None:
    key_info = KEY.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for der in (certificate(("CN", "x")), certificate(("O", "y" * 60), ("OU", "z" * 60), dns=["a.b"])):
        assert pinned_fingerprint(der) == hashlib.sha256(key_info).hexdigest()


def test_a_damaged_certificate_is_an_error_of_its_own() -> None:
    der = certificate(("CN", "x"))
    for broken in (b"", b"nonsense", der[:100]):
        with pytest.raises(UnreadableCertificate):
            peer_names(broken)
        with pytest.raises(UnreadableCertificate):
            pinned_fingerprint(broken)
