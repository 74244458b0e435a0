"""A queue of pull requests with a world to match: who listens, what time it is, what is there to deliver."""

import itertools
import json
from typing import Any

from millstream.jetstream.consumers.groups import PinChange, PriorityGroups
from millstream.jetstream.consumers.pull_queue import WaitingPulls
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import PriorityPolicy

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND

Status = tuple[str, str]


class Desk:
    """A consumer's view of its queue.  Requests and inboxes are text here, and messages have 10 bytes."""

    def __init__(self, **config: Any) -> None:
        numbers = itertools.count(1)
        settings = {"max_waiting": 512, **config}
        if settings.get("priority_policy") is PriorityPolicy.PINNED_CLIENT:
            settings.setdefault("priority_timeout", 120 * SECOND)
        if settings.get("priority_policy", PriorityPolicy.NONE) is not PriorityPolicy.NONE:
            settings.setdefault("priority_groups", ["A"])
        self.config = ConsumerConfig(**settings)
        self.absent: set[bytes] = set()  # inboxes without interest
        self.now = START
        self.pending = 0  # messages that were never delivered
        self.again = 0  # messages to deliver again
        self.ack_pending = 0
        self.dseq = 0
        groups = PriorityGroups(self.config, lambda: f"pin{next(numbers)}")
        self.pulls = WaitingPulls(self.config, lambda inbox: inbox not in self.absent, groups)

    def ask(self, inbox: str, body: str = "", **fields: Any) -> bool:
        if fields:
            body = json.dumps(fields)
        return self.pulls.ask(inbox.encode(), body.encode(), b"", self.now, self.pending, self.again)

    def statuses(self) -> list[Status]:
        """Return the statuses sent since the last call, headers joined by blanks."""
        sent = [(inbox.decode(), block) for inbox, block in self.pulls.statuses]
        self.pulls.statuses.clear()
        assert all(block.startswith(b"NATS/1.0 ") and block.endswith(b"\r\n\r\n") for _, block in sent)
        return [(inbox, " ".join(block[9:-4].decode().split("\r\n"))) for inbox, block in sent]

    def changes(self) -> list[PinChange]:
        told = list(self.pulls.groups.changes)
        self.pulls.groups.changes.clear()
        return told

    def deliver(self, messages: int = 1_000_000, *, size: int = 10) -> list[str]:
        """Give out what is pending, `messages` at most; the inboxes that got them, in order."""
        got: list[str] = []
        while self.pending + self.again > 0 and len(got) < messages:
            at_hand = self.pending + (1 if self.again else 0)
            request = self.pulls.current(self.now, at_hand, self.ack_pending)
            if request is None:
                break
            if 0 < request.bytes_left < size:
                self.pulls.too_big(request)
                continue
            if request.reply in self.absent:
                self.pulls.gone(request)
                continue
            got.append(request.reply.decode())
            self.pulls.served(request, size, self.now)
            self.dseq += 1
            if self.again:
                self.again -= 1
            else:
                self.pending -= 1
        return got

    def exhausted(self) -> bool:
        return self.pulls.exhausted(self.now, self.dseq, self.dseq + 100)

    def pass_time(self, nanoseconds: int) -> list[Status]:
        """Let time pass as a timer would see it, and return what was sent meanwhile."""
        end = self.now + nanoseconds
        while 0 < self.pulls.due() <= end:
            self.now = max(self.now, self.pulls.due())
            self.deliver()
            self.exhausted()
        self.now = end
        return self.statuses()
