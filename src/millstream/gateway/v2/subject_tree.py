"""One level of the tree that the subjects of a stream make: tokens behind a prefix, with what is below.

Servers list subjects with their counts, 100,000 at a time, and know nothing of trees.  A level is added up
here, from at most `MOST_SUBJECTS` of them: beyond that the answer says that it is not complete.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from millstream.gateway.link import CallerLink
from millstream.gateway.v2.names import check_filter, check_subject

MOST_SUBJECTS: Final = 300_000
_AT_ONCE: Final = 5_000  # subjects between two turns of the others


class TreeNode(msgspec.Struct):
    """A token, with the messages of its own subject and of all below it."""

    token: str
    subject: str
    messages: int = 0
    children: int = 0  # subjects below it


class TreeLevel(msgspec.Struct):
    """A level of the tree; `total` is how many tokens it has."""

    subjects: list[TreeNode]
    total: int
    complete: bool = True


async def tree_level(link: CallerLink, stream: str, prefix: str, depth: int, limit: int) -> TreeLevel:
    """Return the `depth` tokens that follow `prefix`, those with most messages first."""
    if prefix:
        check_subject(prefix)
    pattern = check_filter(f"{prefix}.>" if prefix else ">")
    skipped = prefix.count(".") + 1 if prefix else 0
    nodes: dict[str, TreeNode] = {}
    seen = offset = 0
    complete = True
    while True:
        request: dict[str, Any] = {"subjects_filter": pattern, "offset": offset}
        told = await link.api(f"STREAM.INFO.{stream}", request)
        subjects: dict[str, int] = told["state"].get("subjects") or {}
        for subject, count in subjects.items():
            _add(nodes, subject, count, skipped, depth)
            seen += 1
            if seen % _AT_ONCE == 0:
                await asyncio.sleep(0)
        offset += len(subjects)
        total = int(told.get("total") or 0)
        if not subjects or offset >= total:
            break
        if offset >= MOST_SUBJECTS:
            complete = False
            break
    ordered = sorted(nodes.values(), key=lambda node: (-node.messages, node.subject))
    return TreeLevel(ordered[:limit], len(ordered), complete)


def _add(nodes: dict[str, TreeNode], subject: str, count: int, skipped: int, depth: int) -> None:
    tokens = subject.split(".", skipped + depth)
    shown = tokens[skipped : skipped + depth]
    token = ".".join(shown)
    node = nodes.get(token)
    if node is None:
        node = nodes[token] = TreeNode(token, ".".join(tokens[: skipped + len(shown)]))
    node.messages += count
    if len(tokens) > skipped + depth:
        node.children += 1
