"""Receivers of messages, their subscriptions, and the routes that lead to them.

A ``Subscriber`` is anything that receives messages: a client connection, a service import, JetStream.
Receivers are called while the frame of the message is valid and must copy what they keep.

A ``SubjectRoute`` has a ``Target`` for every receiver of a subject, with the formatted start of its MSG line.
A target checks the subject before it writes the start of a line.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.base import guard
from millstream.protocol.inlet import Inlet
from millstream.protocol.parser import Frame
from millstream.subjects.match import is_one_word

if TYPE_CHECKING:
    from millstream.broker.router import SubjectSpace


class Subscriber:
    """Receives messages.  Subclasses override ``deliver``."""

    def deliver(self, target: "Target", frame: Frame, source: "Subscriber | None") -> bool:
        """Receive a message; return False if this receiver must not have it, so that a queue tries the next.

        It must not raise, because that would affect the sender and other receivers: implementations catch
        exceptions of code that may fail and call ``failed``.
        """
        raise NotImplementedError(type(self).__name__)

    def takes_parts(self) -> bool:
        """Return True if ``deliver_parts`` may be called instead of ``deliver``."""
        return False

    def deliver_parts(
        self, target: "Target", reply: bytes, block: bytes, parts: list[Any], size: int
    ) -> bool:
        """Receive a message whose body has `size` bytes in several parts, which never change."""
        raise NotImplementedError(type(self).__name__)

    def answer(
        self,
        subscription: "Subscription",
        replies: bytes,
        at: int,
        size: int,
        start: bytes,
        number: int,
        end_size: int,
    ) -> None:
        """Receive ``start + number + end``; reply subject and end follow each other in `replies`."""
        frame = Frame()
        frame.buf = b"%b%d%b\r\n" % (start, number, replies[at + size : at + size + end_size])
        frame.body_size = len(frame.buf) - 2
        self.deliver(Target(subscription, replies[at : at + size]), frame, None)

    def failed(self, target: "Target", frame: Frame, error: Exception) -> None:
        """Report that receiving a message failed; subclasses also handle the consequences."""
        guard.report(f"delivering to a {type(self).__name__}", error)

    def behind(self) -> bool:
        """Return True if it has messages that its peer has not taken."""
        return False

    def is_link(self) -> bool:
        """Return True for a link to another server, which gets a message once for all who want it there."""
        return False

    def gone(self) -> bool:
        """Return True if it receives nothing any more, though some subscriptions may still be in the tree."""
        return False

    def hold(self) -> None:
        """Send nothing until ``let_go`` was called as often as this; what sends for nobody does not stop."""

    def let_go(self) -> None:
        """End one ``hold``."""


class Subscription:
    """One pattern of one subscriber."""

    def __init__(self, owner: Subscriber, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self.owner = owner
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.delivered = 0
        self.max = 0  # remove after so many deliveries; 0: never
        self.closed = False
        # Stream import: from the exporter's subject to the importer's; None: not for this one.
        self.rewrite: Callable[[bytes], bytes | None] | None = None
        self.spared: tuple[bytes, ...] = ()  # subjects that others listen on, and all below: not for this one
        self.origin: Subscription | None = None  # stream import: the subscription this one serves
        self.shadows: list[tuple[SubjectSpace, Subscription]] | None = None  # ... and the other way
        self.traceable = True  # stream import: a message trace tells who gets the message there
        self.inlet: Inlet | None = None  # takes messages without a target; the owner would do the same


class Target:
    """A subscription as the receiver of one subject."""

    def __init__(self, subscription: Subscription, subject: bytes, via: bytes | None = None) -> None:
        self.subscription = subscription
        self.owner = subscription.owner
        self.subject = subject  # as the receiver sees it
        self.via = via  # the subject that leads to it, if that is another one
        self._prefix: bytes | None = None

    def prefix(self) -> bytes:
        """Return the start of a client's line; empty if the subject must not be in any line."""
        if self._prefix is None:
            self._prefix = (
                b"MSG %b %b " % (self.subject, self.subscription.sid) if is_one_word(self.subject) else b""
            )
        return self._prefix


class SubjectRoute:
    """All receivers of a message on `subject`."""

    def __init__(self, subject: bytes, plain: list[Target], queues: list[list[Target]]) -> None:
        self.subject = subject
        self.plain = plain
        self.queues = queues
        self.groups: list[list[Subscription]] | None = None  # queue groups without targets, maybe large ones
        self.wide: list[Subscription] | None = None  # very many receivers instead of `plain`
        self.found_for = subject  # the subject that these receivers were found for
        self.linked = False  # some receivers are links to other servers
        self.special = False  # linked or wide: ``SubjectSpace.deliver`` has more to do
        self.sliced = False  # a message was too long for all of `plain` at once: later ones wait for it
        self.valid = True

    def renamed(self, subject: bytes) -> "SubjectRoute":
        """Return the same receivers, who see a message as one on `subject`."""
        seen = SubjectRoute(
            subject,
            [Target(each.subscription, subject, each.subject) for each in self.plain],
            [
                [Target(each.subscription, subject, each.subject) for each in members]
                for members in self.queues
            ],
        )
        seen.groups = self.groups
        seen.wide = self.wide
        seen.linked = self.linked
        seen.special = self.special
        seen.found_for = self.subject
        return seen

    def receivers(self) -> int:
        found = len(self.plain) + len(self.queues) + (len(self.groups) if self.groups is not None else 0)
        return found if self.wide is None else found + len(self.wide)


class AckRoute:
    """All receivers of the acks that begin with `start`."""

    def __init__(self, start: bytes, group: list[Subscription]) -> None:
        self.start = start
        self.group = group
        self.inlet = group[0].inlet if len(group) == 1 else None  # the only one, if it needs no target
        self.valid = True
