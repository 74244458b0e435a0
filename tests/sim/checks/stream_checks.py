"""Promises of a stream that clients fill: what was acknowledged is there once, in order, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.sim.checks.expectation_checks import check_expectations
from tests.sim.checks.letters import STREAM as LETTERS
from tests.sim.checks.limit_checks import check_limits
from tests.sim.checks.reading_checks import check_readings
from tests.sim.checks.state_checks import check_sound
from tests.sim.checks.stream_view import (
    LATE_S,
    UNCERTAIN,
    StreamView,
    as_published,
    code,
    covers,
    is_certain,
    life_s,
    may_be_gone,
    seconds,
)
from tests.sim.history import Publish
from tests.sim.machine.loop import START_NS
from tests.sim.plans.plan import SECOND_NS


def check_stream(view: StreamView) -> Iterator[str]:
    yield from check_sound(view)
    yield from check_limits(view)
    if view.name == LETTERS or (view.follows and not any("subjects" in each for each in view.configs)):
        return
    if view.config.get("allow_msg_counter"):
        yield from _counters(view)
        return
    if view.name == "P":
        yield from _schedules(view)
        return
    yield from _damage(view)
    if view.name == "D" or view.deaths:
        yield from _incarnations(view)
        return
    yield from _ages(view)
    yield from _unchanged(view)
    yield from check_readings(view)
    yield from _fast(view)
    yield from _kept(view)
    yield from _once(view)
    yield from _one_meaning(view)
    yield from _in_order(view)
    yield from check_expectations(view)
    yield from _whole_batches(view)


def _kept(view: StreamView) -> Iterator[str]:
    """Nothing acknowledged is lost, and nothing removed comes back."""
    last = view.final.state["last_seq"]
    for each in view.acked:
        if each.seq > last:
            yield f"message {each.uid} was acknowledged as {each.seq}, and the last sequence is {last}"
        stored = view.content.get(each.seq)
        if stored is not None and stored.uid != each.uid:
            yield f"message {each.uid} was acknowledged as {each.seq}, which is message {stored.uid}"
        if stored is not None and view.must_be_removed(each) and not view.damages:
            yield f"message {each.uid} ({each.seq}) was removed and is there again"
        if stored is None and view.plain and not may_be_gone(view, each):
            yield f"message {each.uid} was acknowledged as {each.seq} and is lost"
    for uid, stored_as in view.stored_as.items():
        sent = view.by_uid.get(uid, [])
        if not any(each.sent for each in sent):
            yield f"message {uid} was stored, and nobody sent it"
        elif any(stored.subject != sent[0].subject for stored in stored_as):
            yield f"message {uid} is stored under another subject"
        elif all(each.refused and is_certain(each) for each in sent) and not sent[0].batch:
            yield f"message {uid} was refused and is stored: {sent[0].answer}"


def _once(view: StreamView) -> Iterator[str]:
    """Nothing is stored twice within the duplicate window, and nothing more often than it was sent."""
    for uid, stored_as in view.stored_as.items():
        sent = view.by_uid.get(uid, [])
        if len(stored_as) > len(sent):
            yield f"message {uid} was sent {len(sent)} times and is stored {len(stored_as)} times"
        if sent and sent[0].msg_id and not view.history.clock_set:
            for one, two in itertools.pairwise(stored_as):
                began, end = (seconds(each.time) - START_NS / SECOND_NS for each in (one, two))
                if end - began < min(_windows_s(view, began, end)):
                    yield f"message {uid} is stored twice within the window: {one.seq} and {two.seq}"
    for each in view.publishes:
        if each.seq and each.duplicate:
            stored = view.content.get(each.seq)
            if stored is not None and not view.history.clock_set:
                age = each.at - (seconds(stored.time) - START_NS / SECOND_NS)
                longest_s = max(_windows_s(view, each.at, each.answered_at or each.at))
                if age > 2 * longest_s + LATE_S / 2:
                    yield f"message {each.uid} is called a duplicate of {each.seq}, {age:.1f} s later"
            if stored is not None and stored.uid != each.uid:
                yield f"message {each.uid} is called a duplicate of {each.seq}, which is message {stored.uid}"
            first = as_published(view.by_uid[each.uid][0], each.seq)
            if stored is None and view.plain and not may_be_gone(view, first):
                yield f"message {each.uid} is called a duplicate of {each.seq}, which is lost"


def _windows_s(view: StreamView, since: float, until: float) -> list[float]:
    """Return the duplicate windows that may have ruled, in seconds."""
    windows = [config.get("duplicate_window", 120 * SECOND_NS) for config in view.ruling(since, until)]
    return [each / SECOND_NS for each in windows]


def _one_meaning(view: StreamView) -> Iterator[str]:
    """A sequence means one message, whoever is told of it."""
    meaning: dict[int, int] = {each.seq: each.uid for each in view.final.content}
    for seq, uid, who in _tellings(view):
        known = meaning.setdefault(seq, uid)
        if known != uid:
            yield f"sequence {seq} is message {known}, and {who} was told of message {uid}"
    last = view.final.state["last_seq"]
    told = max((each.seq for each in view.deliveries), default=0)
    if told > last:
        yield f"sequence {told} was delivered, and the last sequence is {last}"
    for each in view.deliveries:
        if view.plain and each.seq not in view.content:
            sent = view.by_uid.get(each.uid)
            if not sent:
                yield f"message {each.uid} was delivered, and nobody sent it"
            elif not may_be_gone(view, as_published(sent[0], each.seq)):
                yield f"message {each.uid} was delivered as {each.seq} and is lost"


def _tellings(view: StreamView) -> Iterator[tuple[int, int, str]]:
    for each in view.publishes:
        if each.seq and not each.duplicate:
            yield each.seq, each.uid, each.actor
    for delivery in view.deliveries:
        yield delivery.seq, delivery.uid, delivery.actor
    for reading in view.readings:
        if reading.found is not None and reading.found.uid:
            yield reading.found.seq, reading.found.uid, "a reader"


def _in_order(view: StreamView) -> Iterator[str]:
    """A message that was sent after the ack of another follows it; so do messages of one connection."""
    latest: dict[tuple[str, int], Publish] = {}
    for each in view.acked:
        if each.batch:
            continue
        before = latest.get((each.actor, each.connection))
        if before is not None and before.seq >= each.seq:
            yield f"{before.uid} was sent before {each.uid} and has {before.seq}, not below {each.seq}"
        latest[each.actor, each.connection] = each
    ended = sorted((each for each in view.acked), key=lambda each: each.answered_at or 0.0)
    highest, done = 0, 0
    for each in sorted(view.acked, key=lambda each: each.at):
        while done < len(ended) and (ended[done].answered_at or 0.0) < each.at:
            highest = max(highest, ended[done].seq)
            done += 1
        if each.seq <= highest:
            yield f"{each.uid} has sequence {each.seq}, and {highest} was acknowledged before it was sent"


def _unchanged(view: StreamView) -> Iterator[str]:
    """Check that a message has the payload and the headers that were sent."""
    for uid, stored_as in view.stored_as.items():
        sent = view.by_uid.get(uid, [])
        for stored in stored_as:
            if not sent or stored.size == -1:
                continue
            sizes = {len(str(uid)) + 1 + each.size for each in sent if each.size >= 0}
            if sizes and stored.size not in sizes:
                yield f"message {uid} ({stored.seq}) has {stored.size} bytes, not {sizes}"
            had = {key: value for key, value in stored.headers.items() if not key.startswith(_REMOVED)}
            if not any(had == _kept_headers(each) for each in sent):
                yield f"message {uid} ({stored.seq}) has the headers {had}, and {sent[0].headers} were sent"


_REMOVED = ("Nats-TTL", "Nats-Schedule")  # the server may write another one


def _kept_headers(publish: Publish) -> dict[str, str]:
    return {key: value for key, value in publish.headers.items() if not key.startswith(_REMOVED)}


def _whole_batches(view: StreamView) -> Iterator[str]:
    """A batch is stored as a whole, or not at all."""
    for each in view.batches:
        found = [view.stored_as[uid][0].seq for uid in each.uids if view.stored_as.get(uid)]
        acked = each.answer is not None and "error" not in each.answer
        at = each.at
        if view.damages and len(found) >= len(each.uids) - view.most_damaged:
            continue
        subject = view.by_uid[each.uids[0]][0].subject if each.uids else ""
        if any(view.may_be_removed(seq, subject, at) for seq in found) or (
            view.removals and len(found) != len(each.uids)
        ):
            continue
        if acked and len(found) != len(each.uids):
            yield f"batch {each.name} was acknowledged, and {len(found)} of {len(each.uids)} are there"
        elif found and len(found) != len(each.uids):
            yield f"of batch {each.name}, {len(found)} of {len(each.uids)} messages are stored"
        elif found and found != list(range(found[0], found[0] + len(found))):
            yield f"batch {each.name} is stored as {found}"
        elif found and acked and each.answer is not None and each.answer["seq"] != found[-1]:
            yield f"batch {each.name} is stored as {found}, and its ack says {each.answer['seq']}"
        elif found and not acked and each.answer is not None and code(each) not in UNCERTAIN:
            yield f"batch {each.name} was refused and is stored: {each.answer}"


def _damage(view: StreamView) -> Iterator[str]:
    """A damaged byte costs one message at most, and it is reported."""
    if not view.costs_damage(view.excused):
        yield f"{sorted(view.excused)} are lost, and {len(view.damages)} bytes were damaged"
    told = [rot.path.rpartition(".")[0] for rot in view.damages]
    if view.excused and not any(path in line for path in told for line in view.history.reported):
        yield f"{sorted(view.excused)} are lost by damage that was not reported"


def _ages(view: StreamView) -> Iterator[str]:
    """Check that no message is older than its limit; ``_kept`` checks that it was there until then."""
    for stored in view.own:
        sent = view.by_uid.get(stored.uid)
        _, most = life_s(view, sent[0]) if sent else (0, 0)
        old = view.history.read_at_ns / SECOND_NS - seconds(stored.time)
        if most and old > most + LATE_S and not view.history.clock_set:
            yield f"{stored.seq} is {old:.1f} s old, and may be {most} s old"


def _fast(view: StreamView) -> Iterator[str]:
    """Check that messages which fast ingest told as stored are there, in their order."""
    for each in view.history.fast:
        if each.stream != view.name:
            continue
        stored_as = [view.stored_as[uid][0].seq for uid in each.uids if view.stored_as.get(uid)]
        if stored_as != sorted(stored_as):
            yield f"fast batch {each.name} is stored as {stored_as}"
        if each.stored > len(each.uids):
            yield f"of fast batch {each.name}, {each.stored} of {len(each.uids)} are told as stored"
        lost = [uid for uid in each.uids[: each.stored] if not view.stored_as.get(uid)]
        first = view.by_uid[each.uids[0]][0]
        if any(covers(removal, 0, first.subject, each.at) for removal in view.removals) or view.removals:
            continue
        if len(lost) > view.most_damaged:
            yield f"of fast batch {each.name}, {each.stored} are told as stored, and {lost} are lost"


def _counters(view: StreamView) -> Iterator[str]:
    """Check that acknowledged increments count once, and that others count once or not at all."""
    values = {each.seq: (each.subject, int(each.answer["val"]), each) for each in view.acked if each.answer}
    for seq, (_, value, each) in values.items():
        stored = view.content.get(seq)
        if stored is None and not view.damages:
            yield f"increment {each.uid} was acknowledged as {seq} and is lost"
        elif stored is not None and stored.uid != value:
            yield f"{seq} has the value {stored.uid}, and {value} was acknowledged"
    for subject in {each.subject for each in view.publishes}:
        told = sorted(
            (seq, value, each.increment) for seq, (on, value, each) in values.items() if on == subject
        )
        for (one, before, _), (two, after, by) in itertools.pairwise(told):
            if after < before + by and not view.damages:
                yield f"{two} adds {by} to {subject} and has {after}, and {one} has {before}"
        sent = sum(each.increment for each in view.publishes if each.subject == subject)
        last = max((each.uid for each in view.final.content if each.subject == subject), default=0)
        acked = sum(by for _, _, by in told)
        if not (acked <= last <= sent) and not view.damages:
            yield f"{subject} is {last}: {acked} was acknowledged, and {sent} was sent"


def _schedules(view: StreamView) -> Iterator[str]:
    """Check that what was scheduled and acknowledged is published when it is due."""
    for each in view.acked:
        published = any(stored.subject != each.subject for stored in view.stored_as.get(each.uid, []))
        if each.due + LATE_S < view.read_at and not (published or view.damages or view.history.clock_set):
            yield f"message {each.uid} was due at {each.due:.1f} and is not published"


def _incarnations(view: StreamView) -> Iterator[str]:
    """A deleted stream is gone with its messages, and the next one of its name keeps its own."""
    for each in view.acked:
        stored = view.content.get(each.seq)
        is_there = stored is not None and stored.uid == each.uid
        must_be_gone = any(
            death.deleted_at is not None and (each.answered_at or 0.0) < death.at for death in view.deaths
        )
        if not is_there and not view.may_have_died(each.at) and not view.damages:
            yield f"message {each.uid} was acknowledged as {each.seq} and is lost"
        if is_there and must_be_gone:
            yield f"message {each.uid} ({each.seq}) is there, and its stream was deleted"
    for uid, stored_as in view.stored_as.items():
        if len(stored_as) > len(view.by_uid.get(uid, [])):
            yield f"message {uid} is there {len(stored_as)} times"
