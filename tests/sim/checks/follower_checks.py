"""Promises of what follows a stream: mirrors, sourcing streams, restored copies and ordered readers."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.sim.checks.state_checks import check_sound
from tests.sim.checks.stream_view import StreamView, as_published, may_be_gone
from tests.sim.history import Copy, Stored


def check_copy(view: StreamView, origin: StreamView, copy: Copy) -> Iterator[str]:
    """A restored stream has what its origin had when the snapshot was taken."""
    yield from check_sound(view)
    for stored in view.own:
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
    last = max((each.seq for each in origin.acked if (each.answered_at or copy.at) < copy.at), default=0)
    if view.final.state["last_seq"] < last and last not in origin.excused:
        yield f"the last sequence is {view.final.state['last_seq']}, and {last} was acknowledged before"
    for each in origin.acked:
        stored = view.content.get(each.seq)
        if stored is not None and stored.uid == each.uid and origin.must_be_removed(each, copy.at):
            yield f"has a copy of {each.seq}, which was removed before"
    if not origin.damages:
        yield from _check_copied_consumers(view, copy)


def _check_copied_consumers(view: StreamView, copy: Copy) -> Iterator[str]:
    """A restored consumer has open what was not acknowledged when the snapshot was taken."""
    for look in view.history.looks:
        if look.stream != copy.name:
            continue
        if "error" in look.info:
            yield f"the consumer {look.consumer} is not restored: {look.info['error']}"
            continue
        acks = [
            each
            for each in view.history.acks
            if (each.stream, each.consumer) == (copy.of, look.consumer) and each.kind in ("+ACK", "+TERM")
        ]
        maybe = {each.seq for each in acks if each.at <= copy.taken_at}
        surely = {each.seq for each in acks if each.confirmed_at is not None and each.confirmed_at < copy.at}
        there = set(view.content)
        left = look.info["num_pending"] + look.info["num_ack_pending"]
        if not len(there - maybe) <= left <= len(there - surely):
            yield f"{look.consumer} has {left} messages open of {there}, and {surely} were acknowledged"
        if look.info["ack_floor"].get("stream_seq", 0) >= min(there - maybe, default=1 << 62):
            yield f"{look.consumer} has the floor {look.info['ack_floor']}, and {maybe} were acknowledged"


def check_follower(view: StreamView, origins: dict[str, StreamView]) -> Iterator[str]:
    """A mirror, or a stream with sources, has what its origins have."""
    mirror = view.config.get("mirror")
    if mirror is None:
        for source in _sources(view):
            yield from _check_source(view, source, origins[source["name"]])
        yield from _check_headers(view)
    elif len(view.configs) > 1:
        yield from _check_promoted(view, origins["S"])
    else:
        yield from _check_mirror(view, origins["S"], mirror)


def _target(source: dict[str, Any], stored: Stored) -> str:
    """Return the subject that a follower gives a message; empty if it does not get it."""
    if stored.seq < source.get("opt_start_seq", 0):
        return ""
    if source.get("filter_subject", stored.subject) != stored.subject:
        return ""
    transforms = source.get("subject_transforms", [])
    for each in transforms:
        head, _, tail = each["src"].rpartition(".")
        own, _, last = stored.subject.rpartition(".")
        if head == own and tail in ("*", last):
            return str(each["dest"].replace("{{wildcard(1)}}", last))
    return "" if transforms else stored.subject


def _check_mirror(view: StreamView, origin: StreamView, mirror: dict[str, Any]) -> Iterator[str]:
    wanted = {each.seq: (each, _target(mirror, each)) for each in origin.final.content}
    missing = [seq for seq, (_, subject) in wanted.items() if subject and seq not in view.content]
    if not view.costs_damage(missing):
        yield f"has no copy of {missing}"
    for stored, subject in wanted.values():
        copy = view.content.get(stored.seq)
        if copy is not None and not _is_copy(copy, stored, subject):
            yield f"its copy of {stored.seq} is message {copy}, not {stored}"
    for copy in view.final.content:
        if copy.seq not in origin.content and not origin.damages:
            sent = origin.by_uid.get(copy.uid)
            if not sent or not may_be_gone(origin, as_published(sent[0], copy.seq)):
                yield f"has {copy.seq} (message {copy.uid}), which the origin never had"


def _is_copy(copy: Stored, stored: Stored, subject: str) -> bool:
    return (copy.uid, copy.subject, copy.time, copy.size, copy.headers) == (
        stored.uid,
        subject,
        stored.time,
        stored.size,
        _kept_headers(stored),
    )


def _kept_headers(stored: Stored) -> dict[str, str]:
    """Return the headers that a copy has; those for the origin alone are left out."""
    return {key: value for key, value in stored.headers.items() if not key.startswith(_OF_ORIGIN)}


_OF_ORIGIN = ("Nats-Expected-", "Nats-Batch-")


def _check_promoted(view: StreamView, origin: StreamView) -> Iterator[str]:
    """A mirror that became a stream of its own keeps its copies, without gaps, and gets no more."""
    copies = [each for each in view.final.content if each.uid in origin.by_uid]
    last = copies[-1].seq if copies else 0
    for copy in copies:
        stored = origin.content.get(copy.seq)
        if stored is not None and not _is_copy(copy, stored, stored.subject):
            yield f"its copy of {copy.seq} is message {copy}, not {stored}"
    there = {each.seq for each in copies}
    missing = [seq for seq in origin.content if seq < last and seq not in there]
    if not view.costs_damage(missing):
        yield f"has no copy of {missing}"
    if any(each.happened for each in view.updates):
        for each in view.own:
            if each.seq < last:
                yield f"{each.seq} was published to it, and {last} is a copy"
    for each in view.final.content:
        if each.uid not in origin.by_uid and each.uid not in view.by_uid:
            yield f"has {each.seq} (message {each.uid}), which nobody sent"


def _sources(view: StreamView) -> list[dict[str, Any]]:
    """Return the sources that the stream has in the end."""
    found: list[dict[str, Any]] = view.final.config.get("sources") or view.config["sources"]
    return found


_OWN_HEADER = "Nats-Stream-Source"


def _place(copy: Stored) -> tuple[str, int, str, str]:
    """Return where a message comes from: stream, sequence, filter, and what it is renamed to."""
    words = copy.headers.get(_OWN_HEADER, "").split(" ")
    if len(words) < 4:
        return "", 0, "", ""
    return words[0], int(words[1]), words[2], words[3]


def _key(source: dict[str, Any]) -> tuple[str, str, str]:
    transforms = source.get("subject_transforms", [])
    if transforms:
        return (
            source["name"],
            "\f".join(each["src"] for each in transforms),
            "\f".join(each["dest"] for each in transforms),
        )
    return source["name"], source.get("filter_subject") or ">", ">"


def _check_headers(view: StreamView) -> Iterator[str]:
    keys = {_key(source) for config in view.configs for source in config["sources"]}
    for copy in view.final.content:
        name, _, wanted, target = _place(copy)
        if not name and copy.uid not in view.by_uid:
            yield f"{copy.seq} does not say where it comes from"
        elif name and (name, wanted, target) not in keys:
            yield f"{copy.seq} comes from {name} {wanted} {target}"


def _check_renewed(view: StreamView, origin: StreamView) -> Iterator[str]:
    """A source that was deleted and created again begins again, and nothing is copied twice."""
    for uid, stored_as in view.stored_as.items():
        if len(stored_as) > max(1, len(origin.by_uid.get(uid, []))):
            yield f"message {uid} is there {len(stored_as)} times"
    missing = [each.seq for each in origin.final.content if each.uid not in view.stored_as]
    if len(missing) > view.most_damaged:
        yield f"has no copy of {missing} of {origin.name}, which is a new stream"


def _check_source(view: StreamView, source: dict[str, Any], origin: StreamView) -> Iterator[str]:
    if origin.deaths:
        yield from _check_renewed(view, origin)
        return
    copies = {}
    positions: list[int] = []
    for copy in view.final.content:
        name, seq, wanted, target = _place(copy)
        if (name, wanted, target) == _key(source):
            copies[seq] = copy
            positions.append(seq)
    if positions != sorted(set(positions)):
        yield f"positions of {_key(source)} are not in order: {positions}"
    for uid, count in Counter(each.uid for each in copies.values()).items():
        if count > max(1, len(origin.by_uid.get(uid, []))):
            yield f"message {uid} is there {count} times"
    for seq, copy in copies.items():
        stored = origin.content.get(seq)
        if stored is None:
            continue
        headers = {key: value for key, value in copy.headers.items() if key != _OWN_HEADER}
        subject = _target(source, stored)
        if (copy.uid, copy.subject, copy.size, headers) != (
            stored.uid,
            subject,
            stored.size,
            _kept_headers(stored),
        ):
            yield f"{copy.seq} is {copy} from {seq}, which is {stored}"
    if not view.damages:  # otherwise it may begin again where it was
        yield from _read_once(view, source)
    if not view.plain:
        yield from _drained(view, origin)
        return
    if view.removals:
        return
    last = max(positions, default=0) if view.most else 0  # others may have been displaced
    missing = [
        stored.seq
        for stored in origin.final.content
        if _target(source, stored) and stored.seq not in copies and stored.seq > last
    ]
    others = [each for each in view.final.content if _key_of(each) != _key(source)]
    if view.most and len(others) >= view.most:
        return
    if len(missing) > view.most_damaged:
        yield f"has no copy of {missing} of {_key(source)}"


def _key_of(copy: Stored) -> tuple[str, str, str]:
    name, _, wanted, target = _place(copy)
    return name, wanted, target


def _read_once(view: StreamView, source: dict[str, Any]) -> Iterator[str]:
    """A message of the origin is copied once, also if the first copy is gone."""
    seen: dict[int, int] = {}
    found = [each.found for each in view.readings if each.found is not None]
    for copy in [*found, *view.final.content]:
        if _key_of(copy) == _key(source):
            first = seen.setdefault(_place(copy)[1], copy.seq)
            if first != copy.seq:
                yield f"{_place(copy)[1]} of {source['name']} was copied as {first}, and as {copy.seq} again"


def _drained(view: StreamView, origin: StreamView) -> Iterator[str]:
    """A consumer gets each message of the origin under one sequence; what it got may be gone."""
    delivered: dict[int, set[int]] = defaultdict(set)
    for each in view.deliveries:
        delivered[each.uid].add(each.seq)
    for uid, seqs in delivered.items():
        if len(seqs) > max(1, len(origin.by_uid.get(uid, []))):
            yield f"message {uid} was copied as {sorted(seqs)}"
    if view.damages or origin.damages or view.removals or origin.removals:
        return
    wanted = {
        each.config.get("filter_subject", ">") for each in view.plan.consumers if each.stream == view.name
    }
    missing = [
        each.seq
        for each in origin.final.content
        if each.uid not in delivered and (">" in wanted or each.subject in wanted)
    ]
    if missing:
        yield f"{missing} were never delivered"


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
