"""Read the `tls` block.

Certificates are loaded once here, so that an error about a missing or broken file names the line of the
configuration.  The listener loads them again when it starts.  Paths are relative to the working directory.
"""

import re
import ssl
from typing import Any, Final

from millstream.base.tls_files import TlsFileError, load_authorities, load_certificate
from millstream.broker.options import TlsOptions
from millstream.config.errors import ConfigError, Location, Notes
from millstream.config.fields import (
    between,
    block,
    boolean,
    duration_text,
    field,
    items,
    positive,
    read_block,
    refused,
    seconds,
    string,
    unsupported,
    wrong,
)
from millstream.config.tree import TreeEntry

AUTO_FALLBACK_S: Final = 0.05  # delay before the plain-text fallback of `handshake_first: auto`

CIPHER_SUITES: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    }
)
INSECURE_CIPHER_SUITES: Final = frozenset(
    {
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)
CURVES: Final = frozenset({"X25519", "CurveP256", "CurveP384", "CurveP521"})
POST_QUANTUM_CURVES: Final = frozenset({"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"})

_FINGERPRINT = re.compile("[0-9a-f]{64}")


def read_tls(entry: TreeEntry, notes: Notes) -> TlsOptions:
    settings = read_block(block(entry), _TLS, notes, whole=True)
    if settings.pop("certs", ()) and "cert_file" in settings:
        raise refused(entry, "cannot combine cert_file with certs")
    settings |= settings.pop("pair", {})
    if settings.get("verify_and_map"):
        settings["verify"] = True
    return checked_tls(settings, entry.at)


def checked_tls(settings: dict[str, Any], at: Location | None) -> TlsOptions:
    """Build the options and check that the files they name can be loaded; raise ConfigError otherwise."""
    for needed, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
        if not settings.get(needed):
            missing = f"missing '{needed}' in TLS configuration"
            raise ConfigError(missing if settings.get(other) else f"tls: {missing}", at)
    options = TlsOptions(**settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        load_certificate(context, options.cert_file, options.key_file)
        if options.ca_file:
            load_authorities(context, options.ca_file)
    except TlsFileError as error:
        raise ConfigError(f"tls: {error}", at) from error
    return options


def _read_ciphers(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    return _names(entry, notes, CIPHER_SUITES, INSECURE_CIPHER_SUITES, "an insecure cipher suite")


def _read_curves(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    return _names(entry, notes, CURVES, POST_QUANTUM_CURVES, "a post-quantum key exchange")


def _names(
    entry: TreeEntry, notes: Notes, known: frozenset[str], refused_names: frozenset[str], why: str
) -> tuple[str, ...]:
    names = tuple(string(item, notes) for item in items(entry))
    if not names:
        raise refused(entry, "cannot be empty")
    for name in names:
        if name in refused_names:
            raise refused(entry, f"not supported by Millstream: {name} is {why}")
        if name not in known:
            raise refused(entry, f'unknown name "{name}"; known are {", ".join(sorted(known))}')
    return names


def _read_pinned(entry: TreeEntry, notes: Notes) -> frozenset[str]:
    pinned = frozenset(string(item, notes).lower() for item in items(entry))
    for fingerprint in pinned:
        if not _FINGERPRINT.fullmatch(fingerprint):
            raise refused(entry, f'"{fingerprint}" is not the hex SHA-256 of a public key info')
    return pinned


def _read_handshake_first(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    data = entry.value.data
    if isinstance(data, bool):
        first, fallback = data, None
    elif not isinstance(data, str):
        raise wrong(entry, "true, false, 'auto' or a duration")
    elif data.lower() in ("true", "on", "false", "off"):
        first, fallback = data.lower() in ("true", "on"), None
    elif data.lower() in ("auto", "auto_fallback"):
        first, fallback = True, AUTO_FALLBACK_S
    else:
        first, fallback = True, duration_text(entry, notes) or None
    return {"handshake_first": first, "handshake_first_fallback_s": fallback}


def _read_min_version(entry: TreeEntry, notes: Notes) -> str:
    version = entry.value.data
    if version not in ("1.2", "1.3"):
        raise wrong(entry, 'the string "1.2" or "1.3"')
    assert isinstance(version, str)
    return version


def _read_timeout(entry: TreeEntry, notes: Notes) -> dict[str, float]:
    timeout = positive(seconds)(entry, notes)
    return {"timeout_s": timeout} if timeout else {}


def _read_certs(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    pairs = [read_block(block(item), _PAIR, notes) for item in items(entry)]
    if len(pairs) != 1:
        raise refused(entry, "not supported by Millstream: other than exactly one certificate")
    return {"certs": True, "pair": dict(pairs[0])}


def _read_insecure(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    """Check the value and drop it: it applies to outgoing connections, which a listener does not make."""
    boolean(entry, notes)
    return {}


_WINDOWS_STORE = unsupported("the certificate store of Windows", harmless=(False,))

_PAIR = (field("cert_file", string, "cert_file"), field("key_file", string, "key_file"))

_TLS = (
    *_PAIR,
    field("certs certificates", _read_certs),
    field("ca_file", string, "ca_file"),
    field("verify", boolean, "verify"),
    field("verify_and_map", boolean, "verify_and_map"),
    field("insecure", _read_insecure),
    field("timeout", _read_timeout),
    field("min_version", _read_min_version, "min_version"),
    field("cipher_suites", _read_ciphers, "cipher_suites"),
    field("allow_insecure_cipher_suites", unsupported("insecure cipher suites", harmless=(False,))),
    field("curve_preferences", _read_curves, "curve_preferences"),
    field("pinned_certs", _read_pinned, "pinned_certs"),
    field("connection_rate_limit", between(0), "connection_rate_limit"),
    field("handshake_first first immediate", _read_handshake_first),
    field("verify_cert_and_check_known_urls", unsupported("known URLs of a cluster", harmless=(False,))),
    field("ocsp_peer", unsupported("OCSP", harmless=(False,))),
    field("cert_store", _WINDOWS_STORE),
    field("cert_match_by", _WINDOWS_STORE),
    field("cert_match", _WINDOWS_STORE),
    field("cert_match_skip_invalid", _WINDOWS_STORE),
    field("ca_certs_match", _WINDOWS_STORE),
)
