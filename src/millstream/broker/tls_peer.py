"""Read a client's certificate: the user for `verify_and_map`, and the key for pinning.

`verify_and_map` finds a user by the content of the certificate, in nats-server's order: email addresses, DNS
names and URIs, each looked up unchanged; then the subject, compared part by part with every user name that is
a distinguished name, first in order and then in any order; last the subject as one string.

Certificates are verified before they get here.  Not here: users and passwords (the broker's authentication).
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.errors import MillstreamError

if TYPE_CHECKING:
    from cryptography import x509

# The attributes that have a short name; a subject with any other is matched as a string only.
_DOMAIN_COMPONENT: Final = "0.9.2342.19200300.100.1.25"
_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.17": "POSTALCODE",
    _DOMAIN_COMPONENT: "DC",
}
# Go puts the parts of a subject in this order whatever the certificate's is, and leaves out the others.
_STRING_ORDER: Final = ("SERIALNUMBER", "CN", "OU", "O", "POSTALCODE", "STREET", "L", "ST", "C")
_SINGLE_VALUED: Final = frozenset({"CN", "SERIALNUMBER"})
_ESCAPED: Final = frozenset(',+"\\<>;')
_ESCAPABLE: Final = frozenset(' "#+,;<=>\\')

# One relative name: its attributes, in no order.  A name: relative names, the most specific first.
RelativeName = frozenset[tuple[tuple[str, str], int]]
DistinguishedName = tuple[RelativeName, ...]


class UnreadableCertificate(MillstreamError):
    """A certificate cannot be parsed."""


class PeerNames(msgspec.Struct, frozen=True):
    """The names in one certificate."""

    emails: tuple[str, ...]
    dns_names: tuple[str, ...]
    uris: tuple[str, ...]
    subject: str  # as RFC 2253 writes it, in Go's order
    domain_components: str  # `DC=a,DC=b` in the certificate's order; empty if there are none
    distinguished_name: DistinguishedName | None  # None: has attributes that we have no name for

    def match(self, user_names: Collection[str]) -> str | None:
        """Return the user that this certificate identifies, or None."""
        for name in (*self.emails, *self.dns_names, *self.uris):
            if name in user_names:
                return name
        if self.distinguished_name is not None:
            found = _match_name(self.distinguished_name, user_names)
            if found is not None:
                return found
        if self.domain_components:
            full = f"{self.subject},{self.domain_components}"
            if full in user_names:
                return full
        return self.subject if self.subject and self.subject in user_names else None


def peer_names(der: bytes) -> PeerNames:
    """Read the names in a DER certificate."""
    from cryptography import x509  # here, because most servers see no certificate and start faster

    try:
        certificate = x509.load_der_x509_certificate(der)
        relative_names = [
            [(attribute.oid.dotted_string, attribute.value) for attribute in relative]
            for relative in certificate.subject.rdns
        ]
        alternatives = _alternative_names(certificate)
    except ValueError as error:
        raise UnreadableCertificate(f"cannot read the client's certificate: {error}") from None
    texts = [[(oid, value) for oid, value in rdn if isinstance(value, str)] for rdn in relative_names]
    attributes = [attribute for rdn in texts for attribute in rdn]
    return PeerNames(
        emails=tuple(alternatives.get_values_for_type(x509.RFC822Name)),
        dns_names=tuple(alternatives.get_values_for_type(x509.DNSName)),
        uris=tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier)),
        subject=_subject_string(attributes),
        domain_components=",".join(f"DC={value}" for oid, value in attributes if oid == _DOMAIN_COMPONENT),
        distinguished_name=_subject_name(relative_names),
    )


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _subject_string(attributes: list[tuple[str, str]]) -> str:
    values: dict[str, list[str]] = {}
    for oid, value in attributes:
        name = _SHORT_NAMES.get(oid)
        if name is not None:
            values.setdefault(name, []).append(value)
    parts = []
    for name in _STRING_ORDER:
        found = values.get(name, [])
        if name in _SINGLE_VALUED:
            found = [value for value in found[-1:] if value]
        if found:
            parts.append("+".join(f"{name}={_escape(value)}" for value in found))
    return ",".join(parts)


def _escape(value: str) -> str:
    escaped = []
    for position, character in enumerate(value):
        edge = position in (0, len(value) - 1)
        if character in _ESCAPED or (character == " " and edge) or (character == "#" and position == 0):
            escaped.append("\\")
        escaped.append(character)
    return "".join(escaped)


def _subject_name(relative_names: list[list[tuple[str, str | bytes]]]) -> DistinguishedName | None:
    name: list[RelativeName] = []
    for relative in reversed(relative_names):
        attributes = []
        for oid, value in relative:
            if oid not in _SHORT_NAMES or not isinstance(value, str):
                return None
            attributes.append((_SHORT_NAMES[oid], value))
        if attributes:
            name.append(_relative_name(attributes))
    return tuple(name)


def _relative_name(attributes: list[tuple[str, str]]) -> RelativeName:
    return frozenset(Counter((kind.upper(), value) for kind, value in attributes).items())


def _match_name(wanted: DistinguishedName, user_names: Collection[str]) -> str | None:
    candidates = [(user, name) for user in user_names if (name := parse_name(user)) is not None]
    for user, name in candidates:
        if name == wanted:
            return user
    for user, name in candidates:
        if Counter(name) == Counter(wanted):
            return user
    return None


def parse_name(text: str) -> DistinguishedName | None:
    """Parse a distinguished name in RFC 4514's notation; return None if `text` is not one."""
    name: list[RelativeName] = []
    relative: list[tuple[str, str]] = []
    for part, separator in _split_unescaped(text):
        kind, equals, value = part.partition("=")
        if not equals or not kind.strip(" ") or value.startswith("#"):
            return None
        plain = _unescape(value)
        if plain is None:
            return None
        relative.append((kind.strip(" "), plain))
        if separator != "+":
            name.append(_relative_name(relative))
            relative = []
    return tuple(name)


def _split_unescaped(text: str) -> list[tuple[str, str]]:
    """Split at unescaped commas and pluses; return each piece with the separator after it."""
    pieces: list[tuple[str, str]] = []
    start = position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] in ",+":
            pieces.append((text[start:position], text[position]))
            start = position + 1
        position += 1
    pieces.append((text[start:], ""))
    return pieces


def _unescape(value: str) -> str | None:
    """Strip `value` and resolve its escapes; return None if one is invalid."""
    plain = bytearray()
    length = 0  # without blanks at the end that no backslash hides
    position = 0
    while position < len(value):
        character = value[position]
        position += 1
        if character == "\\":
            following = value[position : position + 1]
            if following and following in _ESCAPABLE:
                plain += following.encode()
                position += 1
            else:
                try:
                    plain += bytes.fromhex(value[position : position + 2])
                except ValueError:
                    return None
                if len(value) < position + 2:
                    return None
                position += 2
        elif character == " ":
            if plain:
                plain += b" "
            continue
        else:
            plain += character.encode()
        length = len(plain)
    return plain[:length].decode(errors="replace")


def pins_allow(pins: Collection[str], der: bytes | None) -> bool:
    """Return True if there are no pins, or the certificate's key is one of them."""
    if not pins:
        return True
    try:
        return der is not None and pinned_fingerprint(der) in pins
    except UnreadableCertificate:
        return False


def pinned_fingerprint(der: bytes) -> str:
    """Return the hex SHA-256 of the certificate's public key info, as in `pinned_certs`."""
    try:
        import hashlib

        return hashlib.sha256(_public_key_info(der)).hexdigest()
    except IndexError:
        raise UnreadableCertificate("cannot read the client's certificate: it is cut short") from None


def _public_key_info(der: bytes) -> bytes:
    """Return the original bytes of subjectPublicKeyInfo; re-encoding the key may differ (RFC 4055 keys)."""
    start, _ = _contents(der, 0)  # Certificate
    position, _ = _contents(der, start)  # TBSCertificate
    skipped = 6 if der[position] == 0xA0 else 5  # [version,] serial, algorithm, issuer, validity, subject
    for _ in range(skipped):
        _, position = _contents(der, position)
    _, end = _contents(der, position)
    return der[position:end]


def _contents(der: bytes, position: int) -> tuple[int, int]:
    """Return start and end of the contents of the element at `position`."""
    size = der[position + 1]
    start = position + 2
    if size & 0x80:
        octets = size & 0x7F
        size = int.from_bytes(der[start : start + octets], "big")
        start += octets
    if start + size > len(der):
        raise IndexError
    return start, start + size


@lru_cache(maxsize=64)
def suite_name(openssl_name: str) -> str:
    """Return the standard name for OpenSSL's name of a cipher suite; those of TLS 1.3 are the same."""
    if not openssl_name or openssl_name.startswith("TLS_"):
        return openssl_name
    exchange, _, cipher = openssl_name.partition("AES" if "AES" in openssl_name else "CHACHA20")
    exchange = exchange.rstrip("-").replace("-", "_") or "RSA"
    if "CHACHA20" in openssl_name:
        cipher = "CHACHA20_POLY1305_SHA256"
    else:
        size, _, mode = cipher.partition("-")
        cipher = f"AES_{size}_{mode.replace('-', '_')}"
        if "GCM" not in cipher and "CCM" not in cipher:
            cipher = f"AES_{size}_CBC_{mode.replace('-', '_')}"
    return f"TLS_{exchange}_WITH_{cipher}"


def peer_chain(transport: Any, certificate: bytes | None) -> tuple[tuple[bytes, ...], bool]:
    """Return a client's certificates, its own first, and whether they were verified.

    Python before 3.13 tells only the client's own.
    """
    ssl_object = transport.get_extra_info("ssl_object") if certificate is not None else None
    if certificate is None or ssl_object is None:
        return (), False
    verified = ssl_object.context.verify_mode is not ssl.CERT_NONE
    chain = getattr(ssl_object, "get_verified_chain" if verified else "get_unverified_chain", None)
    return tuple(chain()) if chain is not None else (certificate,), verified
