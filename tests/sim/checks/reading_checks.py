"""Promises of reads: what was acknowledged is found, and what was removed is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.sim.checks.stream_view import StreamView, covers, may_be_gone
from tests.sim.history import Reading, StateLook


def check_readings(view: StreamView) -> Iterator[str]:
    for each in view.readings:
        if not (each.direct and view.mirrored):
            yield from _found(view, each)
            yield from _missed(view, each)
            yield from _removed(view, each)
    yield from _states(view)
    yield from _copies(view)


def _found(view: StreamView, reading: Reading) -> Iterator[str]:
    """Check that somebody sent the message, and that it is the one that was asked for."""
    found = reading.found
    if found is None:
        return
    words = f"{reading.how} {reading.subject or reading.seq} gives {found.seq}"
    sent = view.by_uid.get(found.uid)
    if "Nats-Marker-Reason" in found.headers or (view.follows and not sent):
        return
    if not sent or sent[0].at > reading.answered_at:
        yield f"{words}: message {found.uid}, which nobody sent"
        return
    if found.subject != sent[0].subject:
        yield f"{words}, whose subject is {found.subject}, not {sent[0].subject}"
    if reading.subject and not _matches(reading.subject, found.subject):
        yield f"{words}, which is of {found.subject}"
    if (reading.how == "seq" and found.seq != reading.seq) or (
        reading.how == "next" and found.seq < reading.seq
    ):
        yield f"{words}, not from {reading.seq} on"
    sizes = {len(str(found.uid)) + 1 + each.size for each in sent if each.size >= 0}
    if found.size >= 0 and sizes and found.size not in sizes:
        yield f"{words} with {found.size} bytes"


def _removed(view: StreamView, reading: Reading) -> Iterator[str]:
    """Check that no message is read that was removed before."""
    found = reading.found
    for publish in view.by_uid.get(found.uid, []) if found is not None else ():
        assert found is not None
        if publish.seq == found.seq and any(
            removal.happened
            and publish.answered_at is not None
            and publish.answered_at < removal.at
            and (removal.answered_at or 0.0) < reading.at
            and not removal.request.get("keep")
            and covers(removal, found.seq, publish.subject, publish.at)
            for removal in view.removals
        ):
            yield f"{reading.how} gives {found.seq}, which was removed before"


def _matches(pattern: str, subject: str) -> bool:
    if pattern == ">":
        return True
    ones, twos = pattern.split("."), subject.split(".")
    return len(ones) == len(twos) and all(one in ("*", two) for one, two in zip(ones, twos, strict=True))


def _missed(view: StreamView, reading: Reading) -> Iterator[str]:
    """Check that a message is found that was acknowledged before, unless it may be gone."""
    if not view.plain:
        return
    seq = reading.found.seq if reading.found is not None else 0
    for each in view.acked:
        if each.answered_at is None or each.answered_at >= reading.at:
            continue
        if reading.how == "last":
            missed = each.seq > seq and _matches(reading.subject, each.subject)
        elif reading.how == "next":
            missed = (
                reading.seq <= each.seq
                and (not seq or each.seq < seq)
                and _matches(reading.subject, each.subject)
            )
        else:
            missed = each.seq == reading.seq and not seq
        if not missed or _is_unreadable(view, reading):
            continue
        last = reading.how == "last"
        # A removal that the disk refuses hides a message, which a power cut brings back.
        stays = each.seq in view.content and not view.may_be_removed(each.seq, each.subject, each.at)
        if stays or not may_be_gone(view, each, reading.answered_at, last=last):
            told = f"{reading.how} {reading.subject or reading.seq} gives {seq or 'nothing'}"
            yield f"{told}, and {each.seq} was acknowledged"
            return


def _is_unreadable(view: StreamView, reading: Reading | StateLook) -> bool:
    """Return True if the disk may not have been readable, or was damaged; then nothing is found."""
    return bool(view.damages) or any(
        fault.kind == "unreadable" and fault.at <= reading.answered_at and reading.at <= fault.at + 20.0
        for fault in view.plan.faults
    )


def _states(view: StreamView) -> Iterator[str]:
    """The state has what was acknowledged before, and does not go back."""
    looks = [each for each in view.history.states if each.stream == view.name]
    for look in looks:
        last = max((each.seq for each in view.acked if (each.answered_at or look.at) < look.at), default=0)
        if look.state["last_seq"] < last and last not in view.excused:
            yield f"the last sequence is {look.state['last_seq']}, and {last} was acknowledged before"
        sent = sum(each.at <= look.answered_at for each in view.publishes)
        if look.state["messages"] > sent and not (view.follows or view.least("subject_delete_marker_ttl")):
            yield f"the state counts {look.state['messages']} messages, and {sent} were sent"
        first = view.content.get(look.state["first_seq"]) if look.state["messages"] else None
        if any(look.at < end for end in view.history.ends) or _is_unreadable(view, look):
            first = None  # it may be another message, that was lost, or its time cannot be read
        if first is not None and look.state.get("first_ts", first.time) != first.time:
            yield f"the first time is {look.state['first_ts']}, and {first.seq} is of {first.time}"
        size = look.state["last_seq"] - look.state["first_seq"] + 1
        if look.state["messages"] and look.state["messages"] + look.state.get("num_deleted", 0) != size:
            yield f"the state does not add up: {look.state}"
    for one, two in itertools.pairwise(sorted(looks, key=lambda each: each.at)):
        if one.answered_at < two.at and not any(
            one.at <= end <= two.answered_at for end in view.history.ends
        ):
            for key in ("last_seq", "first_seq"):
                if two.state[key] < one.state[key]:
                    yield f"{key} goes from {one.state[key]} back to {two.state[key]}"


def _copies(view: StreamView) -> Iterator[str]:
    """Check that republished messages are those that are stored."""
    for each in view.history.republished:
        if each.stream != view.name:
            continue
        sent = view.by_uid.get(each.uid)
        if not sent or sent[0].subject != each.subject:
            yield f"message {each.uid} is republished as {each.subject}"
        elif any(other.uid == each.uid and other.seq != each.seq for other in view.acked):
            yield f"message {each.uid} is republished as {each.seq}, and was acknowledged as another"
