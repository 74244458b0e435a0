"""Let clients in that bring a token of an OpenID Connect issuer; others log in as the configuration says.

    token ──▶ header ──▶ key of the issuer ──▶ signature, issuer, audience, times ──▶ user, account, roles
                              │ not known
                              └──▶ fetch the keys again, in a thread, at most every ten seconds

A login that needs a key waits for it as long as any login may take; all others go on (``KeyRing``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from millstream.base.complaints import Complaints
from millstream.broker.auth import (
    Candidate,
    ClientAuthenticator,
    ClientCredentials,
    Decided,
    Identity,
    Login,
)
from millstream.broker.oidc.key_ring import KeyRing
from millstream.broker.oidc.keys import OidcError
from millstream.broker.oidc.tokens import (
    fitting_keys,
    identity_of,
    is_token,
    permissions_of,
    read_header,
    verified_claims,
)
from millstream.broker.options import BrokerOptions

if TYPE_CHECKING:
    from millstream.broker.turns import Turns

_log = logging.getLogger("millstream.broker")


class OidcAuthenticator(ClientAuthenticator):
    """The users of a configuration, and those of an issuer."""

    def __init__(self, options: BrokerOptions, ring: KeyRing, turns: Turns) -> None:
        super().__init__(options)
        self._ring = ring
        self._oidc = ring.options
        self._turns = turns
        self._complaints = Complaints(_log)

    def candidate(self, credentials: ClientCredentials) -> Candidate | None:
        """Return whom to check the client against; a token of the issuer is checked by its keys."""
        text = credentials.jwt or credentials.token
        if not is_token(text):
            return super().candidate(credentials)
        return Candidate(Identity(account=self._oidc.account), ask=partial(self._decide, text))

    def still_known(self, identity: Identity) -> Identity | None:
        """Return the identity of a client whose token is still good, with what its roles permit now."""
        grant = identity.grant
        if grant is None:
            return super().still_known(identity)
        accounts = {self._oidc.account} if not self._oidc.account_claim else {*self._oidc.accounts}
        if (
            grant.signer != self._oidc.issuer
            or identity.account not in accounts
            or (grant.ends is not None and grant.ends <= time.time())
        ):
            return None
        try:
            return replace(identity, permissions=permissions_of(grant.tags, self._oidc))
        except OidcError:
            return None

    def _decide(self, text: str, login: Login, done: Decided) -> None:
        turns = self._turns
        ends: list[Callable[[], object]] = []

        def end(identity: Identity | None) -> None:
            if ends:
                for each in ends:
                    each()
                ends.clear()
                turns.soon(done, identity)

        ends.append(turns.later(login.timeout_s, end, None).cancel)
        try:
            header = read_header(text)
        except OidcError as error:
            self._complain(login, error)
            end(None)
            return
        if fitting_keys(header, self._ring.keys()):
            end(self._checked(text, login))
        else:
            self._ring.renew(lambda: end(self._checked(text, login)))

    def _checked(self, text: str, login: Login) -> Identity | None:
        try:
            header = read_header(text)
            keys = fitting_keys(header, self._ring.keys())
            return identity_of(verified_claims(text, header, keys, self._oidc), self._oidc)
        except OidcError as error:
            self._complain(login, error)
            return None

    def _complain(self, login: Login, error: OidcError) -> None:
        """Log why a token is refused: strangers may bring any number of bad ones."""
        self._complaints.tell(str(error), "%s - %s", login.credentials.host, error, level=logging.WARNING)
