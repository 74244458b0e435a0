"""Check a token of an OpenID Connect issuer, and turn its claims into an identity."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from millstream.broker.auth import Identity, TokenTerms
from millstream.broker.oidc.keys import ALGORITHMS, Keys, OidcError, SigningKey
from millstream.broker.options import OidcOptions, Permissions, SubjectRules

_MOST_BYTES: Final = 65_536
_LONGEST_NAME: Final = 256
_MOST_ROLES: Final = 1000
_START: Final = "eyJ"
_PARTS: Final = 3


class TokenHeader(msgspec.Struct, frozen=True):
    """The header of a token, of which nothing is believed until the signature fits."""

    alg: str = ""
    kid: str = ""
    crit: msgspec.Raw = msgspec.Raw(b"")


def is_token(text: str) -> bool:
    """Return True if a credential has the form of a signed token of this kind."""
    return text.startswith(_START) and text.count(".") == _PARTS - 1


def read_header(text: str) -> TokenHeader:
    """Return the header; raise OidcError if no token with it could be accepted."""
    if len(text) > _MOST_BYTES:
        raise OidcError("the token is too large")
    part = text.partition(".")[0]
    try:
        data = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        header = msgspec.json.decode(data, type=TokenHeader)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        raise OidcError("the header of the token cannot be read") from None
    if header.alg not in ALGORITHMS:
        raise OidcError(f"the algorithm {header.alg[:20]!r} of the token is not accepted")
    if bytes(header.crit):
        raise OidcError("the token has critical headers that nobody understands")
    return header


def fitting_keys(header: TokenHeader, keys: Keys) -> list[SigningKey]:
    """Return the keys that may have signed a token; a token without a key id needs the only one."""
    if header.kid:
        named = keys.get(header.kid, [])
        return [each for each in named if header.alg in each.algorithms]
    fitting = [each for named in keys.values() for each in named if header.alg in each.algorithms]
    return fitting if len(fitting) == 1 else []


def verified_claims(
    text: str, header: TokenHeader, keys: Iterable[SigningKey], options: OidcOptions
) -> dict[str, Any]:
    """Return the claims of a token that one of the keys signed; raise OidcError with the reason."""
    import jwt

    reason = "no key of the issuer fits the token"
    for each in keys:
        try:
            return dict(
                jwt.decode(
                    text,
                    each.key,
                    algorithms=[header.alg],
                    audience=list(options.audience),
                    issuer=options.issuer,
                    leeway=options.clock_skew_s,
                    options={"require": ["exp", "iss", "aud"], "verify_sub": False},
                )
            )
        except jwt.InvalidSignatureError:
            reason = "the signature of the token does not fit"
        except jwt.PyJWTError as error:
            raise OidcError(f"the token is not accepted: {error}") from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise OidcError("the token cannot be read") from None
    raise OidcError(reason)


def identity_of(claims: Mapping[str, Any], options: OidcOptions) -> Identity:
    """Return the identity that verified claims stand for; raise OidcError if they stand for none."""
    user = _claim(claims, options.user_claim)
    if not isinstance(user, str) or not 0 < len(user) <= _LONGEST_NAME or not user.isprintable():
        raise OidcError(f'the claim "{options.user_claim}" names no user')
    account = options.account
    if options.account_claim:
        account = _claim(claims, options.account_claim)
        if account not in options.accounts:
            raise OidcError(f'the claim "{options.account_claim}" names no account for tokens')
    roles = _roles(_claim(claims, options.roles_claim)) if options.roles else ()
    ends, issued = claims["exp"], claims.get("iat", 0)
    return Identity(
        user=user,
        label=f"oidc:{user}",
        account=account,
        permissions=permissions_of(roles, options),
        grant=TokenTerms(
            signer=options.issuer,
            issued_at=int(issued),
            ends=float(ends) + options.clock_skew_s,
            bearer=True,
            name=user,
            tags=tuple(role for role in roles if role in options.roles),
        ),
    )


def permissions_of(roles: Iterable[str], options: OidcOptions) -> Permissions | None:
    """Return what roles may do together: all that one of them allows and none denies."""
    if not options.roles:
        return options.default_permissions
    found = [options.roles[role] for role in roles if role in options.roles]
    if not found:
        if options.default_permissions is None:
            raise OidcError(f'the claim "{options.roles_claim}" names none of the roles')
        return options.default_permissions
    return Permissions(
        publish=_together(each.publish for each in found),
        subscribe=_together(each.subscribe for each in found),
        allow_responses=next((each.allow_responses for each in found if each.allow_responses), None),
    )


def _together(rules: Iterable[SubjectRules]) -> SubjectRules:
    every = list(rules)
    allow: tuple[str, ...] | None = ()
    for each in every:
        allow = None if allow is None or each.allow is None else (*allow, *each.allow)
    return SubjectRules(allow=allow, deny=tuple(entry for each in every for entry in each.deny))


def _roles(value: Any) -> tuple[str, ...]:
    """Return the roles of a claim: a list, or a text with blanks between them like `scope`."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list):
        return ()
    return tuple(each for each in value[:_MOST_ROLES] if isinstance(each, str))


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim of this name, or the member that a name with dots leads to; None if there is none."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
