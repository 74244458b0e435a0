"""Messages for somebody in another account, who asked through an imported service.

The request came with a reply subject of ours (``_R_.…``), which `imports.Responses` knows.  Answers that
are published there find their way by themselves; a message that is to be seen under a subject of its own
does not, so here the requester's own inbox is looked up, and whether anybody listens on it.  A message under
the name of the destination is an answer, and seen under the name of the inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.broker.imports import REPLY_PREFIX
from millstream.broker.outlet import SubjectOutlet
from millstream.protocol.outlet import Outlet

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.imports import Imports, PendingReply
    from millstream.protocol.parser import Frame


class ReplyOutlet(Outlet):
    """See ``Outlet``."""

    def __init__(self, imports: Imports, exporter: Account, destination: bytes) -> None:
        self._imports = imports
        self._responses = imports.responses(exporter)
        self.destination = destination
        self._inbox: Outlet | None = None

    def send(self, subject: bytes, frame: Frame) -> int:
        if subject == self.destination:
            return 1 if self._responses.pass_on(subject, frame, None) else 0
        pending = self._responses.find(self.destination)
        if pending is None:
            return 0
        if not pending.many:
            self._responses.forget(self.destination)
        return self._inbox_of(pending).send(subject, frame)

    def has_interest(self) -> bool:
        pending = self._responses.find(self.destination)
        return pending is not None and self._inbox_of(pending).has_interest()

    def behind(self) -> bool:
        pending = self._responses.find(self.destination)
        return pending is not None and self._inbox_of(pending).behind()

    def _inbox_of(self, pending: PendingReply) -> Outlet:
        if self._inbox is None:
            self._inbox = outlet_to(self._imports, pending.importer, pending.reply)
        return self._inbox


def outlet_to(
    imports: Imports, account: Account, destination: bytes, queue: bytes | None = None
) -> SubjectOutlet | ReplyOutlet:
    """For a destination in `account`, or in the account that a reply subject of ours leads to."""
    if destination.startswith(REPLY_PREFIX):
        return ReplyOutlet(imports, account, destination)
    return SubjectOutlet(account.space, destination, queue)
