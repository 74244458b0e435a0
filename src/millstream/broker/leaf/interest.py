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

from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.broker.leaf.rules import LOOP_PREFIX
from millstream.subjects.match import is_one_word

if TYPE_CHECKING:
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.router import Subscriber, Subscription
    from millstream.subjects.tree import Node, SubjectTree

_MANY: Final = 1024  # values of a node that are looked at in one piece


def key_of(subject: bytes, queue: bytes | None) -> bytes:
    """Return what LS- calls a subscription; a link has one for each key."""
    return subject if queue is None else b"%b %b" % (subject, queue)


class LinkInterest:
    """Tells the links of one account about its subscriptions."""

    def __init__(self, tree: SubjectTree) -> None:
        self._tree = tree
        self._links: list[LeafConnection] = []
        self._leaving: list[LeafConnection] = []  # whose subscriptions are still in the tree

    def add(self, link: LeafConnection) -> None:
        self._links.append(link)

    def drop(self, link: LeafConnection) -> None:
        if link in self._links:
            self._links.remove(link)
            self._leaving.append(link)

    def is_over(self) -> bool:
        """Return True if there is no link any more, nor a subscription of one."""
        self._leaving = [link for link in self._leaving if len(link.subscriptions)]
        return not (self._links or self._leaving)

    # -- changes ----------------------------------------------------------------------------------

    def subscribed(self, subscription: Subscription) -> None:
        """Tell of a subscription that was added, or of a group that another server has more members of."""
        self._tell(subscription, 1)

    def unsubscribed(self, subscription: Subscription) -> None:
        self._tell(subscription, 0)

    def _tell(self, subscription: Subscription, edge: int) -> None:
        """Tell all links of one change; a plain subject matters only if `edge` subscriptions are left."""
        node: Node | None = None
        found = False
        for link in self._links:
            if not _concerns(link, subscription.owner, subscription.subject):
                continue
            if not found:
                node, found = self._tree.find(subscription.subject), True
            count = self._count(link, node, subscription.subject, subscription.queue)
            if subscription.queue is not None or count == edge:
                tell(link, subscription.subject, subscription.queue, count)

    def _count(self, link: LeafConnection, node: Node | None, subject: bytes, queue: bytes | None) -> int:
        """Return how many subscriptions of a node a link is told of."""
        if node is None:
            return 0
        count = node.value_count(queue)
        key = key_of(subject, queue)
        for other in (*self._links, *self._leaving):
            known: Subscription | None = other.subscriptions.get(key)
            if known is None or known.closed:
                continue
            if _concerns(link, other, subject):
                count += other.weight_of(known) - 1
            else:
                count -= 1
        return count

    # -- everything -------------------------------------------------------------------------------

    def tell_everything(self, link: LeafConnection) -> Pieces[None]:
        """Tell a new link of all subscriptions there are."""
        for values in self._tree.walk():
            if link.closed:
                return
            yield 1 + len(values) // _MANY
            if values:
                subject = values[0].subject
                node = self._tree.find(subject)
                for queue in self._queues(values):
                    count = self._count(link, node, subject, queue)
                    if count > 0:
                        tell(link, subject, queue, count)

    def _queues(self, values: list[Subscription]) -> set[bytes | None]:
        return {each.queue for each in values}


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
