"""Subscribers inside the process: for system requests, JetStream and embedding programs."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.base import guard
from millstream.base.complaints import Complaints
from millstream.broker.router import REPLY_PREFIX
from millstream.broker.routes import Subscriber, Target
from millstream.protocol.inlet import Responder
from millstream.protocol.outlet import Outlet

if TYPE_CHECKING:
    from millstream.protocol.parser import Frame

_complaints = Complaints(logging.getLogger("millstream.broker"))
_SHOWN = 100  # bytes of a subject in the log


class InternalMessage:
    """A copy of a message for an in-process subscriber, which may keep it."""

    __slots__ = ("headers", "payload", "reply", "source", "subject")

    def __init__(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, source: Subscriber | None
    ) -> None:
        self.subject = subject
        self.reply = reply
        self.headers = headers  # the whole block; empty if there is none
        self.payload = payload
        self.source = source  # the connection that sent it; None if we did, for whomever


class Ourselves(Subscriber):
    """The source of requests that the server itself makes, to subjects that nobody else chose."""


OURSELVES = Ourselves()


class CallbackSubscriber(Subscriber):
    """Calls a function for every message."""

    def __init__(self, callback: Callable[[InternalMessage], None]) -> None:
        self._callback = callback

    def let_go(self) -> None:
        """Forget the function, which may refer to this subscriber, after the subscription has ended."""
        self._callback = _ignore

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        try:
            self._callback(
                InternalMessage(target.subject, frame.reply(), frame.headers(), frame.payload(), source)
            )
        except Exception as error:
            self.failed(target, frame, error)
        return True


class ServiceSubscriber(CallbackSubscriber):
    """Calls a function for every request of a client, or of ``OURSELVES``.

    Messages that the server sends on behalf of others do not reach it: the subject of a response, a
    republished message, a delivery or a trace is chosen by a client, a configuration or another server, none
    of which may make requests that way that it could not make itself.

    A `responder` is called first, with an `outlet` for its response.  It gets requests of clients that may
    publish everywhere, for which the server may respond to any subject.
    """

    def __init__(
        self,
        callback: Callable[[InternalMessage], None],
        responder: Responder | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        CallbackSubscriber.__init__(self, callback)
        self._responder = responder
        self._outlet = outlet

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        if source is None:
            refuse_deputy(target.subject)
            return False
        try:
            if self._responds(target, frame, source):
                return True
        except Exception as error:
            self.failed(target, frame, error)
            return True
        return CallbackSubscriber.deliver(self, target, frame, source)

    def _responds(self, target: Target, frame: "Frame", source: Subscriber) -> bool:
        responder, outlet = self._responder, self._outlet
        return (
            responder is not None
            and outlet is not None
            and frame.reply_size > 0
            and frame.header_size < 0
            and source is not OURSELVES
            and getattr(source, "permissions", None) is None
            and not target.subscription.closed
            and not frame.buf.startswith(REPLY_PREFIX, frame.reply_start)
            and responder.respond(target.subject, frame, outlet)
        )


def refuse_deputy(subject: bytes) -> None:
    """Log, rate-limited, that a message of the server itself did not reach a service."""
    _complaints.tell(
        "deputy",
        "a message to %r is dropped: what the server sends for others reaches no service of its own",
        subject[:_SHOWN],
        level=logging.WARNING,
    )


def _ignore(_: InternalMessage) -> None:
    """Drop a message that was on its way when its subscription ended."""


class CaptureSubscriber(Subscriber):
    """Lends every message to a function, without a copy."""

    def __init__(
        self,
        take: "Callable[[bytes, Frame], None]",
        traced: "Callable[[bytes, Frame, bool], dict[str, Any]] | None" = None,
        refuse: "Callable[[bytes], None] | None" = None,
        *,
        from_clients: bool = False,
    ) -> None:
        self._take = take
        self._from_clients = from_clients  # and nobody else, as a ``ServiceSubscriber``
        self._refuse = refuse  # answers, to this reply subject, that a message could not be taken
        self.traced = traced  # takes a message, or only looks at it, and tells what a trace is told

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        if source is None and self._from_clients:
            refuse_deputy(target.subject)
            return False
        try:
            self._take(target.subject, frame)
        except Exception as error:
            self.failed(target, frame, error)
        return True

    def failed(self, target: Target, frame: "Frame", error: Exception) -> None:
        guard.report("taking a message in", error)
        if self._refuse is not None and frame.reply_size > 0:
            guard.alone("refusing a message", self._refuse, frame.reply())
