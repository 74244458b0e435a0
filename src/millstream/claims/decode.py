"""Read the tokens of operators, accounts, users and activations, of version 1 or 2.

A token that is read has a signature that fits and the right kind; ``validation`` checks what it says, and
whether its time has come or passed.
"""

import re
from typing import Final

import msgspec

from millstream.base.nkeys import KeyKind
from millstream.claims.token import ClaimsError, Token, read_json, read_token
from millstream.claims.types import (
    UNLIMITED,
    AccountBody,
    AccountClaims,
    ActivationBody,
    ActivationClaims,
    OperatorBody,
    OperatorClaims,
    Scope,
    UserBody,
    UserClaims,
)

# A file of credentials: each part between two lines of dashes.
_DECORATED: Final = re.compile(r"\s*-{3,}[^\n]*-{3,}\n(.+?)\r?\n\s*-{3,}[^\n]*-{3,}", re.DOTALL)
_SCOPED: Final = "user_scope"


class _FirstUserBody(UserBody, frozen=True, kw_only=True):
    """A user of version 1, whose limits are unlimited unless it says otherwise."""

    subs: int = UNLIMITED
    data: int = UNLIMITED
    payload: int = UNLIMITED


class _FirstActivationBody(msgspec.Struct, frozen=True):
    subject: str = ""
    type: str = ""


def read_operator(text: str) -> OperatorClaims:
    token = read_kind(text, "operator", KeyKind.OPERATOR)
    return OperatorClaims(token, read_json(token.body, OperatorBody))


def read_account(text: str) -> AccountClaims:
    token = read_kind(text, "account", KeyKind.ACCOUNT, KeyKind.OPERATOR)
    body = read_json(token.body, AccountBody)
    for key in body.signing_keys:
        if isinstance(key, Scope) and key.kind != _SCOPED:
            raise ClaimsError(f'unknown signing key scope "{key.kind}"')
    return AccountClaims(token, body)


def read_user(text: str) -> UserClaims:
    token = read_kind(text, "user", KeyKind.ACCOUNT)
    if token.version == 1:
        body: UserBody = read_json(token.body, _FirstUserBody)
        return UserClaims(token, body, token.issuer_account)
    body = read_json(token.body, UserBody)
    return UserClaims(token, body, body.issuer_account)


def read_activation(text: str) -> ActivationClaims:
    token = read_kind(text, "activation", KeyKind.ACCOUNT, KeyKind.OPERATOR)
    if token.version == 1:
        first = read_json(token.body, _FirstActivationBody)
        body = ActivationBody(subject=first.subject, kind=first.type, issuer_account=token.issuer_account)
    else:
        body = read_json(token.body, ActivationBody)
    return ActivationClaims(token, body, body.issuer_account)


def undecorated(text: str) -> str:
    """Return the token in a file that `nsc` wrote, with or without its lines of dashes."""
    found = _DECORATED.search(text)
    return (found[1] if found is not None else text).strip()


def read_kind(text: str, kind: str, *issuers: KeyKind) -> Token:
    """Return a token of this kind; raise ClaimsError if it is another one."""
    token = read_token(text, issuers)
    if token.kind != kind:
        raise ClaimsError(f"not {kind} claim")
    if token.version not in (1, 2):
        raise ClaimsError(f"library supports version 2 or less - received {token.version}")
    return token
