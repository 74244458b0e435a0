"""The tree of subscriptions: each level is a token of a pattern; nodes hold the values registered there.

Matching a literal subject follows at most three branches from each node: the token itself, ``*``, and ``>``,
which ends there.  Values are opaque.  Those of one queue group are returned together, across all patterns
that match, because only one of them gets the message.

Clients choose the depth of a pattern, so nothing here is recursive.  The garbage collector does not see the
nodes (``base.untracked``): clear a tree that still holds values before dropping it.

Not here: caching of results (``broker.router``), validation of patterns (``tokens``).
"""

from collections.abc import Iterator
from typing import Any

from millstream.base.buffer import equal_bytes
from millstream.base.untracked import keep, untrack
from millstream.base.wide_map import WideMap

_DOT = ord(".")
_STAR = ord("*")
_TAIL = ord(">")


class Node:
    """One token of a pattern, with the values registered for the pattern that ends here.

    Most nodes have one child or one value and need no dict: a million subscriptions are a million nodes.
    """

    def __init__(self) -> None:
        self._token = b""  # token of the only child
        self._only: Node | None = None
        self._children: WideMap | None = None  # used from the second child on
        self.star: Node | None = None
        self.tail: Node | None = None
        self._value: Any = None  # the only value without a queue group
        self._values: dict[Any, None] | None = None  # used from the second value on
        self.queues: dict[bytes, dict[Any, None]] | None = None
        untrack(self)

    def is_empty(self) -> bool:
        return (
            self._only is None
            and self._value is None
            and self._children is None
            and self.star is None
            and self.tail is None
            and self._values is None
            and self.queues is None
        )

    def has_values(self) -> bool:
        return self._value is not None or self._values is not None or self.queues is not None

    def has_one_branch(self) -> bool:
        """Return True if the node has exactly one branch and no values."""
        if self.has_values():
            return False
        branches = 0 if self._only is None else 1
        if self._children is not None:
            branches += len(self._children)
        if self.star is not None:
            branches += 1
        if self.tail is not None:
            branches += 1
        return branches == 1

    # -- children ---------------------------------------------------------------------------------

    def child(self, token: bytes) -> "Node | None":
        """Return the child for a token that is not a wildcard, or None."""
        if self._children is not None:
            below: Node | None = self._children.get(token)
            return below
        return self._only if self._only is not None and self._token == token else None

    def child_at(self, pattern: bytes, start: int, end: int) -> "Node | None":
        """Return the child for the token at ``pattern[start:end]``, which must not be a wildcard, or None."""
        if self._children is not None:
            below: Node | None = self._children.get(pattern[start:end])
            return below
        if self._only is None or len(self._token) != end - start:
            return None
        return self._only if equal_bytes(pattern, start, self._token) else None

    def has_children(self) -> bool:
        """Return True if there is a child that is not a wildcard."""
        return self._only is not None or self._children is not None

    def add_child(self, token: bytes) -> "Node":
        """Add a child for a token that has none."""
        node = Node()
        if self._children is not None:
            self._children.put(token, node)
        elif self._only is None:
            self._token = token
            self._only = node
        else:
            self._children = WideMap()
            self._children.put(self._token, self._only)
            self._children.put(token, node)
            self._token = b""
            self._only = None
        return node

    def drop_child(self, token: bytes) -> None:
        if self._children is None:
            self._token = b""
            self._only = None
            return
        self._children.remove(token)
        if len(self._children) == 0:
            self._children = None

    def child_parts(self) -> int:
        """Return the number of parts in which ``children`` gives them."""
        if self._children is None:
            return 0 if self._only is None else 1
        return self._children.parts()

    def children(self, part: int) -> "list[Node]":
        """Return some of the children that are not wildcards: very many come in several parts."""
        if self._children is not None:
            return self._children.list_values(part)
        return [] if self._only is None or part > 0 else [self._only]

    # -- values -----------------------------------------------------------------------------------

    def add(self, queue: bytes | None, value: Any) -> None:
        if queue is not None:
            if self.queues is None:
                self.queues = {}
            members = self.queues.get(queue)
            if members is None:
                members = {}
                keep(self.queues, queue, members)
            keep(members, value, None)
        elif self._values is not None:
            keep(self._values, value, None)
        elif self._value is None:
            self._value = value
        else:
            self._values = {self._value: None}
            keep(self._values, value, None)
            self._value = None

    def discard(self, queue: bytes | None, value: Any) -> None:
        """Remove a value; raise KeyError if it is not registered here."""
        if queue is not None:
            if self.queues is None:
                raise KeyError(value)
            members = self.queues[queue]
            del members[value]
            if not members:
                del self.queues[queue]
                if not self.queues:
                    self.queues = None
        elif self._values is not None:
            del self._values[value]
            if not self._values:
                self._values = None
        elif self._value is not None and self._value == value:
            self._value = None
        else:
            raise KeyError(value)

    def take(self, plain: list[Any]) -> None:
        """Append the values without a queue group to `plain`, oldest first."""
        if self._values is not None:
            plain.extend(self._values)
        elif self._value is not None:
            plain.append(self._value)

    def value_count(self, queue: bytes | None) -> int:
        """Return the number of values without a queue group, or of those in one."""
        if queue is not None:
            return len(self.queues.get(queue, ())) if self.queues is not None else 0
        if self._values is not None:
            return len(self._values)
        return 0 if self._value is None else 1


class Matches:
    """The receivers of a subject: every `plain` value, and one value of each list in `queues`."""

    def __init__(self) -> None:
        self.plain: list[Any] = []
        self.queues: dict[bytes, list[Any]] = {}


class Paths:
    """A walk down the tree, depth first and ``*`` first; clients choose the depth, so not recursive."""

    def __init__(self, root: Node) -> None:
        self.node = root
        self.depth = 0  # number of tokens that lead to `node`
        self._here = True  # `node` has not been visited yet
        self._left: list[tuple[Node, int]] | None = None  # branches still to visit; created when needed

    def next(self) -> bool:
        """Advance to the next `node`; return False if there is none."""
        if self._here:
            self._here = False
            return True
        if not self._left:
            return False
        self.node, self.depth = self._left.pop()
        return True

    def go_on(self, star: Node | None, child: Node | None) -> None:
        """Visit these children of `node` next; None means that there is no such child."""
        if star is None and child is None:
            return
        self.depth += 1
        self._here = True
        if star is None:
            self.node = child  # type: ignore[assignment]
            return
        self.node = star
        if child is not None:
            if self._left is None:
                self._left = []
            self._left.append((child, self.depth))


class SubjectTree:
    """Values registered under patterns, found by literal subject."""

    def __init__(self) -> None:
        self.root = Node()
        self.count = 0
        self.inserts = 0
        self.removes = 0

    def insert(self, pattern: bytes, queue: bytes | None, value: Any) -> None:
        """Register `value`: hashable, not None, at most once per pattern and queue group."""
        node = self.root
        p = pattern
        size = len(pattern)
        start = 0
        while start <= size:
            end = start
            while end < size and p[end] != _DOT:
                end += 1
            if end == start + 1 and p[start] == _STAR:
                if node.star is None:
                    node.star = Node()
                node = node.star
            elif end == size and end == start + 1 and p[start] == _TAIL:
                if node.tail is None:
                    node.tail = Node()
                node = node.tail
            else:
                child = node.child_at(pattern, start, end)
                if child is None:
                    child = node.add_child(pattern[start:end])
                node = child
            start = end + 1
        node.add(queue, value)
        self.count += 1
        self.inserts += 1

    def remove(self, pattern: bytes, queue: bytes | None, value: Any) -> None:
        """Remove `value`; raise KeyError if it is not registered for this pattern and queue group."""
        node = self.root
        p = pattern
        size = len(pattern)
        start = 0
        stump = node  # the deepest node that stays when the branch below it is cut
        cut_start = 0
        cut_end = 0
        while start <= size:
            end = start
            while end < size and p[end] != _DOT:
                end += 1
            if end == start + 1 and p[start] == _STAR:
                child = node.star
            elif end == size and end == start + 1 and p[start] == _TAIL:
                child = node.tail
            else:
                child = node.child_at(pattern, start, end)
            if child is None:
                raise KeyError(value)
            if start == 0 or not node.has_one_branch():
                stump = node
                cut_start = start
                cut_end = end
            node = child
            start = end + 1
        node.discard(queue, value)
        self.count -= 1
        self.removes += 1
        if node.is_empty():
            self._cut(stump, pattern, cut_start, cut_end)

    def _cut(self, stump: Node, pattern: bytes, start: int, end: int) -> None:
        """Remove the branch that begins with the token at ``pattern[start:end]``."""
        p = pattern
        if end == start + 1 and p[start] == _STAR:
            stump.star = None
        elif end == len(pattern) and end == start + 1 and p[start] == _TAIL:
            stump.tail = None
        else:
            stump.drop_child(pattern[start:end])

    def find(self, pattern: bytes) -> Node | None:
        """Return the node with the values registered for exactly this pattern, or None."""
        node: Node | None = self.root
        tokens = pattern.split(b".")
        for number, token in enumerate(tokens, start=1):
            if node is None:
                return None
            if token == b"*":
                node = node.star
            elif token == b">" and number == len(tokens):
                node = node.tail
            else:
                node = node.child(token)
        return node

    def clear(self) -> None:
        """Remove everything; a later ``remove`` of a value registered before raises KeyError."""
        self.root = Node()
        self.count = 0

    def walk(self) -> Iterator[list[Any]]:
        """Yield the values of each node, and empty lists in between.  The tree may change between two steps.

        A value added or removed meanwhile may be left out or may still be yielded.
        """
        waiting = [(self.root, -1, 0)]  # a node itself, or one of so many parts of its children
        while waiting:
            node, part, parts = waiting.pop()
            if part >= 0:
                if part + 1 < parts == node.child_parts():
                    waiting.append((node, part + 1, parts))
                waiting.extend([(child, -1, 0) for child in node.children(part)])
                yield []
                continue
            found: list[Any] = []
            node.take(found)
            if node.queues is not None:
                for members in node.queues.values():
                    found.extend(members)
            if node.tail is not None:
                waiting.append((node.tail, -1, 0))
            if node.star is not None:
                waiting.append((node.star, -1, 0))
            if node.child_parts() > 0:
                waiting.append((node, 0, node.child_parts()))
            yield found

    def match(self, subject: bytes) -> Matches:
        """Return the values that match the literal `subject`; none if it has an empty token."""
        found = Matches()
        tokens = subject.split(b".")
        if b"" not in tokens:
            self._collect(tokens, found)
        return found

    def match_any_last(self, prefix: bytes) -> Matches | None:
        """Return the values that match ``prefix`` plus any one token; None if that depends on the token."""
        found = Matches()
        tokens = prefix.split(b".")
        if b"" in tokens or not self._collect_any_last(tokens, found):
            return None
        return found

    def match_any_tail(self, prefix: bytes, least: int = 1) -> Matches | None:
        """Return the values that match ``prefix`` plus any more tokens, at least so many.

        Returns None if that depends on them.
        """
        found = Matches()
        tokens = prefix.split(b".")
        if b"" in tokens or not self._collect_any_tail(tokens, least, found):
            return None
        return found

    def _collect_any_tail(self, tokens: list[bytes], least: int, found: Matches) -> bool:
        size = len(tokens)
        paths = Paths(self.root)
        while paths.next():
            node = paths.node
            if node.tail is not None:
                self._take(node.tail, found)
            if paths.depth == size:
                if not self._collect_stars(node, least - 1, found):
                    return False
            else:
                paths.go_on(node.star, node.child(tokens[paths.depth]))
        return True

    def _collect_stars(self, node: Node, most: int, found: Matches) -> bool:
        """Take the patterns that go on with up to `most` stars and a tail; False if there are others."""
        while most > 0 and node.star is not None and not node.has_children():
            node = node.star
            most -= 1
            if node.has_values():
                return False
            if node.tail is not None:
                self._take(node.tail, found)
        return node.star is None and not node.has_children()

    def _collect_any_last(self, tokens: list[bytes], found: Matches) -> bool:
        size = len(tokens)
        paths = Paths(self.root)
        while paths.next():
            node = paths.node
            if node.tail is not None:
                self._take(node.tail, found)
            if paths.depth == size:
                if node.has_children():
                    return False
                if node.star is not None:
                    self._take(node.star, found)
            else:
                paths.go_on(node.star, node.child(tokens[paths.depth]))
        return True

    def _collect(self, tokens: list[bytes], found: Matches) -> None:
        last = len(tokens) - 1
        paths = Paths(self.root)
        while paths.next():
            node = paths.node
            if node.tail is not None:
                self._take(node.tail, found)
            child = node.child(tokens[paths.depth])
            star = node.star
            if paths.depth < last:
                paths.go_on(star, child)
                continue
            if star is not None:
                self._take(star, found)
            if child is not None:
                self._take(child, found)

    def _take(self, node: Node, found: Matches) -> None:
        node.take(found.plain)
        if node.queues is None:
            return
        for queue, members in node.queues.items():
            known = found.queues.get(queue)
            if known is None:
                found.queues[queue] = list(members)
            else:
                known.extend(members)
