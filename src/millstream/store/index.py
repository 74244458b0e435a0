"""The index of subjects: how many messages each has, and its first and last sequence.

A tree of tokens, so the cost of a pattern with wildcards depends on what it finds, not on what is stored.  A
node represents a subject if its count is not zero, and may have longer subjects below it.  There are no
parent pointers: a million subjects are a million nodes, so every pointer counts.  The children of a
node are in a dict, or in a ``WideMap`` if there are many, which grows and is listed in parts.

`first` is exact until the first message of a subject is removed while others remain; then it is a lower bound
(`first_exact` is False), and ``log`` finds the real one when it is needed.  `last` is an upper bound in the
same way.
"""

from collections.abc import Iterator

from millstream.base.buffer import equal_bytes
from millstream.base.numbers import Numbers
from millstream.base.slices import Pieces
from millstream.base.untracked import untrack
from millstream.base.wide_map import WideMap
from millstream.store.subject_list import SubjectList

_WIDE_AT = 8192  # children
_DOT = ord(".")
_FREED_AT_ONCE = 256  # subjects of a piece


class SubjectNode:
    """One token and, if `count` is not zero, the subject that ends here."""

    def __init__(self) -> None:
        self.children: dict[bytes, SubjectNode] | WideMap | None = None
        self.count = 0
        self.first = 0
        self.last = 0
        self.first_exact = True
        self.last_exact = True


class SubjectIndex:
    """The subjects of all live messages."""

    def __init__(self) -> None:
        self._root = SubjectNode()
        self.subjects = 0
        self.newest: SubjectNode | None = None  # of the subject that was appended last, if that is known
        self.newest_subject: bytes | None = None
        self._parent: SubjectNode | None = None  # of the subject that was added last, and
        self._head = b""  # what all subjects below it begin with, up to their last dot
        self._found: SubjectNode | None = None  # the last one that was looked for and found below it, and
        self._found_subject: bytes | None = None
        self._dots: dict[int, int] = {}  # how many subjects have so many dots
        self.looked_at = 0  # nodes, by the last call of ``count_between``

    def find(self, subject: bytes) -> SubjectNode | None:
        """Return the node of a literal subject, or None if it has no messages."""
        node = self._root
        parent = self._parent
        if parent is not None and self._is_below_parent(subject):
            last = _child(parent, subject[len(self._head) :])
            if last is None or not last.count:
                return None
            self._found, self._found_subject = last, subject
            return last
        for token in subject.split(b"."):
            child = _child(node, token)
            if child is None:
                return None
            node = child
        return node if node.count else None

    def add(self, subject: bytes, seq: int) -> SubjectNode:
        """Count one more message, the newest of its subject."""
        parent = self._parent
        if parent is None or not self._is_below_parent(subject):
            parent = self._find_parent(subject)
        token = subject[len(self._head) :]
        node = _child(parent, token)
        if node is None:
            node = SubjectNode()
            _put_child(parent, token, node)
        if node.count == 0:
            dots = subject.count(b".")
            self._dots[dots] = self._dots.get(dots, 0) + 1
        self.count_one(node, seq)
        return node

    def append(self, subject: bytes, seq: int) -> None:
        """Count one more message, the newest of the log."""
        node = self.newest
        if node is not None and subject == self.newest_subject:
            self.count_one(node, seq)
            return
        node = self._found  # an update looks at what it replaces
        if node is not None and node.count > 0 and subject == self._found_subject:
            self.count_one(node, seq)
        else:
            node = self.add(subject, seq)
        self.newest = node
        self.newest_subject = subject

    def _is_below_parent(self, subject: bytes) -> bool:
        """Return True if only its last token distinguishes the subject from the one that was added last."""
        if not equal_bytes(subject, 0, self._head):
            return False
        p = subject
        at = len(self._head)
        while at < len(subject) and p[at] != _DOT:
            at += 1
        return at == len(subject)

    def _find_parent(self, subject: bytes) -> SubjectNode:
        """Find or create the node for all tokens but the last, and cache it: many keys share a bucket."""
        self._head = subject[: subject.rfind(b".") + 1]
        node = self._root
        for token in self._head.split(b".")[:-1]:
            child = _child(node, token)
            if child is None:
                child = SubjectNode()
                _put_child(node, token, child)
            node = child
        self._parent = node
        return node

    def count_one(self, node: SubjectNode, seq: int) -> None:
        """Count one more message of a known node."""
        if node.count == 0:
            self.subjects += 1
            node.first = seq
            node.first_exact = True
        node.count += 1
        node.last = seq
        node.last_exact = True

    def add_many(self, subject: bytes, count: int, first: int, last: int) -> None:
        """Count messages that were summed up elsewhere; all are newer than those known."""
        if count == 0:
            return
        node = self.add(subject, last)
        if node.count == 1:
            node.first = first
        node.count += count - 1

    def add_sums(self, names: SubjectList, counts: Numbers, firsts: Numbers, lasts: Numbers) -> None:
        """Count the messages of each subject of a segment."""
        for number in range(names.count):
            self.add_many(names.at(number), counts.at(number), firsts.at(number), lasts.at(number))

    def remove(self, subject: bytes, seq: int) -> None:
        """Count one message less, quickly if its subject was appended last."""
        node = self.newest
        if node is not None and node.count > 1 and subject == self.newest_subject:
            self.discount_node(node, seq)
        else:
            self.discount(subject, seq)
            self.newest = None

    def discount(self, subject: bytes, seq: int) -> None:
        """Count one message less."""
        path = [self._root]
        tokens = subject.split(b".")
        for token in tokens:
            children = path[-1].children
            assert children is not None
            path.append(children[token])
        node = path[-1]
        if node.count == 1:
            node.count = 0
            self._forget_depth(len(tokens) - 1)
            self.subjects -= 1
            self._prune(path, tokens)
        else:
            self.discount_node(node, seq)

    def discount_node(self, node: SubjectNode, seq: int) -> None:
        """Count one message less of a known node that has more than one."""
        node.count -= 1
        if node.count == 1 and seq != node.last and node.last_exact:
            node.first = node.last
            node.first_exact = True
        else:
            if seq == node.first:
                node.first = seq + 1
                node.first_exact = False
            if seq == node.last:
                node.last_exact = False

    def discount_many(self, subject: bytes, count: int, below: int) -> None:
        """Count `count` messages less: all of the subject below a sequence."""
        node = self.find(subject)
        if node is None:
            return
        if count >= node.count:
            node.count = 1
            self.discount(subject, node.last)
            return
        node.count -= count
        if node.first < below:
            node.first = below
            node.first_exact = False

    def _prune(self, path: list[SubjectNode], tokens: list[bytes]) -> None:
        for position in range(len(tokens) - 1, -1, -1):
            node = path[position + 1]
            if node.count or node.children:
                return
            self._parent = self._found = None
            _drop_child(path[position], tokens[position])

    def _forget_depth(self, dots: int) -> None:
        left = self._dots[dots] - 1
        if left:
            self._dots[dots] = left
        else:
            del self._dots[dots]

    def clear(self) -> SubjectNode:
        """Forget all subjects; return the old root, which takes long to free."""
        root, self._root = self._root, SubjectNode()
        self.newest = None
        self.subjects = 0
        self._parent = self._found = None
        self._dots = {}
        return root

    def is_covered_by(self, pattern: bytes) -> bool:
        """Return True if every subject matches `pattern`, as far as the tokens before a wildcard tell."""
        node = self._root
        tokens = pattern.split(b".")
        for position, token in enumerate(tokens):
            if token == b">":
                return node.children is not None and not node.count
            if token == b"*":
                rest = tokens[position:]
                return rest == [token] * len(rest) and list(self._dots) == [len(tokens) - 1]
            if node.count or node.children is None or len(node.children) != 1 or token not in node.children:
                return False
            node = node.children[token]
        return not node.children

    def count_between(self, pattern: bytes, first: int, last: int, most: int) -> int:
        """Return the number of messages from `first` to `last` whose subject matches `pattern`.

        Returns -1 if a subject is only partly in that range, or after looking at more than `most` nodes.
        """
        tokens = pattern.split(b".")
        end = len(tokens) - 1
        open_end = tokens[end] == b">"
        self.looked_at = 0
        if not open_end and end not in self._dots:
            return 0  # no subject has so many tokens
        total = 0
        nodes = [self._root]
        depths = [0]  # of the children of each of these nodes
        while nodes:
            node = nodes.pop()
            depth = depths.pop()
            counts = depth >= end  # their subjects match
            below = depth < end or open_end  # those below them may
            wild = tokens[depth] == b"*" if depth < end or not open_end else True
            for child in _children(node, None if wild else tokens[depth], most - self.looked_at):
                self.looked_at += 1
                if counts and child.count and child.last >= first and child.first <= last:
                    if child.first < first or child.last > last:
                        return -1
                    total += child.count
                if below and child.children is not None:
                    nodes.append(child)
                    depths.append(depth + 1)
            if self.looked_at > most:
                return -1
        return total

    def match(self, pattern: bytes) -> Iterator[tuple[bytes, SubjectNode]]:
        """Yield every subject that matches `pattern` with its node, in no order.

        Not recursive: a subject may have 32,768 tokens.  Children are listed before they are visited, so
        messages may be added and removed between two steps; whether those are found is undefined.
        """
        tokens = pattern.split(b".")
        last = len(tokens) - 1
        open_end = tokens[last] == b">"
        if not open_end and last not in self._dots:
            return  # no subject has so many tokens
        path: list[bytes] = []  # tokens from the root to the node at hand
        levels = [_candidates(self._root, tokens, 0, open_end)]
        while levels:
            found = next(levels[-1], None)
            if found is None:
                levels.pop()
                if path:
                    path.pop()
                continue
            depth = len(path)
            path.append(found[0])
            node = found[1]
            if node.count and (depth == last or (open_end and depth > last)):
                yield b".".join(path), node
            if node.children is not None and (depth < last or open_end):
                levels.append(_candidates(node, tokens, depth + 1, open_end))
            else:
                path.pop()


def _candidates(
    node: SubjectNode, tokens: list[bytes], depth: int, open_end: bool
) -> Iterator[tuple[bytes, SubjectNode]]:
    """Yield the children of `node` that match the pattern's token at `depth`."""
    children = node.children
    if children is None:
        return iter(())
    last = len(tokens) - 1
    if open_end and depth >= last:
        return _listed(children, False)
    token = tokens[depth]
    if token == b"*":
        return _listed(children, depth < last)
    found = children.get(token)
    return iter(()) if found is None else iter(((token, found),))


def _branches(children: dict[bytes, SubjectNode]) -> list[bytes]:
    """Return the tokens of the children that have children: only these can match a longer pattern."""
    found: list[bytes] = []
    for token, child in children.items():
        if child.children is not None:
            found.append(token)
    return found


def _listed(
    children: dict[bytes, SubjectNode] | WideMap, only_branches: bool
) -> Iterator[tuple[bytes, SubjectNode]]:
    """Yield the children that still exist when their turn comes; with `only_branches` those with children.

    Only tokens are listed, of one part at a time: a million pairs would cost the garbage collector a second.
    """
    if isinstance(children, dict):
        for token in _branches(children) if only_branches else list(children):
            child = children.get(token)
            if child is not None:
                yield token, child
        return
    for part in range(children.parts()):
        for token in _branches(children.part(part)) if only_branches else children.list_keys(part):
            child = children.get(token)
            if child is not None:
                yield token, child


def _child(node: SubjectNode, token: bytes) -> SubjectNode | None:
    children = node.children
    if children is None:
        return None
    if isinstance(children, dict):
        small = children
        return small.get(token)
    wide: WideMap = children
    found: SubjectNode | None = wide.get(token)
    return found


def _children(node: SubjectNode, token: bytes | None, most: int) -> list[SubjectNode]:
    """Return the child for a token, or without a token all children; of very many only more than `most`."""
    if token is not None:
        only = _child(node, token)
        return [] if only is None else [only]
    if node.children is None:
        return []
    if isinstance(node.children, dict):
        return list(node.children.values())
    wide: WideMap = node.children
    found: list[SubjectNode] = []
    for part in range(wide.parts()):
        found += wide.list_values(part)
        if len(found) > most:
            break
    return found


def _put_child(node: SubjectNode, token: bytes, child: SubjectNode) -> None:
    """Add a child that does not exist yet."""
    children = node.children
    if children is None:
        node.children = {token: child}
        return
    if isinstance(children, dict):
        small = children
        if len(small) < _WIDE_AT:
            small[token] = child
            return
        wide = WideMap()
        untrack(wide)
        for each, other in small.items():
            wide.put(each, other)
        node.children = wide
    else:
        wide = children
    wide.put(token, child)


def _drop_child(node: SubjectNode, token: bytes) -> None:
    children = node.children
    if isinstance(children, dict):
        del children[token]
    else:
        assert children is not None
        children.remove(token)
    if not len(children):
        node.children = None


def freeing(root: SubjectNode) -> Pieces[None]:
    """Free a tree of subjects in pieces: a million of them at once would take a tenth of a second."""
    freed = 0
    trees = [root.children] if root.children else []
    root.children = None
    while trees:
        if len(trees[-1]):
            node = _take_child(trees[-1])
            if node.children:
                trees.append(node.children)
                node.children = None
        else:
            trees.pop()
        freed += 1
        if freed == _FREED_AT_ONCE:
            yield freed
            freed = 0


def _take_child(children: dict[bytes, SubjectNode] | WideMap) -> SubjectNode:
    """Remove any one of a node's children and return it."""
    if isinstance(children, dict):
        return children.popitem()[1]
    node: SubjectNode = children.take_one()
    return node
