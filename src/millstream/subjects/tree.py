"""The tree of subscriptions: patterns on the way down, the values registered for them at the nodes.

A level of the tree is a token.  Matching a literal subject walks at most three ways from each node:
the token itself, ``*``, and ``>`` which ends there.  Values are opaque; those of one queue group
are returned together, across all patterns that match, because they compete for the message.

The depth of a pattern is up to whoever subscribes, so nothing here calls itself.  The garbage collector does
not see the nodes (``base.untracked``): a tree that is given up with values in it must be cleared.

Not here: caching of results (``broker.router``), and whether a pattern is valid (``tokens``).
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
    """One token of a pattern and what is registered exactly there.

    Most nodes have one child or one value, which need no dict: a million subscriptions are a million nodes.
    """

    def __init__(self) -> None:
        self._token = b""  # of the only child
        self._only: Node | None = None
        self._children: WideMap | None = None  # used from the second child on
        self.star: Node | None = None
        self.tail: Node | None = None
        self._value: Any = None  # the only value without a queue
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

    def has_one_branch(self) -> bool:
        """Return whether there is one node below and nothing else."""
        if self._value is not None or self._values is not None or self.queues is not None:
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
        """Return the node below, which must not be a wildcard's."""
        if self._children is not None:
            below: Node | None = self._children.get(token)
            return below
        return self._only if self._only is not None and self._token == token else None

    def child_at(self, pattern: bytes, start: int, end: int) -> "Node | None":
        """Return the node below for a token of `pattern`, which must not be a wildcard."""
        if self._children is not None:
            below: Node | None = self._children.get(pattern[start:end])
            return below
        if self._only is None or len(self._token) != end - start:
            return None
        return self._only if equal_bytes(pattern, start, self._token) else None

    def has_children(self) -> bool:
        """Return whether there is a node below that is not a wildcard's."""
        return self._only is not None or self._children is not None

    def add_child(self, token: bytes) -> "Node":
        """Make the node for a token that has none yet."""
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

    def children(self) -> "list[Node]":
        """Return the nodes below that are not a wildcard's."""
        if self._children is not None:
            return list(self._children.values())
        return [] if self._only is None else [self._only]

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
        """Forget a value; KeyError if it is not here."""
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
        """Append the values without a queue, oldest first."""
        if self._values is not None:
            plain.extend(self._values)
        elif self._value is not None:
            plain.append(self._value)


class Matches:
    """What a subject reaches: every `plain` value, and one value of each list in `queues`."""

    def __init__(self) -> None:
        self.plain: list[Any] = []
        self.queues: dict[bytes, list[Any]] = {}


class Paths:
    """A walk down the tree, depth first and ``*`` first, without recursion: strangers choose the depth."""

    def __init__(self, root: Node) -> None:
        self.node = root
        self.depth = 0  # of `node`: how many tokens lead there
        self._here = True  # `node` is still to be visited
        self._left: list[tuple[Node, int]] | None = None  # branches not taken yet; made when there is one

    def next(self) -> bool:
        """Whether there is a `node` to visit."""
        if self._here:
            self._here = False
            return True
        if not self._left:
            return False
        self.node, self.depth = self._left.pop()
        return True

    def go_on(self, star: Node | None, child: Node | None) -> None:
        """Visit these below `node`, as far as they are there."""
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
        """Register `value` (hashable, not None, once per pattern and queue)."""
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
        """Forget `value`; KeyError if it is not registered under exactly this pattern and queue."""
        node = self.root
        p = pattern
        size = len(pattern)
        start = 0
        stump = node  # the last node on the way that stays when the branch below it is cut
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
        """Drop the branch that begins with a token of `pattern`."""
        p = pattern
        if end == start + 1 and p[start] == _STAR:
            stump.star = None
        elif end == len(pattern) and end == start + 1 and p[start] == _TAIL:
            stump.tail = None
        else:
            stump.drop_child(pattern[start:end])

    def clear(self) -> None:
        """Forget everything; nothing that is registered now can be removed later."""
        self.root = Node()
        self.count = 0

    def walk(self) -> Iterator[list[Any]]:
        """Yield the values of each node that has some; the tree may change in between.

        A value that comes or goes meanwhile may be left out or may still be yielded.
        """
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            found: list[Any] = []
            node.take(found)
            if node.queues is not None:
                for members in node.queues.values():
                    found.extend(members)
            if node.tail is not None:
                waiting.append(node.tail)
            if node.star is not None:
                waiting.append(node.star)
            waiting.extend(node.children())
            yield found

    def match(self, subject: bytes) -> Matches:
        """Everything that wants the literal `subject`; nothing if it has an empty token."""
        found = Matches()
        tokens = subject.split(b".")
        if b"" not in tokens:
            self._collect(tokens, found)
        return found

    def match_any_last(self, prefix: bytes) -> Matches | None:
        """What wants ``prefix`` plus one more token, whatever that token is; None if it depends on it."""
        found = Matches()
        tokens = prefix.split(b".")
        if b"" in tokens or not self._collect_any_last(tokens, found):
            return None
        return found

    def match_any_tail(self, prefix: bytes) -> Matches | None:
        """What wants ``prefix`` plus one or more tokens, whatever those are; None if it depends on them."""
        found = Matches()
        tokens = prefix.split(b".")
        if b"" in tokens or not self._collect_any_tail(tokens, found):
            return None
        return found

    def _collect_any_tail(self, tokens: list[bytes], found: Matches) -> bool:
        size = len(tokens)
        paths = Paths(self.root)
        while paths.next():
            node = paths.node
            if node.tail is not None:
                self._take(node.tail, found)
            if paths.depth == size:
                if node.has_children() or node.star is not None:
                    return False
            else:
                paths.go_on(node.star, node.child(tokens[paths.depth]))
        return True

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
