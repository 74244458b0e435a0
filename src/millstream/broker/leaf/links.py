"""The links of one account, and deliveries that involve them.

A link is one receiver of a route however many subscriptions match at its other end: the other server gets a
message once, with the names of the queue groups that it is to choose a member of.  An account without links
has no ``AccountLinks``, and none of its messages comes here (``SubjectRoute.special``).
"""

from typing import TYPE_CHECKING, Any

from millstream.base.ids import nuid
from millstream.broker.leaf.connection import LeafConnection
from millstream.broker.leaf.interest import LinkInterest
from millstream.broker.leaf.rules import LOOP_PREFIX
from millstream.broker.router import SubjectSpace
from millstream.broker.routes import SubjectRoute, Subscriber, Subscription, Target
from millstream.subjects.tree import Matches

if TYPE_CHECKING:
    from millstream.protocol.parser import Frame

_LARGE = 4096  # members of a queue group that get no targets


class AccountLinks:
    """The links of an account, from the first to the last."""

    def __init__(self, space: SubjectSpace) -> None:
        self.space = space
        self.loop_subject = LOOP_PREFIX + nuid().encode()  # comes back if links form a circle
        self.interest: Any = LinkInterest(space.tree)

    def add(self, link: LeafConnection) -> None:
        """Tell a link, from now on, what others in the account listen to."""
        self.space.links = self
        self.interest.add(link)

    def drop(self, link: LeafConnection) -> None:
        """Tell a link no more; its own subscriptions end afterwards."""
        self.interest.drop(link)

    def finish(self, link: Subscriber) -> None:
        """Forget a link that has gone if its last subscription has ended; free the account after the last."""
        self.interest.forget_if_left(link)
        if self.space.links is self and self.interest.is_over():
            self.space.links = None
            self.space.drop_all_routes()

    def subscribed(self, subscription: Subscription) -> None:
        self.interest.subscribed(subscription)

    def unsubscribed(self, subscription: Subscription) -> None:
        self.interest.unsubscribed(subscription)
        if subscription.owner.gone():
            self.finish(subscription.owner)

    # -- routes -----------------------------------------------------------------------------------

    def are_among(self, found: Matches) -> bool:
        """Return True if a receiver is a link."""
        for each in found.plain:
            if each.owner.is_link():
                return True
        for members in found.queues.values():
            for each in members:
                if each.owner.is_link():
                    return True
        return False

    def take_links(self, found: Matches, subject: bytes) -> list[Target] | None:
        """Take the plain subscriptions of links out of `found`; return each link once, None if there is none.

        Members of queue groups at the other ends of links stay where they are, except in very large groups.
        """
        if not self.are_among(found):
            return None
        distant = [each for each in found.plain if each.owner.is_link()]
        if distant:
            found.plain = [each for each in found.plain if not each.owner.is_link()]
        for queue, members in found.queues.items():
            if len(members) > _LARGE:
                found.queues[queue] = [each for each in members if not each.owner.is_link()]
        seen: set[tuple[Subscriber, bytes]] = set()
        targets: list[Target] = []
        for target in self.space.targets(distant, subject):
            key = (target.owner, target.subject)
            if key not in seen:
                seen.add(key)
                targets.append(target)
        return targets

    # -- deliveries -------------------------------------------------------------------------------

    def deliver(self, route: SubjectRoute, frame: "Frame", source: Subscriber | None) -> int:
        """Deliver a message of this server's own clients to a route with links."""
        return self._deliver(route, frame, source, None, False)

    def deliver_from(
        self, route: SubjectRoute, frame: "Frame", link: LeafConnection, queues: list[bytes] | None
    ) -> int:
        """Deliver a message of a link: to plain receivers, and to a member of each group in `queues`."""
        if not (route.special or route.queues or route.groups is not None):
            return self.space.deliver(route, frame, link)
        return self._deliver(route, frame, link, queues, True)

    def _deliver(
        self,
        route: SubjectRoute,
        frame: "Frame",
        source: Subscriber | None,
        queues: list[bytes] | None,
        only_named: bool,
    ) -> int:
        """Deliver to all receivers; a queue group prefers its members at this end."""
        taken = 0
        chosen: dict[Subscriber, list[Target]] = {}  # by link
        for members in route.queues:
            if only_named and not is_named(members[0].subscription, queues):
                continue
            local = [each for each in members if not each.owner.is_link()]
            if local and self.space.deliver_to_one(local, frame, source):
                taken += 1
            elif len(local) < len(members):
                distant = self.choose(members, source)
                if distant is not None:
                    chosen.setdefault(distant.owner, []).append(distant)
        for target in route.plain:
            owner = target.owner
            if owner.is_link():
                if _send(target, frame, source, chosen.pop(owner, None)):
                    taken += 1
            elif owner.deliver(target, frame, source):
                taken += 1
        for group in chosen.values():
            if _send(group[0], frame, source, group):
                taken += 1
        if route.groups is not None:
            for subscriptions in route.groups:
                if only_named and not is_named(subscriptions[0], queues):
                    continue
                if self.space.deliver_to_one_of(subscriptions, route, frame, source):
                    taken += 1
        if route.wide is not None:
            self.space.fan_out.begin(route, frame, source, taken)
            taken += 1
        return taken

    def choose(self, members: list[Target], source: Subscriber | None) -> Target | None:
        """Return a member at the other end of a link; a link with more members is chosen more often."""
        total = 0
        for target in members:
            total += _weight(target, source)
        if total == 0:
            return None
        left = self.space.draw(total)
        for target in members:
            left -= _weight(target, source)
            if left < 0:
                return target
        return None


def _weight(target: Target, source: Subscriber | None) -> int:
    owner = target.owner
    if owner is source or owner.gone() or not isinstance(owner, LeafConnection):
        return 0
    link: LeafConnection = owner
    return link.weight_of(target.subscription)


def _send(target: Target, frame: "Frame", source: Subscriber | None, group: list[Target] | None) -> bool:
    link: LeafConnection = target.owner  # type: ignore[assignment]
    queues: list[bytes] | None = None
    if group is not None:
        queues = [each.subscription.queue for each in group]  # type: ignore[misc]
    return link.send_message(target, frame, source, queues)


def is_named(subscription: Subscription, queues: list[bytes] | None) -> bool:
    return queues is not None and subscription.queue in queues
