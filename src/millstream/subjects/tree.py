"""The tree of subscriptions: patterns on the way down, the values registered for them at the nodes.

A level of the tree is a token.  Matching a literal subject walks at most three ways from each node:
the token itself, ``*``, and ``>`` which ends there.  Values are opaque; those of one queue group
are returned together, across all patterns that match, because they compete for the message.

The depth of a pattern is up to whoever subscribes, so nothing here calls itself.

Not here: caching of results (``broker.router``), and whether a pattern is valid (``tokens``).
"""

from typing import Any


class Node:
    """One token of a pattern and what is registered exactly there."""

    def __init__(self) -> None:
        self.children: dict[bytes, Node] = {}
        self.star: Node | None = None
        self.tail: Node | None = None
        self.plain: dict[Any, None] = {}
        self.queues: dict[bytes, dict[Any, None]] = {}

    def is_empty(self) -> bool:
        return not (self.children or self.star or self.tail or self.plain or self.queues)


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
        """Register `value` (hashable, once per pattern and queue)."""
        node = self.root
        tokens = pattern.split(b".")
        last = len(tokens) - 1
        for index, token in enumerate(tokens):
            if token == b"*":
                if node.star is None:
                    node.star = Node()
                node = node.star
            elif token == b">" and index == last:
                if node.tail is None:
                    node.tail = Node()
                node = node.tail
            else:
                child = node.children.get(token)
                if child is None:
                    child = Node()
                    node.children[token] = child
                node = child
        if queue is None:
            node.plain[value] = None
        else:
            node.queues.setdefault(queue, {})[value] = None
        self.count += 1
        self.inserts += 1

    def remove(self, pattern: bytes, queue: bytes | None, value: Any) -> None:
        """Forget `value`; KeyError if it is not registered under exactly this pattern and queue."""
        path = [self.root]
        tokens = pattern.split(b".")
        last = len(tokens) - 1
        for index, token in enumerate(tokens):
            node = path[-1]
            if token == b"*":
                child = node.star
            elif token == b">" and index == last:
                child = node.tail
            else:
                child = node.children.get(token)
            if child is None:
                raise KeyError(value)
            path.append(child)
        node = path[-1]
        if queue is None:
            del node.plain[value]
        else:
            group = node.queues[queue]
            del group[value]
            if not group:
                del node.queues[queue]
        self.count -= 1
        self.removes += 1
        self._prune(path, tokens)

    def _prune(self, path: list[Node], tokens: list[bytes]) -> None:
        for index in range(len(tokens) - 1, -1, -1):
            if not path[index + 1].is_empty():
                return
            parent = path[index]
            token = tokens[index]
            if token == b"*":
                parent.star = None
            elif token == b">" and index == len(tokens) - 1:
                parent.tail = None
            else:
                del parent.children[token]

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
                if node.children or node.star is not None:
                    return False
            else:
                paths.go_on(node.star, node.children.get(tokens[paths.depth]))
        return True

    def _collect_any_last(self, tokens: list[bytes], found: Matches) -> bool:
        size = len(tokens)
        paths = Paths(self.root)
        while paths.next():
            node = paths.node
            if node.tail is not None:
                self._take(node.tail, found)
            if paths.depth == size:
                if node.children:
                    return False
                if node.star is not None:
                    self._take(node.star, found)
            else:
                paths.go_on(node.star, node.children.get(tokens[paths.depth]))
        return True

    def _collect(self, tokens: list[bytes], found: Matches) -> None:
        last = len(tokens) - 1
        paths = Paths(self.root)
        while paths.next():
            node = paths.node
            if node.tail is not None:
                self._take(node.tail, found)
            child = node.children.get(tokens[paths.depth])
            star = node.star
            if paths.depth < last:
                paths.go_on(star, child)
                continue
            if star is not None:
                self._take(star, found)
            if child is not None:
                self._take(child, found)

    def _take(self, node: Node, found: Matches) -> None:
        if node.plain:
            found.plain.extend(node.plain)
        for queue, members in node.queues.items():
            known = found.queues.get(queue)
            if known is None:
                found.queues[queue] = list(members)
            else:
                known.extend(members)
