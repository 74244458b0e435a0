"""Build the TLS context of a listener from options in nats-server's terms.

A context is built at start and at reload, so everything that cannot work is refused here, with the name of
the file or option in the message, and not at the first handshake.

Differences between OpenSSL in Python and Go:
  - one curve can be set, not a list; of several wanted curves the context uses the most common one, so that
    no curve outside the list is ever used; curves that OpenSSL lacks are refused if there is no other;
  - suites that both Go and OpenSSL consider broken (RC4, 3DES) are not built in, and refused.
Not here: sessions and alerts (base.tls_server), handshakes (broker.tls_accept), the peer's certificate
(broker.tls_peer).
"""

import ssl
from collections.abc import Sequence
from typing import Final

from millstream.base.errors import MillstreamError
from millstream.base.tls_files import load_authorities, load_certificate
from millstream.base.tls_server import ServerContext
from millstream.broker.options import TlsOptions

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

# Neither Go nor Python lets one choose among these; they are always on where TLS 1.3 is spoken.
_TLS_1_3_SUITES: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
# nats-server takes these only with `allow_insecure_cipher_suites`.
_INSECURE_SUITES: Final = frozenset(
    {
        "TLS_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    }
)

# In the order in which clients are likely to have them.
_CURVES: Final = {
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
}
_MISSING_CURVES: Final = frozenset({"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"})


class TlsOptionsError(MillstreamError):
    """A tls block cannot be applied."""


def server_context(options: TlsOptions) -> ServerContext:
    """Return the context for a listener; raise TlsOptionsError or TlsFileError."""
    context = ServerContext()
    if options.min_version not in _VERSIONS:
        raise TlsOptionsError(f"unsupported minimum TLS version {options.min_version!r}: use 1.2 or 1.3")
    context.minimum_version = _VERSIONS[options.min_version]
    _set_suites(context, options.cipher_suites)
    _set_curve(context, options.curve_preferences)
    _load_certificate(context, options)
    if options.ca_file:
        load_authorities(context, options.ca_file)
    if options.verify or options.verify_and_map:
        if not options.ca_file:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.require_certificates()
    return context


def _set_suites(context: ssl.SSLContext, names: Sequence[str]) -> None:
    if not names:
        return
    insecure = [name for name in names if name in _INSECURE_SUITES]
    if insecure:
        raise TlsOptionsError(f"insecure cipher suites are not supported: {', '.join(insecure)}")
    unknown = [name for name in names if name not in _SUITES and name not in _TLS_1_3_SUITES]
    if unknown:
        raise TlsOptionsError(f"unrecognized cipher suites: {', '.join(unknown)}")
    chosen = [_SUITES[name] for name in names if name in _SUITES]
    if not chosen:
        # Only suites of TLS 1.3: an older handshake could not agree on any.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(chosen))
    except ssl.SSLError:
        raise TlsOptionsError(f"this OpenSSL has none of the cipher suites {', '.join(names)}") from None


def _set_curve(context: ssl.SSLContext, names: Sequence[str]) -> None:
    if not names:
        return
    unknown = [name for name in names if name not in _CURVES and name not in _MISSING_CURVES]
    if unknown:
        raise TlsOptionsError(f"unrecognized curve preferences: {', '.join(unknown)}")
    for name, openssl_name in _CURVES.items():
        if name in names:
            context.set_ecdh_curve(openssl_name)
            return
    raise TlsOptionsError(
        f"curve preferences {', '.join(names)} are not supported by {ssl.OPENSSL_VERSION}: "
        f"name at least one of {', '.join(_CURVES)}"
    )


def _load_certificate(context: ssl.SSLContext, options: TlsOptions) -> None:
    if not options.cert_file:
        raise TlsOptionsError("missing 'cert_file' in TLS configuration")
    if not options.key_file:
        raise TlsOptionsError("missing 'key_file' in TLS configuration")
    load_certificate(context, options.cert_file, options.key_file)
