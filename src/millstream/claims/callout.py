"""The tokens of an auth callout: the request that a server signs, and the answer of the service.

    server ── authorization_request (who connects, with what) ──▶ service
    server ◀── authorization_response (the token of a user, or an error) ── service

The fields have the names of the JSON.  Error texts are nats-server's.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from millstream.base.nkeys import KeyKind
from millstream.claims.decode import read_kind
from millstream.claims.token import VERSION, ClaimsError, Token, is_key, read_json

AUDIENCE: Final = "nats-authorization-request"


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of a request; what is empty is left out."""


class AskingServer(_Part, frozen=True, kw_only=True):
    name: str
    host: str
    id: str
    version: str = ""
    tags: tuple[str, ...] = ()
    xkey: str = ""


class ClientDetails(_Part, frozen=True, kw_only=True):
    host: str = ""
    id: int = 0
    user: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    name_tag: str = ""
    kind: str = ""
    type: str = ""
    nonce: str = ""


class GivenOptions(_Part, frozen=True, kw_only=True):
    """The part of CONNECT that a service may need."""

    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    auth_token: str = ""
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int


class ClientTls(_Part, frozen=True, kw_only=True):
    version: str = ""
    cipher: str = ""
    certs: tuple[str, ...] = ()  # in PEM
    verified_chains: tuple[tuple[str, ...], ...] = ()


class AuthorizationRequest(_Part, frozen=True, kw_only=True):
    server_id: AskingServer
    user_nkey: str
    client_info: ClientDetails
    connect_opts: GivenOptions
    client_tls: ClientTls | None = None
    type: str = msgspec.field(default_factory=lambda: "authorization_request")
    version: int = msgspec.field(default_factory=lambda: VERSION)


class _RequestClaims(msgspec.Struct, frozen=True, kw_only=True):
    aud: str = AUDIENCE
    exp: int
    jti: str = ""
    iat: int
    iss: str
    sub: str
    nats: AuthorizationRequest


class _ResponseBody(msgspec.Struct, frozen=True, kw_only=True):
    jwt: str = ""
    error: str = ""
    issuer_account: str = ""


class CalloutResponse(msgspec.Struct, frozen=True):
    """The answer of a service: the token of a user, or an error."""

    token: Token
    jwt: str
    error: str
    issuer_account: str

    @property
    def signer(self) -> str:
        """Return the key that has to be known: the account, if a signing key of it signed."""
        return self.issuer_account or self.token.issuer


def signed_request(
    request: AuthorizationRequest,
    *,
    issuer: str,
    subject: str,
    issued_at: int,
    expires: int,
    sign: Callable[[bytes], str],
) -> str:
    """Return the token of a request; `sign` makes the signature of `issuer`."""
    claims = _RequestClaims(exp=expires, iat=issued_at, iss=issuer, sub=subject, nats=request)
    digest = hashlib.sha256(msgspec.json.encode(claims)).digest()
    claims = msgspec.structs.replace(claims, jti=base64.b32encode(digest).decode().rstrip("="))
    header = b'{"typ":"JWT","alg":"ed25519-nkey"}'
    signed = b".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, msgspec.json.encode(claims))
    )
    return f"{signed.decode()}.{sign(signed)}"


def read_response(text: str) -> CalloutResponse:
    """Return a response whose signature fits; raise ClaimsError with the reason if it cannot be one."""
    token = read_kind(text, "authorization_response", KeyKind.ACCOUNT)
    body = read_json(token.body, _ResponseBody)
    response = CalloutResponse(token, body.jwt, body.error, body.issuer_account)
    for problem in _problems(response):
        raise ClaimsError(f"authorization response had validation errors: {problem}")
    return response


def _problems(response: CalloutResponse) -> Iterator[str]:
    if not is_key(response.token.subject, KeyKind.USER):
        yield "Subject must be a user public key"
    if not is_key(response.token.audience, KeyKind.SERVER):
        yield "Audience must be a server public key"
    if not response.error and not response.jwt:
        yield "Error or Jwt is required"
    if response.error and response.jwt:
        yield "Only Error or Jwt can be set"
    if response.issuer_account and not is_key(response.issuer_account, KeyKind.ACCOUNT):
        yield "issuer_account is not an account public key"
