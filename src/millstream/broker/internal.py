"""Subscribers inside the process: the hook for system requests, JetStream and embedding programs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.base import guard
from millstream.broker.router import Subscriber, Target

if TYPE_CHECKING:
    from millstream.protocol.parser import Frame


class Message:
    """A message as an in-process subscriber gets it: copied, so it may be kept."""

    __slots__ = ("headers", "payload", "reply", "source", "subject")

    def __init__(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, source: Subscriber | None
    ) -> None:
        self.subject = subject
        self.reply = reply
        self.headers = headers  # the whole block; empty if there is none
        self.payload = payload
        self.source = source  # the connection that sent it; None if we did


class CallbackSubscriber(Subscriber):
    """Calls a function for every message."""

    def __init__(self, callback: Callable[[Message], None]) -> None:
        self._callback = callback

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        try:
            self._callback(Message(target.subject, frame.reply(), frame.headers(), frame.payload(), source))
        except Exception as error:
            self.failed(target, frame, error)
        return True


class CaptureSubscriber(Subscriber):
    """Lends every message to a function, without copying it."""

    def __init__(
        self,
        take: "Callable[[bytes, Frame], None]",
        traced: "Callable[[bytes, Frame, bool], dict[str, Any]] | None" = None,
        refuse: "Callable[[bytes], None] | None" = None,
    ) -> None:
        self._take = take
        self._refuse = refuse  # answers, to this reply subject, that a message could not be taken
        self.traced = traced  # takes a message, or only looks at it, and tells what a trace is told

    def deliver(self, target: Target, frame: "Frame", source: Subscriber | None) -> bool:
        try:
            self._take(target.subject, frame)
        except Exception as error:
            self.failed(target, frame, error)
        return True

    def failed(self, target: Target, frame: "Frame", error: Exception) -> None:
        guard.report("taking a message in", error)
        if self._refuse is not None and frame.reply_size > 0:
            guard.alone("refusing a message", self._refuse, frame.reply())
