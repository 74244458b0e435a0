"""Find the receivers of a message by its subject.

A subject space (each account has one) is a tree of subscriptions, with a cache of ``SubjectRoute`` objects in
front of it, one per subject in use.  A route has, for every receiver, the formatted start of its MSG line.
It is never changed; when a subscription is added or removed, the routes it affects are marked invalid and
dropped.  So the holder of a route checks one flag, and delivering costs what is delivered.

This module validates all subjects.  No route is made for a subject with a blank or a control character,
whoever chose it: a configuration on disk, an archive, a mapping, another server.  So nothing that is
delivered can break a protocol line, and only a new subject costs a check.  A ``Target`` checks again before
it writes the start of a line.
"""

import logging
from collections.abc import Callable
from typing import Any

from millstream.base import guard
from millstream.base.buffer import read_little, same_bytes
from millstream.base.complaints import Complaints
from millstream.broker.routes import AckRoute, SubjectRoute, Subscriber, Subscription, Target
from millstream.protocol.ack_subject import ACK_START
from millstream.protocol.outlet import LONG
from millstream.protocol.parser import Frame
from millstream.protocol.replies import FIXED_SIZE, Replies
from millstream.subjects.match import is_one_word, matches
from millstream.subjects.tree import Matches, SubjectTree

_complaints = Complaints(logging.getLogger("millstream.broker"))

REPLY_PREFIX = b"_R_."  # of reply subjects by which answers find their way to another account

_MAX_ROUTES = 16384  # cached subjects of a space; all are dropped when there are more
GATEWAY_PREFIXES = (b"_GR_.", b"$GR.")
CONSENSUS_PREFIX = b"$NRG."
RESERVED_REPLIES = (REPLY_PREFIX, *GATEWAY_PREFIXES, ACK_START)  # reply subjects that no client may use
_ACK_PREFIX_SIZE = len(ACK_START)
_NUMBERS = 5  # of an ack
_DOTS_OF_VERSION_2 = 10  # of an ack that names domain and account, too
_DIRECT_PREFIX_SIZE = len(b"$JS.API.DIRECT.GET.")
_FIXED_SIZE = FIXED_SIZE
_DOT = ord(".")
_STAR = ord("*")
_TAIL = ord(">")
_DOLLAR = ord("$")
_SHOWN = 100  # bytes of a refused subject in the log
_LONG = LONG
_MOST_AT_ONCE = 8 * 1024 * 1024  # bytes of all copies of a message; more are delivered in slices
_WIDE = 4096  # subscriptions that are delivered to in slices, see ``fan_out``; no route has targets for them
_MAX_SCAN = 1024  # more cached routes than this are dropped whole rather than matched one by one
_MAX_SHORT = (
    12288  # cached routes to few receivers of subjects that have two tokens and begin with the same one
)
_FEW = 4  # receivers


class SubjectSpace:
    """The subscriptions of an account, and the routes through them."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.tree = SubjectTree()
        self.routes: dict[bytes, SubjectRoute] = {}
        # From a published subject to the one it is delivered on.
        self.mapping: Callable[[bytes], bytes] | None = None
        self.traced = False  # any message with headers may be part of a trace; see `message_trace`
        self.fan_out: Any = None  # ``fan_out.FanOut``
        self.links: Any = None  # ``leaf.links.AccountLinks``, while the account has links
        self.lookups = 0  # routes asked for, for monitoring
        self.cache_hits = 0
        self.refused = 0  # messages and receivers that the gate turned away
        # The same routes by the heads of their subjects (``_head_of``): a pattern then touches few of them.
        self._heads: dict[bytes, dict[bytes, SubjectRoute]] = {}
        self._reply_groups: dict[bytes, list[Subscription] | None] = {}
        self._acks: dict[bytes, AckRoute | None] = {}
        self._getters: dict[bytes, list[Subscription] | None] = {}
        self._crowds: dict[bytes, Matches | None] = {}
        self._watchers: dict[bytes, list[Callable[[], None]]] = {}
        self._random = seed | 1

    def subscribe(self, subscription: Subscription) -> None:
        self.tree.insert(subscription.subject, subscription.queue, subscription)
        self._changed(subscription.subject)
        if self.links is not None:
            self.links.subscribed(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        self.tree.remove(subscription.subject, subscription.queue, subscription)
        self._changed(subscription.subject)
        if self.links is not None:
            self.links.unsubscribed(subscription)

    def _changed(self, pattern: bytes) -> None:
        literal = b"*" not in pattern and b">" not in pattern
        if self._crowds:
            self._crowds.clear()
        if (self._acks or self._getters) and _may_begin_an_ack(pattern):
            self._drop_acks()
        if self._reply_groups:
            self._drop_reply_groups(pattern, literal)
        if self.routes:
            if literal:
                self._drop_route(pattern)
            else:
                self._drop_routes(pattern)
        if self._watchers:
            self._tell_watchers(pattern, literal)

    def clear(self) -> None:
        """Forget every subscription and route, because this space is not used again."""
        self.tree.clear()
        self.drop_all_routes()
        self._watchers.clear()

    # -- who wants to know ------------------------------------------------------------------------

    def watch(self, subject: bytes, changed: Callable[[], None]) -> None:
        """Call back whenever `subject` gets or loses a subscriber."""
        self._watchers.setdefault(subject, []).append(changed)

    def unwatch(self, subject: bytes, changed: Callable[[], None]) -> None:
        watchers = self._watchers[subject]
        watchers.remove(changed)
        if not watchers:
            del self._watchers[subject]

    def _tell_watchers(self, pattern: bytes, literal: bool) -> None:
        if literal:
            concerned = list(self._watchers.get(pattern, ()))
        else:
            concerned = [
                changed
                for subject, watchers in self._watchers.items()
                if matches(subject, pattern)
                for changed in watchers
            ]
        for changed in concerned:
            guard.alone("telling who watches a subject", changed)

    # -- routes -----------------------------------------------------------------------------------

    def route(self, subject: bytes) -> SubjectRoute:
        """Return the route for a literal subject, cached if possible; empty if the subject is invalid."""
        self.lookups += 1
        route = self.routes.get(subject)
        if route is not None:
            self.cache_hits += 1
            return route
        if not is_one_word(subject):
            self.refuse(subject)
            return SubjectRoute(subject, [], [])
        route = self._route_to(self.tree.match(subject), subject)
        if len(self.routes) >= _MAX_ROUTES:
            self.drop_all_routes()
        self.routes[subject] = route
        head = _head_of(subject)
        routes = self._heads.get(head)
        if routes is None:
            routes = self._heads[head] = {}
        routes[subject] = route
        return route

    def _route_to(self, found: Matches, subject: bytes) -> SubjectRoute:
        linked: list[Target] | None = None
        if self.links is not None:
            linked = self.links.take_links(found, subject)
        if len(found.plain) > _WIDE:
            route = SubjectRoute(subject, [], [])
            route.wide = found.plain
            route.special = True
        else:
            route = SubjectRoute(subject, self.targets(found.plain, subject), [])
        if linked is not None:
            route.plain.extend(linked)
            route.linked = route.special = True
        for members in found.queues.values():
            if len(members) > _WIDE:
                route.groups = [members] if route.groups is None else [*route.groups, members]
            else:
                targets = self.targets(members, subject)
                if targets:
                    route.queues.append(targets)
        return route

    def crowd_route(self, subject: bytes) -> SubjectRoute | None:
        """Return a route for one of very many subjects with the same head, such as the keys of a bucket.

        It is made for this message and must not be kept: nothing marks it invalid.  The receivers of all
        these subjects are cached.  Returns None if they are few, if the route is cached, or if the rest of
        the subject decides who gets the message.
        """
        if len(self.routes) < _MAX_SCAN or subject in self.routes:
            return None
        head = _head_of(subject)
        routes = self._heads.get(head)
        if routes is None or len(routes) < _MAX_SCAN or len(head) == len(subject) or not is_one_word(subject):
            return None
        found = self._crowds.get(head)
        if found is None:
            if head not in self._crowds:
                one_more = b"." not in head  # token: subjects of three have two in their head
                found = self.tree.match_any_last(head) if one_more else self.tree.match_any_tail(head)
                self._crowds[head] = found
            if found is None:
                return None
        if len(routes) < _MAX_SHORT and len(found.plain) <= _FEW and not found.queues and head.find(b".") < 0:
            return None  # a cached route to few receivers is found faster than one is made
        if self.links is not None and self.links.are_among(found):
            return None
        if subject.find(b"..") >= 0 or subject[len(subject) - 1] == _DOT:
            return None
        if len(found.plain) > _WIDE:
            route = SubjectRoute(subject, [], [])
            route.wide = found.plain
            route.special = True
        else:
            route = SubjectRoute(subject, self.targets(found.plain, subject), [])
        if found.queues:
            route.groups = list(found.queues.values())
        return route

    def refuse(self, subject: bytes) -> None:
        """Count a message that is dropped for its subject or reply; log it, rate-limited."""
        self.refused += 1
        _complaints.tell(
            ("subject", self.name),
            "account %s: a message is dropped, because %r has a blank or a control character",
            self.name,
            subject[:_SHOWN],
        )

    def targets(self, subscriptions: list[Subscription], subject: bytes) -> list[Target]:
        """Return the subscriptions as receivers of `subject`, without those that do not cover it."""
        targets = []
        for subscription in subscriptions:
            if subscription.owner.gone() or (subscription.spared and _is_spared(subscription, subject)):
                continue
            seen_as = subject
            if subscription.rewrite is not None:
                seen_as = subscription.rewrite(subject) or b""
                if not seen_as:
                    continue  # an import that this subscription does not cover
                if not is_one_word(seen_as):
                    self.refuse(seen_as)
                    continue
            targets.append(Target(subscription, seen_as))
        return targets

    def ack_route(self, subject: bytes) -> AckRoute | None:
        """Return the receivers of all acks that begin as this one does, up to the name of its consumer.

        The subject of an ack is used once, so the receivers of all acks of a consumer are cached.  Returns
        None if they depend on the rest of the subject.
        """
        dot = _ACK_PREFIX_SIZE - 1
        is_v2 = subject.count(b".") >= _DOTS_OF_VERSION_2
        for _ in range(4 if is_v2 else 2):
            dot = subject.find(b".", dot + 1)
            if dot < 0:
                return None
        start = subject[: dot + 1]
        route = self._acks.get(start)
        if route is None and start not in self._acks:
            found = self.tree.match_any_tail(subject[:dot], _NUMBERS if is_v2 else 1)
            if found is not None and not found.queues and len(found.plain) <= _WIDE:
                group = [each for each in found.plain if each.rewrite is None and not each.spared]
                if len(group) == len(found.plain) and not self._needs_merging(found):
                    route = AckRoute(start, group)
            if len(self._acks) >= _MAX_ROUTES:
                self._drop_acks()
            self._acks[start] = route
        return route

    def direct_route(self, subject: bytes) -> SubjectRoute | None:
        """Return the route of a key in ``$JS.API.DIRECT.GET.<stream>.<key>``.

        There are as many of these subjects as keys, so the receivers for all keys of a stream are cached.
        Returns None if they depend on the key, or are not exactly one queue group.
        """
        dot = subject.find(b".", _DIRECT_PREFIX_SIZE)
        if dot < 0 or subject.find(b"..", dot) >= 0 or subject.endswith(b".") or not is_one_word(subject):
            return None
        stream = subject[:dot]
        group = self._getters.get(stream)
        if group is None:
            if stream in self._getters:
                return None
            if len(self._getters) >= _MAX_ROUTES:
                self._getters.clear()
            group = self._getters[stream] = self._find_getters(stream)
            if group is None:
                return None
        return SubjectRoute(subject, [], [[Target(each, subject) for each in group]])

    def _find_getters(self, stream: bytes) -> list[Subscription] | None:
        found = self.tree.match_any_tail(stream)
        if found is None or len(found.queues) != 1 or len(found.plain) > _WIDE:
            return None
        if not all(_is_spared(each, stream) for each in found.plain):
            return None
        [group] = found.queues.values()
        if len(group) > _WIDE or (self.links is not None and self.links.are_among(found)):
            return None
        plain = [each for each in group if each.rewrite is None and not each.spared and not each.owner.gone()]
        return plain if plain and len(plain) == len(group) else None

    def _needs_merging(self, found: Matches) -> bool:
        """Return True if a link could get a message twice, without queue groups."""
        return self.links is not None and len(found.plain) > 1 and self.links.are_among(found)

    def _drop_acks(self) -> None:
        self._getters.clear()
        for route in self._acks.values():
            if route is not None:
                route.valid = False
        self._acks.clear()

    def drop_all_routes(self) -> None:
        """Drop everything that was found in the tree."""
        for route in self.routes.values():
            route.valid = False
        self.routes.clear()
        self._heads.clear()
        self._drop_acks()
        self._reply_groups.clear()
        self._crowds.clear()

    def _drop_route(self, subject: bytes) -> None:
        route = self.routes.pop(subject, None)
        if route is None:
            return
        route.valid = False
        head = _head_of(subject)
        routes = self._heads[head]
        del routes[subject]
        if not routes:
            del self._heads[head]

    def _drop_routes(self, pattern: bytes) -> None:
        """Drop the routes that match a pattern with wildcards, or more where searching would cost more."""
        head = _head_of(pattern)
        heads = [head]
        if len(pattern) == len(head) + 2 and pattern.endswith(b".>"):
            heads.append(head + b".*")
        for each in heads:
            if b"*" not in each and b">" not in each:
                self._drop_below(each, pattern)
            elif len(self._heads) > _MAX_SCAN:
                self.drop_all_routes()
            else:
                for known in [known for known in self._heads if matches(known, each)]:
                    self._drop_below(known, pattern)

    def _drop_below(self, head: bytes, pattern: bytes) -> None:
        routes = self._heads.get(head)
        if routes is None:
            return
        every = len(routes) > _MAX_SCAN
        for subject in [subject for subject in routes if every or matches(subject, pattern)]:
            self._drop_route(subject)

    def _drop_reply_groups(self, pattern: bytes, literal: bool) -> None:
        """Drop the group of the replies that match `pattern`, or all groups if those may be many."""
        dot = pattern.rfind(b".")
        prefix = pattern[:dot] if dot > 0 else b""
        if literal or (pattern.endswith(b".*") and b"*" not in prefix and b">" not in prefix):
            self._reply_groups.pop(prefix, None)
        else:
            self._reply_groups.clear()

    def answer(self, replies: Replies, start: bytes) -> None:
        """Send ``start + number + end`` to each of `replies`.

        A reply subject is used once, so a route for it would be wasted.  Clients subscribe to all their
        replies with one wildcard, and whoever gets one reply gets the next: that group is cached.
        """
        data = replies.peek()
        p = data
        at = 0
        group: list[Subscription] | None = None
        group_start = 0
        group_size = -1  # of what all replies to the group begin with, the last dot included
        while at < len(data):
            size = p[at] | (p[at + 1] << 8)
            end_size = p[at + 2] | (p[at + 3] << 8)
            number = read_little(p, at + 4, 8)
            at += _FIXED_SIZE
            dot = at + size - 1
            while dot > at and p[dot] != _DOT:
                dot -= 1
            if dot + 1 - at != group_size or not same_bytes(p, at, group_start, group_size):
                group = self._reply_group(data[at : at + size])
                group_start = at
                group_size = dot + 1 - at
            if group is None:
                frame = Frame()
                frame.buf = b"%b%d%b\r\n" % (start, number, data[at + size : at + size + end_size])
                frame.body_size = len(frame.buf) - 2
                self.deliver(self.route(data[at : at + size]), frame, None)
            else:
                for subscription in group:
                    subscription.owner.answer(subscription, data, at, size, start, number, end_size)
            at += size + end_size

    def _reply_group(self, reply: bytes) -> list[Subscription] | None:
        """Return all receivers of `reply`, or None if they depend on its last token."""
        dot = reply.rfind(b".")
        if dot <= 0 or dot + 1 == len(reply):
            return None
        prefix = reply[:dot]
        group = self._reply_groups.get(prefix)
        if group is None and prefix not in self._reply_groups:
            found = self.tree.match_any_last(prefix)
            if found is not None and not found.queues and len(found.plain) <= _WIDE:
                group = [each for each in found.plain if each.rewrite is None and not each.spared]
                if len(group) != len(found.plain) or self._needs_merging(found):
                    group = None
                else:
                    group = [each for each in group if not each.owner.gone()]
            if len(self._reply_groups) >= _MAX_ROUTES:
                self._reply_groups.clear()
            self._reply_groups[prefix] = group
        return group

    def deliver_reply(self, subject: bytes, frame: Frame) -> int:
        """Deliver a response to the subject that the request named; return the number of receivers."""
        group = self._reply_group(subject)
        if group is None:
            return self.deliver(self.route(subject), frame, None)
        taken = 0
        for subscription in group:
            if subscription.owner.deliver(Target(subscription, subject), frame, None):
                taken += 1
        return taken

    def reply_route(self, subject: bytes) -> SubjectRoute:
        """Return a route for one response, which must not be kept."""
        group = self._reply_group(subject)
        if group is None:
            return self.route(subject)
        return SubjectRoute(subject, [Target(each, subject) for each in group], [])

    def deliver_parts(
        self, route: SubjectRoute, reply: bytes, block: bytes, parts: list[Any], size: int
    ) -> int:
        """Deliver a message in parts without a copy; return the number of receivers, or -1 if one needs one.

        The body is `block`, which may be empty, and the parts, which have `size` bytes and never change.
        """
        if route.queues or route.groups is not None or route.special or route.sliced:
            return -1
        if len(route.plain) > 1 and size * len(route.plain) > _MOST_AT_ONCE:
            return -1
        for target in route.plain:
            if not target.owner.takes_parts():
                return -1
        taken = 0
        for target in route.plain:
            if target.owner.deliver_parts(target, reply, block, parts, size):
                taken += 1
        return taken

    def confirm(self, subjects: list[bytes]) -> None:
        """Deliver an empty message to each of `subjects`, which are replies that are used once."""
        frame = Frame()
        frame.buf = b"\r\n"
        for subject in subjects:
            self.deliver_reply(subject, frame)

    def deliver(self, route: SubjectRoute, frame: Frame, source: Subscriber | None) -> int:
        """Deliver the message to every receiver of the route; return how many received it.

        Very many receivers get it in slices, and count as one.
        """
        if route.special:
            if route.linked:
                linked: int = self.links.deliver(route, frame, source)
                return linked
            return self._deliver_wide(route, frame, source)
        if frame.body_size >= _LONG and frame.body_size * len(route.plain) > _MOST_AT_ONCE:
            route.sliced = True
            return self._deliver_wide(route, frame, source)
        if route.sliced and self.fan_out.is_under_way(source):
            return self._deliver_wide(route, frame, source)
        taken = 0
        for target in route.plain:
            if target.owner.deliver(target, frame, source):
                taken += 1
        for members in route.queues:
            if self.deliver_to_one(members, frame, source):
                taken += 1
        if route.groups is not None:
            for group in route.groups:
                if self.deliver_to_one_of(group, route, frame, source):
                    taken += 1
        return taken

    def _deliver_wide(self, route: SubjectRoute, frame: Frame, source: Subscriber | None) -> int:
        taken = 0
        for members in route.queues:
            if self.deliver_to_one(members, frame, source):
                taken += 1
        if route.groups is not None:
            for group in route.groups:
                if self.deliver_to_one_of(group, route, frame, source):
                    taken += 1
        self.fan_out.begin(route, frame, source, taken)
        return taken + 1

    def targets_of(self, route: SubjectRoute, owner: Subscriber) -> list[Target]:
        """Return the targets of a route that belong to one subscriber, members of queue groups included."""
        found = [each for each in route.plain if each.owner is owner]
        for members in route.queues:
            found += [each for each in members if each.owner is owner]
        for group in ([route.wide] if route.wide is not None else []) + (route.groups or []):
            found += self.targets([each for each in group if each.owner is owner], route.subject)
        return found

    def deliver_part(
        self, route: SubjectRoute, start: int, end: int, frame: Frame, source: Subscriber | None
    ) -> int:
        """Deliver the message to some of very many receivers; return how many received it."""
        taken = 0
        if route.wide is None:
            for target in route.plain[start:end]:
                if target.owner.deliver(target, frame, source):
                    taken += 1
            return taken
        for target in self.targets(route.wide[start:end], route.found_for):
            if route.subject is not route.found_for:
                target = Target(target.subscription, route.subject)
            if target.owner.deliver(target, frame, source):
                taken += 1
        return taken

    def deliver_to_one_of(
        self, group: list[Subscription], route: SubjectRoute, frame: Frame, source: Subscriber | None
    ) -> bool:
        """Deliver to a member of a queue group whose targets nobody made: a group may have thousands."""
        count = len(group)
        start = self.draw(count)
        for step in range(count):
            targets = self.targets([group[(start + step) % count]], route.found_for)
            if targets and route.subject is not route.found_for:
                targets = [Target(targets[0].subscription, route.subject)]
            if targets and self.deliver_to_one(targets, frame, source):
                return True
        return False

    def draw(self, count: int) -> int:
        """Return a number below `count`, by a small linear congruential generator: fair enough, and free."""
        if count < 2:
            return 0
        self._random = (self._random * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._random >> 8) % count

    def deliver_to_one(self, members: list[Target], frame: Frame, source: Subscriber | None) -> bool:
        count = len(members)
        start = self.draw(count)
        for step in range(count):
            index = start + step
            if index >= count:
                index -= count
            target = members[index]
            if target.owner.deliver(target, frame, source):
                return True
        return False


def _head_of(subject: bytes) -> bytes:
    """Return the first two tokens of three or more, the first of two, or the only one."""
    first = subject.find(b".")
    if first < 0:
        return subject
    dot = subject.find(b".", first + 1)
    return subject[: first if dot < 0 else dot]


def _is_spared(subscription: Subscription, subject: bytes) -> bool:
    for prefix in subscription.spared:
        if subject.startswith(prefix) and (len(subject) == len(prefix) or subject[len(prefix)] == _DOT):
            return True
    return False


def _may_begin_an_ack(pattern: bytes) -> bool:
    """Return True if a pattern could match ``$JS.ACK.``, judging by its first byte."""
    first = pattern[0]
    return first in (_DOLLAR, _STAR, _TAIL)
