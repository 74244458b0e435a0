"""Find what a user of an account may do: its own limits, or those of the scoped key that signed its token."""

from __future__ import annotations

from typing import Final

from millstream.broker.operator.account import ClaimedAccount
from millstream.claims.templates import filled
from millstream.claims.token import ClaimsError
from millstream.claims.types import UserClaims, UserLimits
from millstream.claims.validation import reach_problems

_NOTHING: Final = UserLimits()
_SCOPED_FIELDS: Final = UserLimits.__struct_fields__


def limits_of(user: UserClaims, account: ClaimedAccount) -> UserLimits:
    """Return what the user may do: what its token says, or the template of the key that signed it."""
    issuer = user.token.issuer
    if issuer not in account.signers:
        raise ClaimsError("User JWT issuer is not known")
    scope = account.signers[issuer]
    if scope is None or account.claims is None:
        return user.body
    if any(getattr(user.body, name) != getattr(_NOTHING, name) for name in _SCOPED_FIELDS):
        raise ClaimsError("User JWT is not valid: scoped users require no permissions or limits set")
    for problem in reach_problems(scope.template):  # nobody has checked these
        raise ClaimsError(f"User JWT is not valid: template of its signing key: {problem}")
    try:
        return filled(scope.template, user, account.claims)
    except ClaimsError as error:
        raise ClaimsError(f"User JWT generated invalid permissions: {error}") from None
