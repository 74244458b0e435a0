"""Deliver messages to one destination of a subject space, each under the subject it was published on.

The route to the destination is cached while it is valid; for each subject that passes, the line prefixes of
its receivers are cached too.  A message may also have the destination's own name, as if published there.
"""

from millstream.broker.router import SubjectRoute, SubjectSpace, Target
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import Frame
from millstream.subjects.match import is_one_word

_MAX_SUBJECTS = 1024  # remembered at a time; all are forgotten when there are more


class SubjectOutlet(Outlet):
    """An ``Outlet`` of a subject; with a `queue`, only its members count as subscribers."""

    def __init__(self, space: SubjectSpace, destination: bytes, queue: bytes | None = None) -> None:
        self._space = space
        self._destination = destination
        self._queue = queue
        self._route: SubjectRoute | None = None
        self._seen_as: dict[bytes, SubjectRoute] = {}

    def send(self, subject: bytes, frame: Frame) -> int:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        if subject == self._destination:
            return self._space.deliver(route, frame, None)
        seen = self._seen_as.get(subject)
        if seen is None:
            if not is_one_word(subject):
                self._space.refuse(subject)
                return 1  # gone, as if it had been taken: what lies behind it in the log must not wait for it
            seen = self._see_as(subject)
        return self._space.deliver(seen, frame, None)

    def has_interest(self) -> bool:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        if self._queue is None:
            return route.receivers() > 0
        wanted = [members for members in route.queues if members[0].subscription.queue == self._queue]
        return len(wanted) > 0

    def is_named(self) -> bool:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        for members in [route.plain] if self._queue is None else route.queues:
            for target in members:
                subscription = target.subscription
                if subscription.queue != self._queue:
                    continue
                if subscription.subject == self._destination:
                    return True
                origin = subscription.origin  # who listens in another account, under that one's name
                if origin is not None and origin.subject == target.subject:
                    return True
        return False

    def behind(self) -> bool:
        route = self._route
        if route is None or not route.valid:
            route = self._find_route()
        for target in route.plain:
            if target.owner.behind():
                return True
        for members in route.queues:
            for target in members:
                if not target.owner.behind():
                    break
            else:
                return True  # all of them are
        return False

    def _find_route(self) -> SubjectRoute:
        self._seen_as.clear()
        route = self._space.route(self._destination)
        self._route = route
        return route

    def _see_as(self, subject: bytes) -> SubjectRoute:
        route = self._route
        assert route is not None
        seen = SubjectRoute(
            subject,
            [_renamed(target, subject) for target in route.plain],
            [[_renamed(target, subject) for target in members] for members in route.queues],
        )
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


def _renamed(target: Target, subject: bytes) -> Target:
    return Target(target.subscription, subject)
