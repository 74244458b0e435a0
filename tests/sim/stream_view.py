"""The history of one stream, and what may have happened to its messages; the checker asks for both."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from tests.sim.history import BatchOutcome, Final, History, Publish, Removal, Stored
from tests.sim.loop import START_NS
from tests.sim.plan import SECOND_NS, Plan

LATE_S = 20.0  # a request without an answer happens within this time, or never
UNCERTAIN = (10077,)  # the disk failed: what was asked for may still happen when it works again


class StreamView:
    """The history of one stream."""

    def __init__(self, plan: Plan, history: History, name: str) -> None:
        self.name = name
        self.config = plan.streams.get(name, {})
        self.history = history
        self.final: Final = history.final[name]
        self.read_at = (history.read_at_ns - START_NS) / SECOND_NS
        self.content: dict[int, Stored] = {each.seq: each for each in self.final.content}
        self.publishes = [each for each in history.publishes if each.stream == name]
        self.removals = [each for each in history.removals if each.stream == name and not is_refused(each)]
        self.deliveries = [each for each in history.deliveries if each.stream == name]
        self.batches = [each for each in history.batches if each.stream == name]
        self.acked = [each for each in self.publishes if each.seq and not each.duplicate]
        self.by_uid: dict[int, list[Publish]] = defaultdict(list)
        for each in self.publishes:
            self.by_uid[each.uid].append(each)
        self.stored_as: dict[int, list[Stored]] = defaultdict(list)
        for stored in self.final.content:
            self.stored_as[stored.uid].append(stored)
        limits = [self.config.get("max_msgs", 0)]
        limits += history.limits if name == "L" else []
        self.most = min(limits)  # messages that the stream certainly had room for; 0: any number
        self.plain = self.config.get("retention", "limits") == "limits"
        self.deaths = [each for each in history.incarnations if each.stream == name]
        self.damages = [rot for rot in history.rot if rot.stream == name and rot.of_messages]
        self.excused: set[int] = set()  # sequences that were lost by damage
        if self.damages:
            told = self.acked + [
                as_published(self.by_uid[each.uid][0], each.seq)
                for each in self.deliveries
                if each.uid in self.by_uid
            ]
            told += [
                as_published(self.by_uid[each.uid][0], each.seq) for each in self.publishes if each.duplicate
            ]
            self.excused = {each.seq for each in told if not self.is_there_or_gone(each)}

    def is_there_or_gone(self, publish: Publish) -> bool:
        """Return True if a message is stored, or may have been removed."""
        return publish.seq in self.content or not self.plain or may_be_gone(self, publish)

    @property
    def most_damaged(self) -> int:
        """Return how many messages the damage can have cost: one for each byte, or some compressed blocks."""
        blocks = self.damages and self.config.get("compression") == "s2"
        return len(self.history.publishes) if blocks else len(self.damages)

    def costs_damage(self, lost: Iterable[int]) -> bool:
        """Return True if the damage can have cost these messages; those of a block lie side by side.

        What lies between two of them is lost, too, or was removed.
        """
        if self.config.get("compression") != "s2":
            return len(set(lost)) <= len(self.damages)
        known = sorted({*self.content, *lost})
        places = sorted(known.index(seq) for seq in set(lost))
        return sum(two > one + 1 for one, two in itertools.pairwise([-2, *places])) <= len(self.damages)

    @property
    def times_may_fall(self) -> bool:
        """Return True for a mirror whose origin lost its latest time, and then had an earlier clock."""
        lost_time = any(rot.stream == "S" and rot.of_messages for rot in self.history.rot)
        return self.name in ("M", "MM") and self.history.clock_set and lost_time

    def may_have_died(self, at: float) -> bool:
        """Return True if the stream may have been deleted since `at`."""
        return any(at <= (death.deleted_at or death.at + 2 * LATE_S) for death in self.deaths)

    def may_be_removed(self, seq: int, subject: str, at: float) -> bool:
        """Return True if a request may have removed a message that was published at `at`."""
        return any(covers(each, seq, subject, at) for each in self.removals)

    def must_be_removed(self, publish: Publish) -> bool:
        """Return True if a client was told that the message is gone."""
        assert publish.answered_at is not None
        return any(
            each.happened
            and each.at > publish.answered_at
            and not each.request.get("keep")
            and covers(each, publish.seq, publish.subject, publish.at)
            for each in self.removals
        )


def is_refused(removal: Removal) -> bool:
    return removal.refused and code(removal) not in UNCERTAIN


def covers(removal: Removal, seq: int, subject: str, at: float) -> bool:
    request = removal.request
    sure = removal.answered_at is not None and not removal.refused
    end = removal.answered_at if sure else removal.at + LATE_S
    assert end is not None
    if at > end:
        return False
    if request["endpoint"] == "STREAM.MSG.DELETE":
        return bool(request["seq"] == seq)
    if "filter" in request:
        return bool(request["filter"] == subject)
    return seq < request["seq"] if "seq" in request else True


def may_be_gone(view: StreamView, publish: Publish) -> bool:
    if publish.seq in view.excused or view.may_be_removed(publish.seq, publish.subject, publish.at):
        return True
    if may_be_too_old(view, publish):
        return True
    if view.may_have_died(publish.at):
        return True
    most = view.most or view.config.get("max_msgs_per_subject", 0)
    if not most:
        return False
    later = {
        each.seq: each.subject
        for each in view.acked
        if each.seq > publish.seq and each.seq not in view.content
    }
    damaged = [seq for seq, subject in later.items() if view.most or subject == publish.subject]
    damaged = damaged[: view.most_damaged]
    left = sum(
        each.seq > publish.seq and (bool(view.most) or each.subject == publish.subject)
        for each in view.final.content
    )
    return left + len(damaged) >= most


def may_be_too_old(view: StreamView, publish: Publish) -> bool:
    least, _ = life_s(view, publish)
    if not least:
        return False
    return view.history.clock_set or view.read_at - publish.at >= least


def life_s(view: StreamView, publish: Publish) -> tuple[float, float]:
    """Return how long a message stays at least and at most; 0 if there is no limit."""
    age = view.config.get("max_age", 0) / SECOND_NS
    if publish.ttl_s and age:
        return min(age, publish.ttl_s), publish.ttl_s
    return age, age


def as_published(publish: Publish, seq: int) -> Publish:
    return Publish(
        publish.uid,
        publish.actor,
        publish.stream,
        publish.subject,
        publish.at,
        publish.connection,
        answer={"seq": seq},
    )


def code(record: Publish | BatchOutcome | Removal) -> int:
    return int(record.answer["error"].get("err_code", 0)) if record.answer else 0


def seconds(text: str) -> float:
    """Return the time of a message in seconds, from RFC 3339 with up to nine digits."""
    main, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(main + "+00:00").timestamp() + float("0." + (fraction or "0"))
