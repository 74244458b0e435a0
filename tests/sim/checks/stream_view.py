"""The history of one stream, and what may have happened to its messages; the checker asks for both."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests.sim.history import BatchOutcome, Final, History, Publish, Removal, Stored, Update
from tests.sim.machine.loop import START_NS
from tests.sim.plans.plan import SECOND_NS, Plan

MARKER = "Nats-Marker-Reason"  # a header of messages that the server writes
FOR_EVER = float("inf")
LATE_S = 20.0  # a request without an answer happens within this time, or never
UNCERTAIN = (10077,)  # the disk failed: what was asked for may still happen when it works again


class StreamView:
    """The history of one stream."""

    def __init__(self, plan: Plan, history: History, name: str) -> None:
        self.name = name
        self.plan = plan
        self.config = plan.streams.get(name, {})
        self.history = history
        self.final: Final = history.final[name]
        self.read_at = (history.read_at_ns - START_NS) / SECOND_NS
        self.updates = [each for each in history.updates if each.stream == name and not is_refused(each)]
        self.configs = [self.config, *(each.config for each in self.updates)]  # which may have ruled
        self.publishes = [each for each in history.publishes if each.stream == name]
        self.by_uid: dict[int, list[Publish]] = defaultdict(list)
        for each in self.publishes:
            self.by_uid[each.uid].append(each)
        # Messages of clients; not those of an origin, and no markers.
        self.own = [each for each in self.final.content if MARKER not in each.headers]
        if self.follows and any("subjects" in each for each in self.configs):
            self.own = [each for each in self.own if each.uid in self.by_uid]
        self.content: dict[int, Stored] = {each.seq: each for each in self.own}
        self.removals = [each for each in history.removals if each.stream == name and not is_refused(each)]
        self.deliveries = [each for each in history.deliveries if each.stream == name]
        # A mirror may answer direct gets for its origin, and is behind.
        self.mirrored = any(each.get("mirror", {}).get("name") == name for each in plan.streams.values())
        self.readings = [each for each in history.readings if each.stream == name]
        self.batches = [each for each in history.batches if each.stream == name]
        self.acked = [each for each in self.publishes if each.seq and not each.duplicate]
        self.stored_as: dict[int, list[Stored]] = defaultdict(list)
        for stored in self.own:
            self.stored_as[stored.uid].append(stored)
        limits = [self.least("max_msgs")]
        limits += history.limits if name == "L" else []
        # Messages, and bytes, that the stream certainly had room for; 0: any number.
        self.most = min(limits)
        self.most_bytes = self.least("max_bytes")
        self.most_of_subject = self.least("max_msgs_per_subject")
        if self.config.get("discard") == "new":  # what is there stays, and nothing comes
            self.most = self.most_bytes = 0
            if self.config.get("discard_new_per_subject"):
                self.most_of_subject = 0
        self.plain = self.config.get("retention", "limits") == "limits"
        self.deaths = [each for each in history.incarnations if each.stream == name]
        self.damages = [rot for rot in history.rot if rot.stream == name and rot.of_messages]
        self.excused: set[int] = set()  # sequences that were lost by damage
        known = [(each.uid, each.seq) for each in self.deliveries if each.uid in self.by_uid]
        known += [(each.uid, each.seq) for each in self.publishes if each.duplicate]
        # Stored for certain: acknowledged, or delivered although the publisher has no ack.
        self.told = self.acked + [as_published(self.by_uid[uid][0], seq) for uid, seq in known]
        if self.damages:
            self.excused = {each.seq for each in self.told if not self.is_there_or_gone(each)}

    @property
    def follows(self) -> bool:
        """Return True if the stream has messages of an origin."""
        return any("mirror" in each or "sources" in each for each in self.configs)

    @property
    def in_memory(self) -> bool:
        return bool(self.config.get("storage") == "memory")

    def ruling(self, since: float, until: float) -> list[dict[str, Any]]:
        """Return the configurations that may have ruled at any moment of a time."""
        first = max(
            (
                number
                for number, each in enumerate(self.updates, 1)
                if each.happened and (each.answered_at or 0.0) < since
            ),
            default=0,
        )
        later = [each.config for each in self.updates[first:] if each.at <= until]
        return [self.configs[first], *later]

    def least(self, limit: str) -> int:
        """Return the smallest limit that may have ruled; 0 if there was none."""
        return min((each[limit] for each in self.configs if each.get(limit, 0) > 0), default=0)

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
        return any(
            covers(each, seq, subject, at) and not self._keeps(each, seq, subject) for each in self.removals
        )

    def _keeps(self, removal: Removal, seq: int, subject: str) -> bool:
        """Return True if a purge that keeps some messages keeps this one: too few are newer."""
        keep = removal.request.get("keep", 0)
        if not keep or self.follows:  # copies count, too
            return False
        of_subject = "filter" in removal.request
        newer = sum(  # one that was sent twice may be there twice
            not (0 < each.seq <= seq)
            and (not of_subject or each.subject == subject)
            and (removal.answered_at is None or each.at <= removal.answered_at)
            for each in self.publishes
        )
        return newer < keep

    def must_be_removed(self, publish: Publish, before: float = FOR_EVER) -> bool:
        """Return True if a client was told, before that time, that the message is gone."""
        assert publish.answered_at is not None
        return any(
            each.happened
            and (each.answered_at or 0.0) < before
            and each.at > publish.answered_at
            and covers(each, publish.seq, publish.subject, publish.at)
            and self._leaves(each, publish)
            for each in self.removals
        )

    def _leaves(self, removal: Removal, publish: Publish) -> bool:
        """Return True if a purge that keeps some messages has enough others to keep, which are there yet."""
        keep = removal.request.get("keep", 0)
        of_subject = "filter" in removal.request
        newer = sum(
            each.seq > publish.seq
            and each.seq in self.content
            and (each.answered_at or 0.0) < removal.at
            and (not of_subject or each.subject == publish.subject)
            for each in self.acked
        )
        return newer >= keep


def is_refused(request: Removal | Update) -> bool:
    return request.refused and code(request) not in UNCERTAIN


def covers(removal: Removal, seq: int, subject: str, at: float) -> bool:
    request = removal.request
    sure = removal.answered_at is not None and not removal.refused
    end = removal.answered_at if sure else removal.at + LATE_S
    assert end is not None
    if at > end:
        return False
    if request["endpoint"] == "STREAM.MSG.DELETE":
        return bool(request["seq"] == seq)
    if request.get("filter", subject) != subject:
        return False
    return seq < request["seq"] if "seq" in request else True


def may_be_gone(view: StreamView, publish: Publish, until: float = FOR_EVER, *, last: bool = False) -> bool:
    """Return True if a message may be gone in the end, or at the time `until`.

    `last`: for any other reason than that its subject has a later message.
    """
    if publish.seq in view.excused or view.may_be_removed(publish.seq, publish.subject, publish.at):
        return True
    if may_be_too_old(view, publish, min(until, view.read_at)) or view.may_have_died(publish.at):
        return True
    # Later ones that are gone by damage displaced earlier ones; so did those that were removed.
    others_go = until != FOR_EVER or others_go_by_themselves(view)
    if last and not others_go_by_themselves(view):
        return bool(view.most or view.most_bytes) or may_be_rolled_up(view, publish, until, everything=True)
    if may_be_rolled_up(view, publish, until):
        return True
    if not (view.most or view.most_bytes or view.most_of_subject):
        return False
    later = {
        each.seq: each
        for each in view.told
        if each.seq > publish.seq and each.seq not in view.content and each.at <= until
    }
    gone = list(later.values())[: None if others_go else view.most_damaged]
    of_subject = [each for each in later.values() if each.subject == publish.subject]
    of_subject = of_subject[: None if others_go else view.most_damaged]
    left = [each for each in view.final.content if each.seq > publish.seq]
    unsure = sum(not each.answer or code(each) in UNCERTAIN for each in view.publishes) if others_go else 0
    same = sum(each.subject == publish.subject for each in left)
    if 0 < view.most_of_subject <= same + len(of_subject) + unsure:
        return True
    if 0 < view.most <= len(left) + len(gone) + unsure:
        return True
    # Those that are gone by now displaced it, too: the oldest goes first.
    size = sum(size_of(each) for each in left) + sum(80 + max(each.size, 0) for each in later.values())
    size += 80 + max(publish.size, 0)
    return bool(view.most_bytes) and (bool(gone or unsure) or size > view.most_bytes)


def others_go_by_themselves(view: StreamView) -> bool:
    """Return True if a message that displaced another one may be gone, too."""
    return bool(view.removals or view.least("max_age") or any(each.ttl_s for each in view.publishes))


def size_of(stored: Stored) -> int:
    """Return what a message adds to the bytes of a stream in files, as nats-server counts them."""
    block = sum(len(key) + len(value) + 4 for key, value in stored.headers.items())
    return len(stored.subject) + max(stored.size, 0) + (block + 12 + 34 if block else 30)


def may_be_rolled_up(
    view: StreamView, publish: Publish, until: float = FOR_EVER, *, everything: bool = False
) -> bool:
    """Return True if a later message may have replaced all before it, or those of `everything`."""
    return any(
        each.headers.get("Nats-Rollup") in (("all",) if everything else ("all", "sub"))
        and each.at <= until
        and (not each.answer or each.seq > publish.seq or code(each) in UNCERTAIN)
        and (each.headers["Nats-Rollup"] == "all" or each.subject == publish.subject)
        for each in view.publishes
    )


def may_be_too_old(view: StreamView, publish: Publish, at: float) -> bool:
    """Return True if the message may have expired until `at`."""
    least, _ = life_s(view, publish)
    if not least:
        return False
    return view.history.clock_set or at - publish.at >= least


def life_s(view: StreamView, publish: Publish) -> tuple[float, float]:
    """Return how long a message stays at least and at most; 0 if there is no limit."""
    age = view.least("max_age") / SECOND_NS
    longest = view.final.config.get("max_age", view.config.get("max_age", 0)) / SECOND_NS
    if publish.ttl_s > 0:
        marker = view.config.get("subject_delete_marker_ttl", 0) / SECOND_NS
        return min(age or publish.ttl_s, publish.ttl_s), max(publish.ttl_s, marker)
    return (0.0, 0.0) if publish.ttl_s < 0 else (age, longest)


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


def is_certain(refused: Publish) -> bool:
    """Return True if a message that was refused cannot be stored later."""
    full = refused.answer is not None and refused.answer["error"]["description"].startswith("maximum ")
    return full or code(refused) not in UNCERTAIN


def code(record: Publish | BatchOutcome | Removal | Update) -> int:
    """Return the error that a request was refused with; 0 if it was not."""
    return int(record.answer.get("error", {}).get("err_code", 0)) if record.answer else 0


def seconds(text: str) -> float:
    """Return the time of a message in seconds, from RFC 3339 with up to nine digits."""
    main, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(main + "+00:00").timestamp() + float("0." + (fraction or "0"))
