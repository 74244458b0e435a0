"""Messages for somebody in another account, who asked through an imported service.

The request came with a reply subject of ours (``_R_.…``), which `imports.Responses` knows.  Answers that
are published there find their way by themselves; a message that is to be seen under a subject of its own
does not, so here the requester's own inbox is looked up, and whether anybody listens on it.  A message under
the name of the destination is an answer, and seen under the name of the inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.broker.outlet import SubjectOutlet
from millstream.broker.router import REPLY_PREFIX, Route, SubjectSpace, Subscriber, Target
from millstream.protocol.outlet import Outlet

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.imports import Imports, PendingReply
    from millstream.protocol.parser import Frame


class ReplyOutlet(Outlet):
    """See ``Outlet``."""

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
        """Under the name of the inbox if `subject` is None."""
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
        self._found: Route | None = None
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
            members = [target for group in self._found.queues for target in group]
            self._own = [each for each in (*self._found.plain, *members) if each.owner is self._owner]
        return self._own


def outlet_to(
    imports: Imports,
    account: Account,
    destination: bytes,
    queue: bytes | None = None,
    only: Subscriber | None = None,
) -> SubjectOutlet | ReplyOutlet | OwnOutlet:
    """For a destination in `account`, or in the account that a reply subject of ours leads to.

    With `only`, nobody but that client gets what is sent.
    """
    if destination.startswith(REPLY_PREFIX):
        return ReplyOutlet(imports, account, destination, only)
    if only is not None:
        return OwnOutlet(account.space, destination, only)
    return SubjectOutlet(account.space, destination, queue)


def answer_outlet(imports: Imports, account: Account, reply: bytes, client: Any) -> Outlet:
    """For the answer to a request of `client`, which named `reply`, perhaps in another account.

    A client that may not publish there itself must not make the server do it: nobody but that client gets the
    answer.  Clients with ordinary inboxes notice nothing.
    """
    permissions = getattr(client, "permissions", None)
    if permissions is None or permissions.lists(_named_by_client(imports, account, reply)):
        return outlet_to(imports, account, reply)
    return outlet_to(imports, account, reply, only=client)


def _named_by_client(imports: Imports, account: Account, reply: bytes) -> bytes:
    """The reply subject as the client wrote it, through however many imports its request came."""
    while reply.startswith(REPLY_PREFIX):
        pending = imports.responses(account).find(reply)
        if pending is None:
            break
        account, reply = pending.importer, pending.reply
    return reply
