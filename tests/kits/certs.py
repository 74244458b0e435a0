"""Create certificates for tests: an authority and the certificates it signs.

Keys are elliptic-curve keys, which take no time to generate.  Files are PEM, in a directory of the caller;
they protect nothing.
"""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = datetime.timedelta(days=1)
_SUBJECT_OIDS: Final = {
    "CN": NameOID.COMMON_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "C": NameOID.COUNTRY_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
}


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate and its key, as files."""

    cert_file: Path
    key_file: Path
    public_key_sha256: str  # hex, as in `pinned_certs`


class CertificateAuthority:
    """A self-signed root, written to `folder`, that signs leaf certificates."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self.folder = folder
        self._stem = name.replace(" ", "-")
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(self._subject, self._subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.cert_file = folder / f"{self._stem}.pem"
        self.cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        dns: Sequence[str] = (),
        emails: Sequence[str] = (),
        addresses: Sequence[str] = (),
        subject: Sequence[tuple[str, str]] | None = None,
        begins_in_s: float = -_LIFETIME.total_seconds(),
        ends_in_s: float = _LIFETIME.total_seconds(),
    ) -> IssuedCertificate:
        """Sign a certificate valid for both ends of a connection.

        `subject` lists the parts of the distinguished name in order; the default is `CN=name`.  The validity
        is relative to now, in whole seconds.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [("CN", name)] if subject is None else subject
        distinguished = x509.Name([x509.NameAttribute(_SUBJECT_OIDS[kind], text) for kind, text in parts])
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(distinguished, self._subject, key.public_key(), begins_in_s, ends_in_s)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        names: list[x509.GeneralName] = [
            *(x509.DNSName(entry) for entry in dns),
            *(x509.RFC822Name(entry) for entry in emails),
            *(x509.IPAddress(ipaddress.ip_address(entry)) for entry in addresses),
        ]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        cert_file = self.folder / f"{self._stem}-{name}.pem"
        key_file = self.folder / f"{self._stem}-{name}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return IssuedCertificate(cert_file, key_file, _public_key_sha256(key.public_key()))

    def issue_for_loopback(self, name: str = "server") -> IssuedCertificate:
        """Sign a certificate for a server at 127.0.0.1 and localhost."""
        return self.issue(name, dns=["localhost"], addresses=["127.0.0.1"])

    def client_context(self, certificate: IssuedCertificate | None = None) -> ssl.SSLContext:
        """Return a context that trusts only this authority and presents `certificate`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.cert_file)
        if certificate is not None:
            context.load_cert_chain(certificate.cert_file, certificate.key_file)
        return context


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    begins_in_s: float = -_LIFETIME.total_seconds(),
    ends_in_s: float = _LIFETIME.total_seconds(),
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(seconds=begins_in_s))
        .not_valid_after(now + datetime.timedelta(seconds=ends_in_s))
    )


def _public_key_sha256(public_key: ec.EllipticCurvePublicKey) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(
        public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return digest.finalize().hex()
