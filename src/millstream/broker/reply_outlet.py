"""Deliver messages to a requester in another account, through an imported service.

The request came with a reply subject of ours (``_R_.…``), which `imports.Responses` knows.  Responses that
are published there are forwarded; a message with its own subject is not, so this module looks up the
requester's inbox and its subscribers.  A message under the name of the destination is a response, and is
delivered under the name of the inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.broker.outlet import SubjectOutlet
from millstream.broker.router import REPLY_PREFIX, SubjectSpace
from millstream.broker.routes import SubjectRoute, Subscriber, Target
from millstream.protocol.outlet import Outlet

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.imports import Imports, PendingReply
    from millstream.protocol.parser import Frame


class ReplyOutlet(Outlet):
    """An ``Outlet`` to a requester in another account."""

    def __init__(
        self, imports: Imports, exporter: Account, destination: bytes, only: Subscriber | None = None
    ) -> None:
        self._imports = imports
        self._only = only
        self._responses = imports.responses(exporter)
        self.destination = destination
        self._inbox: Outlet | None = None

    def send(self, subject: bytes, frame: Frame) -> int:
        if subject == self.destination:
            if self._only is None:
                return 1 if self._responses.pass_on(subject, frame, None) else 0
            return self._send_to(None, frame)
        return self._send_to(subject, frame)

    def _send_to(self, subject: bytes | None, frame: Frame) -> int:
        """Send to the requester; under the name of the inbox if `subject` is None."""
        pending = self._responses.find(self.destination)
        if pending is None:
            return 0
        if not pending.many:
            self._responses.forget(self.destination)
        return self._inbox_of(pending).send(pending.reply if subject is None else subject, frame)

    def has_interest(self) -> bool:
        pending = self._responses.find(self.destination)
        return pending is not None and self._inbox_of(pending).has_interest()

    def behind(self) -> bool:
        pending = self._responses.find(self.destination)
        return pending is not None and self._inbox_of(pending).behind()

    def _inbox_of(self, pending: PendingReply) -> Outlet:
        if self._inbox is None:
            self._inbox = outlet_to(self._imports, pending.importer, pending.reply, only=self._only)
        return self._inbox


class OwnOutlet(Outlet):
    """A destination of which only the subscriptions of one client count."""

    def __init__(self, space: SubjectSpace, destination: bytes, owner: Subscriber) -> None:
        self._space = space
        self._destination = destination
        self._owner = owner
        self._found: SubjectRoute | None = None
        self._own: list[Target] = []

    def send(self, subject: bytes, frame: Frame) -> int:
        return sum(
            self._owner.deliver(Target(target.subscription, subject), frame, None)
            for target in self._targets()
        )

    def has_interest(self) -> bool:
        return bool(self._targets())

    def behind(self) -> bool:
        return bool(self._targets()) and self._owner.behind()

    def _targets(self) -> list[Target]:
        if self._found is None or not self._found.valid:
            self._found = self._space.route(self._destination)
            self._own = self._space.targets_of(self._found, self._owner)
        return self._own


def outlet_to(
    imports: Imports,
    account: Account,
    destination: bytes,
    queue: bytes | None = None,
    only: Subscriber | None = None,
) -> SubjectOutlet | ReplyOutlet | OwnOutlet:
    """Return an outlet to a destination in `account`, or where a reply subject of ours leads.

    With `only`, nobody but that client receives what is sent.
    """
    if destination.startswith(REPLY_PREFIX):
        return ReplyOutlet(imports, account, destination, only)
    if only is not None:
        return OwnOutlet(account.space, destination, only)
    return SubjectOutlet(account.space, destination, queue)


def answer_outlet(imports: Imports, account: Account, reply: bytes, client: Any) -> Outlet:
    """Return an outlet for the response to a request of `client`, perhaps in another account.

    A client that may not publish to `reply` itself must not make the server do it, so only that client
    receives the response.  Clients with their own inboxes notice no difference.
    """
    permissions = getattr(client, "permissions", None)
    if permissions is None or permissions.lists(_named_by_client(imports, account, reply)):
        return outlet_to(imports, account, reply)
    return outlet_to(imports, account, reply, only=client)


def _named_by_client(imports: Imports, account: Account, reply: bytes) -> bytes:
    """Return the reply subject that the client sent, before it passed any imports."""
    while reply.startswith(REPLY_PREFIX):
        pending = imports.responses(account).find(reply)
        if pending is None:
            break
        account, reply = pending.importer, pending.reply
    return reply
