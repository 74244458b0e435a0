"""The keys of an OpenID Connect issuer (JWKS): read from a file, or found and fetched over HTTPS.

`fetch_keys` blocks and runs in a thread.  Only keys for signatures whose algorithm is strong and asymmetric
are taken; a token can never choose another algorithm than its key is for.
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.broker.options import OidcOptions

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
MISSING: Final = "OpenID Connect needs PyJWT: pip install 'millstream[oidc]'"
_DISCOVERY: Final = "/.well-known/openid-configuration"
_MOST_BYTES: Final = 1024 * 1024
_MOST_KEYS: Final = 100
_PIECE: Final = 65_536
_FETCH_S: Final = 5.0  # for one document
_SHORTEST_RSA_BITS: Final = 2048


class OidcError(MillstreamError):
    """A token is not accepted, or the keys of its issuer cannot be had."""


class SigningKey(msgspec.Struct, frozen=True):
    key: Any  # as the library wants it
    algorithms: tuple[str, ...]


class _Document(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class _Discovery(msgspec.Struct, frozen=True):
    issuer: str
    jwks_uri: str


Keys = dict[str, list[SigningKey]]  # by key id; without one: ""


def fetch_keys(options: OidcOptions) -> Keys:
    """Return the keys of the issuer; raise OidcError with the reason."""
    if options.jwks_file:
        try:
            with open(options.jwks_file, "rb") as file:
                return read_keys(file.read(_MOST_BYTES + 1))
        except OSError as error:
            raise OidcError(f"{options.jwks_file}: {error.strerror}") from None
    url = options.jwks_url or _discovered(options)
    return read_keys(_fetch(url, options))


def read_keys(data: bytes) -> Keys:
    """Return the usable keys of a JWKS document; raise OidcError if there are none."""
    import jwt

    keys: Keys = {}
    for text in _read(data, _Document).keys[:_MOST_KEYS]:
        algorithms = _algorithms(text)
        if not algorithms:
            continue
        try:
            found = SigningKey(jwt.PyJWK(text, algorithms[0]).key, algorithms)
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if text["kty"] == "RSA" and getattr(found.key, "key_size", 0) < _SHORTEST_RSA_BITS:
            continue
        keys.setdefault(str(text.get("kid", "")), []).append(found)
    if not keys:
        raise OidcError("the issuer has no key that can be used")
    return keys


def is_safe_url(url: str) -> bool:
    """Return True for HTTPS, and for HTTP to this machine."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def _algorithms(key: dict[str, Any]) -> tuple[str, ...]:
    """Return the algorithms that a key may verify; none if it is not for signatures."""
    if key.get("use", "sig") != "sig" or not isinstance(key.get("kid", ""), str):
        return ()
    match key.get("kty"), key.get("crv"):
        case "RSA", _:
            fitting: tuple[str, ...] = ("RS256", "PS256")
        case "EC", "P-256":
            fitting = ("ES256",)
        case "OKP", "Ed25519":
            fitting = ("EdDSA",)
        case _:
            return ()
    only = key.get("alg")
    return fitting if only is None else tuple(each for each in fitting if each == only)


def _discovered(options: OidcOptions) -> str:
    found = _read(_fetch(options.issuer.rstrip("/") + _DISCOVERY, options), _Discovery)
    if found.issuer != options.issuer:
        raise OidcError(f'{options.issuer} says that it is the issuer "{found.issuer}"')
    if not is_safe_url(found.jwks_uri):
        raise OidcError(f'{options.issuer} has its keys at "{found.jwks_uri}", which is not https')
    return str(found.jwks_uri)


def _read(data: bytes, kind: type[Any]) -> Any:
    if len(data) > _MOST_BYTES:
        raise OidcError("the document is too large")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OidcError(f"the document cannot be read: {error}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing: an issuer says in its documents where its keys are."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _fetch(url: str, options: OidcOptions) -> bytes:
    ends = time.monotonic() + _FETCH_S
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    try:
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=options.ca_file or None)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*handlers).open(url, timeout=_FETCH_S) as response:
            body = bytearray()
            while piece := response.read1(_PIECE):
                body += piece
                if len(body) > _MOST_BYTES:
                    raise OidcError(f"{url} answers with too much")
                if time.monotonic() > ends:
                    raise OidcError(f"{url} takes too long")
            return bytes(body)
    except urllib.error.HTTPError as error:
        error.close()
        raise OidcError(f"{url} answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise OidcError(f"{url}: {getattr(error, 'reason', error)}") from None
