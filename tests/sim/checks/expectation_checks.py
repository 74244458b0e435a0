"""Promises of expectations: a message is stored if what it expects is true, and only then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.sim.checks.stream_view import (
    StreamView,
    as_published,
    is_certain,
    may_be_gone,
    may_be_too_old,
)
from tests.sim.history import Publish
from tests.sim.plans.plan import SECOND_NS

WRONG_LAST, WRONG_LAST_ID = 10071, 10070


def check_expectations(view: StreamView) -> Iterator[str]:
    known = _known(view)
    yield from _accepted(view, known)
    yield from _refused(view, known)
    yield from _ids(view, known)


def _known(view: StreamView) -> dict[int, tuple[str, float]]:
    """Return subjects of sequences, and when their messages were sent."""
    known: dict[int, tuple[str, float]] = {}
    for each in [*view.acked, *_of_batches(view)]:
        known[each.seq] = (each.subject, each.at)
    for stored in view.final.content:
        sent = view.by_uid.get(stored.uid)
        known.setdefault(stored.seq, (stored.subject, sent[0].at if sent else 0.0))
    return known


def _of_batches(view: StreamView) -> Iterator[Publish]:
    """Yield the messages of acknowledged batches, with their sequences."""
    for batch in view.batches:
        if batch.answer is not None and "error" not in batch.answer:
            first = int(batch.answer["seq"]) - len(batch.uids) + 1
            for number, uid in enumerate(batch.uids):
                sent = view.by_uid[uid][0]
                found = as_published(sent, first + number)
                found.answered_at = batch.answered_at
                found.expected, found.expects = sent.expected, sent.expects
                yield found


def _accepted(view: StreamView, known: dict[int, tuple[str, float]]) -> Iterator[str]:
    """An expected last sequence was the last one when the message was stored."""
    between: dict[int, str] = {}
    for each in [*view.acked, *_of_batches(view)]:
        if each.expected is None:
            continue
        of_subject = sorted(seq for seq, (subject, _) in known.items() if subject == each.subject)
        most = view.config.get("max_msgs_per_subject", 0)
        if each.expects == "subject" and known.get(each.expected, ("", 0))[0] not in ("", each.subject):
            yield f"{each.uid} expected {each.expected}, which is of {known[each.expected][0]}"
        for seq, (subject, at) in known.items():
            if each.expected < seq < each.seq and (each.expects == "stream" or subject == each.subject):
                if each.expects == "subject" and _may_be_gone(view, seq, subject, at):
                    continue
                if most and sum(seq < later < each.seq for later in of_subject) >= most:
                    continue  # later ones had displaced it
                between[seq] = f"{each.uid} expected {each.expected} and has {each.seq}, but {seq} is between"
    if not view.costs_damage(between.keys()):
        yield from between.values()


def _may_be_gone(view: StreamView, seq: int, subject: str, at: float) -> bool:
    """Return True if a request or its age may have removed a message."""
    sent = next((each for each in view.acked if each.seq == seq), None)
    old = sent is not None and may_be_too_old(view, sent, view.read_at)
    return old or (sent is None and bool(view.least("max_age"))) or view.may_be_removed(seq, subject, at)


def _refused(view: StreamView, known: dict[int, tuple[str, float]]) -> Iterator[str]:
    """A refused expectation was wrong, and the answer tells the last sequence."""
    by_seq = {each.seq: each for each in [*view.acked, *_of_batches(view)]}
    for each, answer in _refusals(view):
        if answer["error"].get("err_code") != WRONG_LAST or each.answered_at is None:
            continue
        text = answer["error"]["description"].removeprefix("wrong last sequence: ")
        if not text.isdigit():
            continue
        told, of_subject = int(text), each.expects == "subject"
        words = f"{each.uid} was told that {told} is the last sequence"
        if told == each.expected:
            yield f"{each.uid} expected {told}, and was refused although that is the last sequence"
        for seq, other in by_seq.items():
            if (
                seq > told
                and (other.answered_at or each.at) < each.at
                and not (of_subject and other.subject != each.subject)
                and not (of_subject and may_be_gone(view, other, each.answered_at, last=True))
                and not (seq in view.excused or view.may_have_died(other.at))
            ):
                yield f"{words}, and {seq} was acknowledged before"
                break
        if not told:
            continue
        if told in known:
            subject, at = known[told]
            is_other = (of_subject and subject != each.subject) or at > each.answered_at
            if is_other and not view.history.ends:  # otherwise the message may be one that was lost
                yield f"{words}, which is of {subject}"
        elif not any(
            other is not each
            and not (of_subject and other.subject != each.subject)
            and (other.answer is None or not (other.seq or is_certain(other)))
            and other.at <= each.answered_at
            for other in view.publishes
        ) and not (view.damages or view.least("subject_delete_marker_ttl")):  # both use sequences
            yield f"{each.uid} was told that {told} is the last sequence, which nobody sent"


def _refusals(view: StreamView) -> Iterator[tuple[Publish, dict[str, dict[str, str | int]]]]:
    """Yield messages whose expectation was refused; of a batch, the one that has it."""
    for each in view.publishes:
        if each.expected is not None and each.refused and each.answer is not None:
            yield each, each.answer
    for batch in view.batches:
        if batch.answer is not None and "error" in batch.answer:
            for uid in batch.uids:
                sent = view.by_uid[uid][0]
                if sent.expected is not None:
                    sent.answered_at = batch.answered_at
                    yield sent, batch.answer


def _ids(view: StreamView, known: dict[int, tuple[str, float]]) -> Iterator[str]:
    """An expected last id was that of the last message."""
    by_id = {each.msg_id: each for each in view.acked if each.msg_id}
    often = Counter(each.msg_id for each in view.publishes)
    for each in view.publishes:
        expected = each.headers.get("Nats-Expected-Last-Msg-Id")
        if not expected or each.answer is None or each.duplicate or often[expected] > 1:
            continue
        last = by_id.get(expected)
        if each.seq and last is None:
            yield f"{each.uid} expected the id {expected!r}, which nobody sent, and is stored"
        elif each.seq and last is not None:
            between = [seq for seq in known if last.seq < seq < each.seq]
            if between and not view.damages:
                words = f"{each.uid} expected the id of {last.seq} and has {each.seq}"
                yield f"{words}, but {between} are between"
        elif (
            last is not None
            and each.answer["error"].get("err_code") == WRONG_LAST_ID
            and not _may_follow(view, last, each)
            and not _is_forgotten(view, last, each)
        ):
            yield f"{each.uid} expected the id of {last.seq}, which was the last one, and was refused"


def _is_forgotten(view: StreamView, last: Publish, refused: Publish) -> bool:
    """Return True if the server started meanwhile: it only knows ids of the duplicate window."""
    window_s = view.config.get("duplicate_window", 120 * SECOND_NS) / SECOND_NS
    ended = any(end > last.at for end in view.history.ends)
    return ended and (view.history.clock_set or refused.at - last.at >= window_s)


def _may_follow(view: StreamView, last: Publish, refused: Publish) -> bool:
    """Return True if a message may have been stored between `last` and the refusal, or `last` may be gone."""
    return may_be_gone(view, last) or any(
        each is not refused
        and each is not last
        and each.at <= (refused.answered_at or 0.0)
        and (each.answer is None or each.seq > last.seq or (each.refused and not is_certain(each)))
        for each in view.publishes
    )
