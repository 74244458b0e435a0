"""Authentication of Arrow requests, and the permission to read a stream.

    Authorization: Basic <user:password>      the broker's own users, checked by the broker's own rules
    Authorization: Bearer <token>             its token
    Authorization: Bearer mst1.<…>            a ticket, see ``tickets``; the way for nkeys
    nothing                                   where none is required, or a certificate identifies the user

A user may read a stream here if it could read any message of it over NATS: it may publish to
`$JS.API.STREAM.MSG.GET.<stream>`, or to `$JS.API.DIRECT.GET.<stream>` if the stream has `allow_direct`, and
may receive an answer.  The broker decides this as it does for a client's message.

Runs on the event loop.  A bcrypt password is checked in the same worker thread as those of clients.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from millstream.broker.auth import Candidate, ClientCredentials, Identity, Login
from millstream.broker.handshake import auth_timeout_s
from millstream.broker.password_checks import PasswordCheck
from millstream.broker.permissions import PermissionSet
from millstream.broker.tls_peer import UnreadableCertificate, peer_names
from millstream.golang.quote import quoted
from millstream.jsapi.names import DIRECT_GET_PREFIX, STREAM_MSG_GET
from millstream.server.arrow.problem import ArrowProblem
from millstream.server.arrow.tickets import PREFIX, Tickets

if TYPE_CHECKING:
    from millstream.broker.broker import Broker
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.arrow")


class Access:
    """Authenticates and authorises requests."""

    def __init__(self, broker: Broker, tickets: Tickets) -> None:
        self._broker = broker
        self._tickets = tickets

    async def identify(self, authorization: str, certificate: bytes | None, address: str) -> Identity:
        """Return the user of an Authorization header or a client certificate; raises Problem."""
        scheme, _, value = authorization.strip().partition(" ")
        value = value.strip()
        if scheme.lower() == "bearer" and value.startswith(PREFIX):
            return self._ticket_holder(value)
        try:
            peer = peer_names(certificate) if certificate is not None else None
        except UnreadableCertificate as error:
            raise ArrowProblem(HTTPStatus.UNAUTHORIZED, str(error)) from None
        user, password, token = _credentials(scheme.lower(), value)
        given = ClientCredentials(
            user=user, password=password, token=token, jwt=token, peer=peer, host=address
        )
        candidate = self._broker.authenticator.candidate(given)
        identity = await self._verified(candidate, given) if candidate is not None else None
        if identity is None:
            _log.error("authentication error%s", f" - User {quoted(user)}" if user else "")
            what = "these credentials are not accepted" if authorization else "credentials are needed"
            raise ArrowProblem(HTTPStatus.UNAUTHORIZED, what)
        return identity

    async def _verified(self, candidate: Candidate, given: ClientCredentials) -> Identity | None:
        if not (candidate.slow or candidate.ask):
            return candidate.verify()
        outcome: asyncio.Future[Identity | None] = self._broker.loop.create_future()

        def done(identity: Identity | None) -> None:
            if not outcome.done():
                outcome.set_result(identity)

        if candidate.ask is not None:
            timeout_s = auth_timeout_s(self._broker, given.connection_type)
            candidate.ask(Login(credentials=given, timeout_s=timeout_s), done)
        else:
            check = PasswordCheck(candidate.verify, is_gone=outcome.done, done=done, gone=lambda: None)
            self._broker.password_checks.submit((given.host, candidate.identity.user), check)
        return await outcome

    def check_may_read(self, identity: Identity, name: str, stream: Stream | None) -> None:
        """Raise Problem unless this user may read the stream of this name, which need not exist."""
        permissions = identity.permissions
        requests = [STREAM_MSG_GET.replace("*", name)]
        if stream is not None and stream.config.allow_direct:
            requests.append(f"{DIRECT_GET_PREFIX}.{name}")
        account = self._broker.accounts.get(identity.account)
        if account is None or not any(
            self._broker.may_request(account, permissions, request.encode()) for request in requests
        ):
            needed = " or ".join(requests)
            text = f"this user may not read stream {name}: it has no permission to publish to {needed}"
            raise ArrowProblem(HTTPStatus.FORBIDDEN, text)
        if permissions is not None and not PermissionSet(permissions).may_receive():
            text = f"this user may not read stream {name}: it may not subscribe to anything"
            raise ArrowProblem(HTTPStatus.FORBIDDEN, text)

    def still_may_read(self, identity: Identity, name: str, stream: Stream | None) -> bool:
        """Return whether a user that was identified earlier may still read."""
        known = self._broker.authenticator.still_known(identity)
        try:
            if known is not None:
                self.check_may_read(known, name, stream)
        except ArrowProblem:
            return False
        return known is not None

    def _ticket_holder(self, ticket: str) -> Identity:
        authenticator = self._broker.authenticator
        claimed = self._tickets.check(ticket, time.time_ns(), authenticator.secret_of)
        identity = authenticator.still_known(claimed) if claimed is not None else None
        if identity is None or claimed is None or not _came_by_an_open_door(claimed, identity):
            raise ArrowProblem(HTTPStatus.UNAUTHORIZED, "the ticket is not valid, or not valid any more")
        return identity


def _came_by_an_open_door(claimed: Identity, known: Identity) -> bool:
    """Return whether the user may still use the kind of connection over which it got its ticket."""
    return not known.connection_types or (claimed.connection_types or frozenset()) <= known.connection_types


def _credentials(scheme: str, value: str) -> tuple[str, str, str]:
    """Return user, password and token."""
    if not scheme:
        return "", "", ""
    if scheme == "bearer" and value:
        return "", "", value
    if scheme != "basic":
        raise ArrowProblem(HTTPStatus.UNAUTHORIZED, "Authorization: neither Basic nor Bearer")
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise ArrowProblem(HTTPStatus.UNAUTHORIZED, "Authorization: not the Basic scheme's base64") from None
    if not colon:
        raise ArrowProblem(HTTPStatus.UNAUTHORIZED, "Authorization: no colon behind the user")
    return user, password, ""
