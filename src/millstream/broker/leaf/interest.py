"""Tell the links of an account about its subscriptions: LS+ and LS-.

The tree of subscriptions is the only record.  What a link was told follows from it, so nothing is kept for
each link and subject: a plain subject is announced with its first subscription and withdrawn with its last, a
queue group is announced again whenever its number of members changes.  A new link is told everything in
slices; changes that happen meanwhile are told at once, and telling twice does no harm.

    local clients, streams, imports  ──▶ every link
    links at which we are the hub    ──▶ every other link that is not isolated
    links at which we are the spoke  ──▶ links at which we are the hub
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.broker.leaf.rules import LOOP_PREFIX
from millstream.subjects.match import is_one_word

if TYPE_CHECKING:
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.routes import Subscriber, Subscription
    from millstream.subjects.tree import Node, SubjectTree

_MANY: Final = 1024  # values of a node that are looked at in one piece


def key_of(subject: bytes, queue: bytes | None) -> bytes:
    """Return what LS- calls a subscription; a link has one for each key."""
    return subject if queue is None else b"%b %b" % (subject, queue)


class LinkInterest:
    """Tells the links of one account about its subscriptions."""

    def __init__(self, tree: SubjectTree) -> None:
        self._tree = tree
        self._links: dict[LeafConnection, None] = {}
        self._leaving: dict[LeafConnection, None] = {}  # whose subscriptions are still in the tree

    def add(self, link: LeafConnection) -> None:
        self._links[link] = None

    def drop(self, link: LeafConnection) -> None:
        if link in self._links:
            del self._links[link]
            self._leaving[link] = None

    def forget_if_left(self, owner: Subscriber) -> None:
        """Forget a link that has gone and whose last subscription has ended; others are not known here."""
        link: LeafConnection = owner  # type: ignore[assignment]
        if link in self._leaving and not len(link.subscriptions):
            del self._leaving[link]

    def is_over(self) -> bool:
        """Return True if there is no link any more, nor a subscription of one."""
        return not (self._links or self._leaving)

    # -- changes ----------------------------------------------------------------------------------

    def subscribed(self, subscription: Subscription) -> None:
        """Tell of a subscription that was added, or of a group that another server has more members of."""
        self._tell(subscription, 1)

    def unsubscribed(self, subscription: Subscription) -> None:
        self._tell(subscription, 0)

    def _tell(self, subscription: Subscription, edge: int) -> None:
        """Tell all links of one change; a plain subject matters only if `edge` subscriptions are left."""
        subject, queue = subscription.subject, subscription.queue
        members: _Members | None = None
        for link in self._links:
            if not _concerns(link, subscription.owner, subject):
                continue
            if members is None:
                members = self._members(subject, queue)
            count = members.told_to(link)
            if queue is not None or count == edge:
                tell(link, subject, queue, count)

    def _members(self, subject: bytes, queue: bytes | None) -> _Members:
        """Return the subscriptions of a subject, perhaps in a group."""
        node = self._tree.find(subject)
        members = _Members(subject, 0 if node is None else node.value_count(queue))
        if node is not None:
            for link, known in self._of_links(node, key_of(subject, queue), queue):
                if not known.closed:
                    members.add(link, link.weight_of(known))
        return members

    def _of_links(
        self, node: Node, key: bytes, queue: bytes | None
    ) -> Iterator[tuple[LeafConnection, Subscription]]:
        """Yield the subscriptions of links: looks at all subscriptions or at all links, whatever is less."""
        if node.value_count(queue) > len(self._links) + len(self._leaving):
            for links in (self._links, self._leaving):
                for link in links:
                    known = link.subscriptions.get(key)
                    if known is not None:
                        yield link, known
            return
        values: list[Subscription] = []
        if queue is None:
            node.take(values)
        elif node.queues is not None:
            values.extend(node.queues.get(queue, ()))
        for each in values:
            owner: LeafConnection = each.owner  # type: ignore[assignment]
            if owner in self._links or owner in self._leaving:
                yield owner, each

    # -- everything -------------------------------------------------------------------------------

    def tell_everything(self, link: LeafConnection) -> Pieces[None]:
        """Tell a new link of all subscriptions there are."""
        for values in self._tree.walk():
            if link.closed:
                return
            yield 1 + len(values) // _MANY
            if values:
                subject = values[0].subject
                for queue in self._queues(values):
                    count = self._members(subject, queue).told_to(link)
                    if count > 0:
                        tell(link, subject, queue, count)

    def _queues(self, values: list[Subscription]) -> set[bytes | None]:
        return {each.queue for each in values}


class _Members:
    """Sums over the subscriptions of one subject, so that no link is compared with each of many others.

    What ``_concerns`` says depends only on the clusters of two links and on whether we are their spoke.
    """

    def __init__(self, subject: bytes, values: int) -> None:
        """Take the number of subscriptions in the tree; links are added afterwards."""
        self._is_loop = subject.startswith(LOOP_PREFIX)
        self._local = values
        self._weights: dict[tuple[str, bool], int] = {}  # by cluster, and by whether we are the spoke
        self._spokes = self._all = 0  # of these weights
        self._of_link: dict[LeafConnection, int] = {}

    def add(self, link: LeafConnection, weight: int) -> None:
        """Count the subscription of a link by its weight."""
        group = (link.peer.cluster, link.peer.spoke)
        self._local -= 1
        self._weights[group] = self._weights.get(group, 0) + weight
        self._all += weight
        self._spokes += weight if link.peer.spoke else 0
        self._of_link[link] = weight

    def told_to(self, link: LeafConnection) -> int:
        """Return how many subscriptions a link is told of: ours, and those of links that concern it."""
        peer = link.peer
        own = self._of_link.get(link, 0)
        if peer.isolated and not self._is_loop:
            return self._local
        spokes = self._spokes if peer.spoke and not self._is_loop else 0
        count = self._local + self._all - spokes
        if not peer.cluster:
            return count if spokes else count - own
        count -= self._weights.get((peer.cluster, False), 0)
        return count if spokes else count - self._weights.get((peer.cluster, True), 0)


def _concerns(link: LeafConnection, owner: Subscriber, subject: bytes) -> bool:
    """Return True if a link is told of a subscription of `owner`."""
    if owner is link:
        return False
    if not owner.is_link():
        return True
    other: LeafConnection = owner  # type: ignore[assignment]
    if link.peer.cluster and link.peer.cluster == other.peer.cluster:
        return False  # they know each other
    if subject.startswith(LOOP_PREFIX):
        return True
    return not (link.peer.isolated or (link.peer.spoke and other.peer.spoke))


def tell(link: LeafConnection, subject: bytes, queue: bytes | None, count: int) -> None:
    """Send LS+, or LS- if `count` is 0, unless the rules of the link forbid it."""
    if not link.rules.may_ask_for(subject, queue):
        return
    if not is_one_word(subject) or (queue is not None and not (queue and is_one_word(queue))):
        return
    key = key_of(subject, queue)
    if count <= 0:
        link.send(b"LS- %b\r\n" % key)
    elif queue is None:
        link.send(b"LS+ %b\r\n" % key)
    else:
        link.send(b"LS+ %b %d\r\n" % (key, count))
