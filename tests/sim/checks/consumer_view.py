"""The history of one consumer, and what it certainly or possibly had to deliver; the checks ask for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.sim.checks.stream_view import StreamView
from tests.sim.consumer_history import Life, Pull
from tests.sim.history import AckSent, ConsumerLook, Delivery
from tests.sim.machine.loop import START_NS
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan

SETTLES = ("+ACK", "+TERM")
FOREVER = float("inf")


@dataclass(slots=True)
class Known:
    """A message of the stream: not there before `sent`, and there from `certain` on."""

    seq: int
    subject: str
    uid: int
    sent: float
    certain: float


def matches(subject: str, pattern: str) -> bool:
    wanted, words = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(
        one in ("*", word) for one, word in zip(wanted, words, strict=True)
    )


def patterns_of(config: dict[str, Any]) -> list[str]:
    """Return the filters of a consumer; none means all messages."""
    single = config.get("filter_subject")
    return [single] if single else list(config.get("filter_subjects", []))


def wants(config: dict[str, Any], subject: str) -> bool:
    patterns = patterns_of(config)
    return not patterns or any(matches(subject, pattern) for pattern in patterns)


class ConsumerView:
    """One life of a consumer."""

    def __init__(self, view: StreamView, consumer: ConsumerPlan, life: Life, until: float) -> None:
        self.view = view
        self.plan = consumer
        self.life = life
        self.wide = view.history.wide
        self.slack = self.wide.slack_s
        history = view.history
        self.until = until  # the next life begins, or the history ends

        def is_ours(at: float) -> bool:
            return life.asked <= at <= until

        self.deliveries = [
            each for each in view.deliveries if each.consumer == consumer.name and is_ours(each.at)
        ]
        self.acks = [
            each
            for each in history.acks
            if (each.stream, each.consumer) == (consumer.stream, consumer.name) and is_ours(each.at)
        ]
        self.looks: list[ConsumerLook] = [
            each for each in self.wide.looks if each.consumer == consumer.name and is_ours(each.asked)
        ]
        self.pulls: list[Pull] = [
            each for each in self.wide.pulls if each.consumer == consumer.path and is_ours(each.at)
        ]
        self.configs = [life.config]
        for change in life.changes:
            self.configs.append(self.configs[-1] | change.config)
        self.created = FOREVER if life.created is None else life.created
        self.explicit = life.config["ack_policy"] == "explicit"
        self.by_seq: dict[int, list[Delivery]] = {}
        for delivery in self.deliveries:
            self.by_seq.setdefault(delivery.seq, []).append(delivery)
        self._acks_of: dict[int, list[AckSent]] = {}
        for ack in self.acks:
            self._acks_of.setdefault(ack.seq, []).append(ack)
        self.known = {each.seq: each for each in _known(view)}
        self.must = {each.seq for each in self.known.values() if self._must(each)}
        self.never = {each.seq for each in self.known.values() if self._never(each)}

    # -- the configuration ------------------------------------------------------------------------

    def configs_at(self, since: float, until: float) -> list[dict[str, Any]]:
        """Return the configurations that may have ruled between two times."""
        found = [self.configs[0]]
        for change, config in zip(self.life.changes, self.configs[1:], strict=True):
            if change.confirmed is not None and change.confirmed < since:
                found = [config]
            elif change.asked <= until:
                found.append(config)
        return found

    def limit(self, name: str, since: float, until: float) -> int:
        """Return the smallest value of a limit that may have ruled; a large number if there is none."""
        values = [config.get(name, -1) for config in self.configs_at(since, until)]
        return min(value if value > 0 else 1 << 40 for value in values)

    # -- what is to be delivered ------------------------------------------------------------------

    def _must(self, each: Known) -> bool:
        """Return True if the consumer certainly has to deliver a message."""
        if not all(wants(config, each.subject) for config in self.configs):
            return False
        if self.view.may_be_removed(each.seq, each.subject, each.sent):
            return False
        config, life = self.life.config, self.life
        if not self.view.plain and each.sent < self.created:
            return False  # dropped, if nobody was interested
        match config.get("deliver_policy", "all"):
            case "new":
                return each.sent > self.created
            case "last" | "last_per_subject":
                return each.seq >= max(
                    (other.seq for other in self._rivals(each) if other.sent <= self.created), default=0
                )
            case "by_start_sequence":
                return bool(each.seq >= config["opt_start_seq"])
            case "by_start_time":
                return not self.view.history.clock_set and each.sent > _start_time(life)
        return True

    def _never(self, each: Known) -> bool:
        """Return True if the consumer certainly does not deliver a message."""
        if not any(wants(config, each.subject) for config in self.configs):
            return True
        config, life = self.life.config, self.life
        match config.get("deliver_policy", "all"):
            case "new":
                return each.certain < life.asked
            case "last" | "last_per_subject":
                return each.seq < max(
                    (other.seq for other in self._rivals(each) if other.certain < life.asked), default=0
                )
            case "by_start_sequence":
                return bool(each.seq < config["opt_start_seq"])
            case "by_start_time":
                return not self.view.history.clock_set and each.certain < _start_time(life)
        return False

    def _rivals(self, each: Known) -> Iterator[Known]:
        """Yield the messages of which the last one is where the consumer begins."""
        of_subject = self.life.config["deliver_policy"] == "last_per_subject"
        for other in self.known.values():
            if wants(self.life.config, other.subject) and (not of_subject or other.subject == each.subject):
                yield other

    # -- what happened ----------------------------------------------------------------------------

    def acks_of(self, seq: int) -> list[AckSent]:
        return self._acks_of.get(seq, [])

    def first(self, seq: int) -> float:
        """Return when a message came for the first time."""
        deliveries = self.by_seq.get(seq)
        return deliveries[0].at if deliveries else FOREVER

    def settled_by(self, seq: int, at: float) -> bool:
        """Return True if a client had settled a message before a time."""
        return any(ack.kind in SETTLES and ack.at <= at for ack in self.acks_of(seq))

    def quiet(self, since: float, until: float) -> bool:
        return until < self.until and self.wide.quiet(since, until)

    def tidy(self, until: float) -> bool:
        """Return True if nothing was disturbed in this life before a time."""
        return self.life.created is not None and self.wide.quiet(self.life.asked, until)

    def open_pulls(self, since: float, until: float) -> Iterable[Pull]:
        """Yield the requests that wait for messages during the whole time."""
        few = self.life.config.get("max_waiting", 512) < 512
        if self.has_choice:
            return
        for pull in self.pulls:
            if few and pull.heartbeat and not pull.got and not pull.status:
                continue  # it may have been refused without a word
            got = sum(at <= until for at in pull.got)
            if pull.at <= since and pull.last > until and got < pull.batch and not pull.no_wait:
                yield pull

    @property
    def has_choice(self) -> bool:
        """Return True if a request may wait although there are messages."""
        return self.life.config.get("priority_policy") in ("overflow", "pinned_client")

    def is_ready(self, since: float, until: float) -> bool:
        """Return True if somebody waits for messages during the whole time."""
        if self.life.config.get("replay_policy") == "original":
            return False  # they come later
        return self.plan.push or any(True for _ in self.open_pulls(since, until))

    def may_be_full(self, since: float, until: float) -> bool:
        """Return True if `max_ack_pending` may have been reached between two times."""
        if self.life.config["ack_policy"] == "none":
            return False
        if not self.explicit:
            return True
        pending = sum(
            each[0].at <= until + self.slack and not self.settled_by(seq, since - self.slack)
            for seq, each in self.by_seq.items()
        )
        return pending >= self.limit("max_ack_pending", since, until)

    def after_pauses(self, at: float) -> float:
        """Return when a pause has ended that may have begun before a time."""
        for pause in self.life.pauses:
            if pause.asked <= at + 2 * self.slack:
                at = max(at, pause.until)
        return at


def _known(view: StreamView) -> Iterator[Known]:
    sent: dict[int, float] = {}
    for publish in view.publishes:
        sent[publish.uid] = min(publish.at, sent.get(publish.uid, FOREVER))
    found: dict[int, Known] = {}
    for publish in view.publishes:
        if publish.seq and publish.answered_at is not None:
            one = found.setdefault(
                publish.seq,
                Known(publish.seq, publish.subject, publish.uid, sent[publish.uid], FOREVER),
            )
            one.certain = min(one.certain, publish.answered_at)
    for stored in view.final.content:
        if stored.uid in sent:
            found.setdefault(
                stored.seq, Known(stored.seq, stored.subject, stored.uid, sent[stored.uid], FOREVER)
            )
    return iter(found.values())


def _start_time(life: Life) -> float:
    main, _, fraction = life.config["opt_start_time"].rstrip("Z").partition(".")
    whole = round(datetime.fromisoformat(main + "+00:00").timestamp()) * SECOND_NS
    return (whole + int(fraction.ljust(9, "0")) - START_NS) / SECOND_NS
