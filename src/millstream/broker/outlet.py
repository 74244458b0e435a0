"""Deliver messages to one destination of a subject space, each under the subject it was published on.

The route to the destination is cached while it is valid; for each subject that passes, the line prefixes of
its receivers are cached too.  A message may also have the destination's own name, as if published there.

A sender waits for the receivers that listen most closely, as the requester listens to its inbox, and not for
one that listens to everything beside them: that one has to keep up, or is disconnected as a slow consumer.
"""

from typing import Any

from millstream.broker.router import SubjectSpace
from millstream.broker.routes import SubjectRoute, Subscription, Target
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.subjects.match import is_one_word

_MAX_SUBJECTS = 1024  # remembered at a time; all are forgotten when there are more
_EXACT = 1 << 30  # the subject has no wildcard


class SubjectOutlet(Outlet):
    """An ``Outlet`` of a subject; with a `queue`, only its members count as subscribers."""

    def __init__(self, space: SubjectSpace, destination: bytes, queue: bytes | None = None) -> None:
        self._space = space
        self._destination = destination
        self._queue = queue
        self._route: SubjectRoute | None = None
        self._closest: list[list[Target]] | None = None  # the receivers to wait for, and queue groups
        self._seen_as: dict[bytes, SubjectRoute] = {}
        self._last_subject: bytes | None = None  # most messages have the subject of the one before
        self._last_seen: SubjectRoute | None = None

    def send(self, subject: bytes, frame: Frame) -> int:
        seen = self._route_as(subject)
        if seen is None:
            return 1  # gone, as if it had been taken: what lies behind it in the log must not wait for it
        return self._space.deliver(seen, frame, None)

    def send_parts(self, subject: bytes, reply: bytes, block: bytes, parts: list[Any], size: int) -> int:
        seen = self._route_as(subject)
        return 1 if seen is None else self._space.deliver_parts(seen, reply, block, parts, size)

    def _route_as(self, subject: bytes) -> SubjectRoute | None:
        """Return the route on which messages are seen as `subject`; None if no line may contain that."""
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        if subject is self._last_subject:
            return self._last_seen
        seen = route if subject == self._destination else self._seen_as.get(subject)
        if seen is None:
            if not is_one_word(subject):
                self._space.refuse(subject)
                return None
            seen = self._see_as(subject)
        self._last_subject = subject
        self._last_seen = seen
        return seen

    def has_interest(self) -> bool:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        if self._queue is None:
            return route.receivers() > 0
        for members in route.queues:
            target = members[0]
            if target.subscription.queue == self._queue:
                return True
        for group in route.groups or ():
            subscription = group[0]
            if subscription.queue == self._queue:
                return True
        return False

    def is_named(self) -> bool:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        for members in [route.plain] if self._queue is None else route.queues:
            for target in members:
                if self._names(target.subscription, target.subject):
                    return True
        for group in [route.wide or []] if self._queue is None else route.groups or ():
            for subscription in group:
                if self._names(subscription, self._destination):
                    return True
        return False

    def _names(self, subscription: Subscription, subject: bytes) -> bool:
        """Return True if this is a subscription to the destination that is seen as `subject`."""
        if subscription.queue != self._queue:
            return False
        origin = subscription.origin  # who listens in another account, under that one's name
        return subscription.subject == self._destination or (origin is not None and origin.subject == subject)

    def behind(self) -> bool:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        if route.wide is not None and self._space.fan_out.is_busy():
            return True
        if len(route.plain) == 1 and not route.queues and self._queue is None:
            target = route.plain[0]
            return target.owner.behind()
        closest = self._closest
        if closest is None:
            closest = self._closest = self._find_closest(route)
        for members in closest:
            for target in members:
                if not target.owner.behind():
                    break
            else:
                return True  # all of them are
        return False

    def _find_closest(self, route: SubjectRoute) -> list[list[Target]]:
        """Return the receivers, alone or as a group, whose subjects are fixed for the longest beginning."""
        closest: list[list[Target]] = []
        longest = -1
        found: list[list[Target]] = route.queues
        if self._queue is None:
            found = [[target] for target in route.plain] + found
        for members in found:
            if self._queue is not None and members[0].subscription.queue != self._queue:
                continue
            length = -1
            for target in members:
                length = max(length, self._fixed(target))
            if length > longest:
                longest = length
                closest = []
            if length == longest:
                closest.append(members)
        return closest

    def _fixed(self, target: Target) -> int:
        """Return the length of the part of a receiver's subject before its first wildcard."""
        if self._names(target.subscription, target.subject):
            return _EXACT
        subject = target.subscription.subject
        for position in range(len(subject)):
            if subject[position] in b"*>":
                return position
        return _EXACT

    def _find_route(self) -> SubjectRoute:
        self._seen_as.clear()
        self._last_subject = None
        self._closest = None
        route = self._space.route(self._destination)
        self._route = route
        return route

    def _see_as(self, subject: bytes) -> SubjectRoute:
        route = self._route
        assert route is not None
        seen = route.renamed(subject)
        if len(self._seen_as) >= _MAX_SUBJECTS:
            self._seen_as.clear()
        self._seen_as[subject] = seen
        return seen


class AnswerOutlet(Outlet):
    """Sends responses to the subjects that requests name; most are used once, so no route is cached."""

    def __init__(self, space: SubjectSpace) -> None:
        self._space = space

    def send(self, subject: bytes, frame: Frame) -> int:
        return self._space.deliver_reply(subject, frame)

    def send_parts(self, subject: bytes, reply: bytes, block: bytes, parts: list[Any], size: int) -> int:
        space = self._space
        return space.deliver_parts(space.reply_route(subject), reply, block, parts, size)
