"""The callout of an account in operator mode, which its token declares (`authorization`).

Users whose keys the token lists log in as usual.  Those of all others, whose own tokens only lead them to the
account, are decided about by the service: it answers with the token of a user of this account, or of another
one that the account names.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.broker.auth import Identity, Login
from millstream.broker.callout import admitted
from millstream.broker.operator.account import ClaimedAccount
from millstream.broker.operator.scopes import limits_of
from millstream.broker.user_claims import identity_of
from millstream.claims.token import ClaimsError
from millstream.claims.types import ANY, ExternalAuthorization, UserClaims


class AccountCallout:
    """The service of an account: who may answer for it, and where it may place users."""

    def __init__(
        self,
        account: ClaimedAccount,
        external: ExternalAuthorization,
        accounts: Mapping[str, ClaimedAccount],
        pinned: frozenset[str] | None,
    ) -> None:
        self.account = self.subject = account.name
        self.xkey = external.xkey
        self._allowed = external.allowed_accounts
        self._signers = account.signers
        self._accounts = accounts
        self._pinned = pinned

    def knows(self, signer: str) -> bool:
        return signer == self.account or signer in self._signers

    def target(self, user: UserClaims) -> str:
        if user.account != self.account and not {ANY, user.account} & {*self._allowed}:
            raise ClaimsError(
                f'account "{user.token.issuer}" not permitted as valid account option for auth callout for '
                f'account "{self.account}"'
            )
        if self._pinned is not None and user.account not in self._pinned:
            raise ClaimsError(f"Account {user.account} not listed as operator pinned account")
        return user.account

    def identity(self, user: UserClaims, login: Login, target: str) -> Identity:
        account = self._accounts.get(target)
        if account is None or account.expired():
            raise ClaimsError(
                f'no valid account "{target}" for auth callout response on account "{self.account}"'
            )
        limits = limits_of(user, account)
        identity = identity_of(user, limits, target, account.permissions, None, login.credentials.host)
        return admitted(user, limits, login, identity)
