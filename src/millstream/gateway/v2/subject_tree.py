"""One level of the tree of a stream's subjects: the tokens after a prefix, with counts of what is below.

Servers list subjects with their counts, 100,000 at a time, without a tree, so a level is added up here.  With
more messages below the prefix, a list of all subjects would take a server seconds: the answer then comes from
the first few thousand messages, and is marked as incomplete.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from millstream.buckets.pages import read_page
from millstream.gateway.link import CallerLink
from millstream.gateway.v2.names import check_filter, check_subject
from millstream.link.stored import Stored

MOST_SUBJECTS: Final = 100_000
_SAMPLE: Final = 2_000  # messages
_AT_ONCE: Final = 5_000  # subjects before other tasks may run


class TreeNode(msgspec.Struct):
    """A token, with the messages of its own subject and of all below it."""

    token: str
    subject: str
    messages: int = 0
    children: int = 0  # subjects below it


class TreeLevel(msgspec.Struct):
    """A level of the tree; `total` is its number of tokens."""

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
    sample = await _sample(link, stream, pattern)
    if sample is not None:
        for stored in sample:
            _add(nodes, stored.subject, 1, skipped, depth)
    else:
        await _add_all(link, stream, pattern, nodes, skipped, depth)
    ordered = sorted(nodes.values(), key=lambda node: (-node.messages, node.subject))
    return TreeLevel(ordered[:limit], len(ordered), sample is None)


async def _sample(link: CallerLink, stream: str, pattern: str) -> list[Stored] | None:
    """Return some messages of a stream that has too many subjects to list; None if all can be listed."""
    told = await link.api(f"STREAM.INFO.{stream}")
    if int(told["state"].get("num_subjects") or 0) <= MOST_SUBJECTS:
        return None
    if told["config"].get("retention") != "limits":
        return None  # on a stream with interest or work-queue retention, a consumer would affect the messages
    first = await read_page(link, stream, pattern, start=1, limit=1, headers_only=True)
    if len(first.messages) + first.pending <= MOST_SUBJECTS:
        return None  # a list of these is cheap, and messages of few subjects may lie far apart
    return (await read_page(link, stream, pattern, start=1, limit=_SAMPLE, headers_only=True)).messages


async def _add_all(
    link: CallerLink, stream: str, pattern: str, nodes: dict[str, TreeNode], skipped: int, depth: int
) -> None:
    offset = seen = 0
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
        if not subjects or offset >= int(told.get("total") or 0):
            return


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
