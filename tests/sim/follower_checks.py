"""Promises of what follows a stream: mirrors, sourcing streams, restored copies and ordered readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.sim.history import Copy
from tests.sim.stream_checks import check_sound
from tests.sim.stream_view import StreamView, as_published, may_be_gone


def check_copy(view: StreamView, origin: StreamView, copy: Copy) -> Iterator[str]:
    """A restored stream has what its origin had when the snapshot was taken."""
    yield from check_sound(view)
    for stored in view.final.content:
        there = origin.content.get(stored.seq)
        if there is not None and there.uid != stored.uid:
            yield f"{stored.seq} is message {stored.uid}, and in the origin {there.uid}"
        if stored.uid not in origin.by_uid:
            yield f"{stored.seq} is message {stored.uid}, which nobody sent"
    lost = [
        each.seq
        for each in origin.acked
        if (each.answered_at or 0.0) < copy.at
        and (each.seq not in view.content or view.content[each.seq].uid != each.uid)
        and not may_be_gone(origin, each)
    ]
    if not view.costs_damage(lost):
        yield f"has no copy of {lost}"


def check_mirror(view: StreamView, origin: StreamView) -> Iterator[str]:
    missing = [stored.seq for stored in origin.final.content if stored.seq not in view.content]
    if not view.costs_damage(missing):
        yield f"has no copy of {missing}"
    for stored in origin.final.content:
        copy = view.content.get(stored.seq)
        if copy is not None and (copy.uid, copy.subject, copy.time) != (
            stored.uid,
            stored.subject,
            stored.time,
        ):
            yield f"its copy of {stored.seq} is message {copy.uid}, not {stored.uid}"
    for copy in view.final.content:
        if copy.seq not in origin.content and not origin.damages:
            sent = origin.by_uid.get(copy.uid)
            if not sent or not may_be_gone(origin, as_published(sent[0], copy.seq)):
                yield f"has {copy.seq} (message {copy.uid}), which the origin never had"


def check_sourcing(view: StreamView, origin: StreamView) -> Iterator[str]:
    for uid, stored_as in view.stored_as.items():
        if len(stored_as) > max(1, len(origin.by_uid.get(uid, []))):
            yield f"message {uid} is there {len(stored_as)} times"
    positions: list[int] = []
    for copy in view.final.content:
        words = copy.headers.get("Nats-Stream-Source", "").split(" ")
        if len(words) < 2:
            yield f"{copy.seq} does not say where it comes from"
            continue
        positions.append(int(words[1]))
        stored = origin.content.get(positions[-1])
        if stored is not None and stored.uid != copy.uid:
            yield f"{copy.seq} is message {copy.uid} from {positions[-1]}, which is message {stored.uid}"
    if positions != sorted(set(positions)):
        yield f"positions of the origin are not in order: {positions}"
    missing = [seq for seq in origin.content if seq not in set(positions)]
    if len(missing) > view.most_damaged:
        yield f"has no copy of {missing}"


def check_ordered(view: StreamView, seen: list[tuple[int, int]]) -> Iterator[str]:
    """An ordered reader sees every message once, in order."""
    for one, two in itertools.pairwise(seen):
        if two[0] <= one[0]:
            yield f"{two[0]} follows {one[0]}"
    for seq, uid in seen:
        stored = view.content.get(seq)
        if stored is not None and stored.uid != uid:
            yield f"{seq} was message {uid} and is message {stored.uid}"
    last = seen[-1][0] if seen else 0
    missing = sorted({seq for seq in view.content if seq <= last} - {seq for seq, _ in seen})
    if missing:
        yield f"misses {missing}"
    if not view.removals and view.content and last < max(view.content):
        yield f"ends at {last}, and the stream at {max(view.content)}"
