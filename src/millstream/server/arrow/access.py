"""Who asks over HTTP, and whether that user may read a stream.

    Authorization: Basic <user:password>      the broker's own users, checked by the broker's own rules
    Authorization: Bearer <token>             its token
    Authorization: Bearer mrt1.<…>            a ticket, see ``tickets``; the way for nkeys
    nothing                                   where none are needed, or a certificate stands for a user

Who may publish to `$JS.API.DIRECT.GET.<stream>` may read the stream: that request gives any message to who
may send it.  Under a domain, its own spelling of that subject is as good.

Called in the thread of a request: bcrypt takes its time there.  An authenticator does not change, it is
replaced.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from millstream.broker.auth import Credentials, Identity
from millstream.broker.permissions import PermissionSet
from millstream.broker.tls_peer import UnreadableCertificate, peer_names
from millstream.jsapi.names import DIRECT_GET_PREFIX
from millstream.server.arrow.problem import Problem
from millstream.server.arrow.tickets import PREFIX, Tickets

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

_log = logging.getLogger("millstream.arrow")


class Access:
    """The door."""

    def __init__(self, broker: Broker, tickets: Tickets) -> None:
        self._broker = broker
        self._tickets = tickets

    def identify(self, authorization: str, certificate: bytes | None) -> Identity:
        """Who shows this header, and this certificate if TLS asked for one; raises Problem."""
        scheme, _, value = authorization.strip().partition(" ")
        value = value.strip()
        if scheme.lower() == "bearer" and value.startswith(PREFIX):
            return self._ticket_holder(value)
        try:
            peer = peer_names(certificate) if certificate is not None else None
        except UnreadableCertificate as error:
            raise Problem(HTTPStatus.UNAUTHORIZED, str(error)) from None
        user, password, token = _credentials(scheme.lower(), value)
        given = Credentials(user=user, password=password, token=token, peer=peer)
        candidate = self._broker.authenticator.candidate(given)
        identity = candidate.verify() if candidate is not None else None
        if identity is None:
            _log.warning("authentication error%s", f" - User {user!r}" if user else "")
            what = "these credentials are not accepted" if authorization else "credentials are needed"
            raise Problem(HTTPStatus.UNAUTHORIZED, what)
        return identity

    def check_may_read(self, identity: Identity, stream: str) -> None:
        """Raise Problem unless this user may read the stream."""
        if identity.permissions is None:
            return
        permissions = PermissionSet(identity.permissions)
        subjects = [f"{DIRECT_GET_PREFIX}.{stream}"]
        if domain := self._broker.jetstream_domain:
            subjects.append(f"$JS.{domain}.API.DIRECT.GET.{stream}")
        now = time.monotonic()
        if not any(permissions.may_publish(subject.encode(), now) for subject in subjects):
            text = f"this user may not read stream {stream}: it has no permission to publish to {subjects[0]}"
            raise Problem(HTTPStatus.FORBIDDEN, text)

    def _ticket_holder(self, ticket: str) -> Identity:
        claimed = self._tickets.check(ticket, time.time_ns())
        identity = self._broker.authenticator.still_known(claimed) if claimed is not None else None
        if identity is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, "the ticket is not valid, or not valid any more")
        return identity


def _credentials(scheme: str, value: str) -> tuple[str, str, str]:
    """User, password and token."""
    if not scheme:
        return "", "", ""
    if scheme == "bearer" and value:
        return "", "", value
    if scheme != "basic":
        raise Problem(HTTPStatus.UNAUTHORIZED, "Authorization: neither Basic nor Bearer")
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise Problem(HTTPStatus.UNAUTHORIZED, "Authorization: not the Basic scheme's base64") from None
    if not colon:
        raise Problem(HTTPStatus.UNAUTHORIZED, "Authorization: no colon behind the user")
    return user, password, ""
