"""A naive model of a stream: a dictionary and loops."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.subjects.match import matches


class Message(NamedTuple):
    subject: str
    payload: bytes
    message_id: str = ""


@dataclass
class NaiveStream:
    live: dict[int, Message] = field(default_factory=dict)  # by sequence, in order
    last: int = 0
    most: int = 0  # `max_msgs`
    most_per_subject: int = 0

    def copy(self) -> NaiveStream:
        return copy.deepcopy(self)

    def publish(self, message: Message, rollup: str = "") -> int:
        self.last += 1
        self.live[self.last] = message
        self.enforce()
        if rollup == "all":
            self.live = {self.last: message}
        elif rollup == "sub":
            self.remove([seq for seq in self.of(message.subject) if seq < self.last])
        return self.last

    def enforce(self) -> None:
        if self.most_per_subject:
            for subject in {message.subject for message in self.live.values()}:
                self.remove(self.of(subject)[: -self.most_per_subject])
        if self.most:
            self.remove(list(self.live)[: -self.most])

    def purge(self, pattern: str, below: int, keep: int) -> int:
        chosen = self.of(pattern or ">")
        if below:
            chosen = [seq for seq in chosen if seq < below]
            if pattern in ("", ">") and below > self.last + 1:
                self.last = below - 1
        if keep:
            chosen = chosen[:-keep]
        self.remove(chosen)
        return len(chosen)

    def remove(self, seqs: list[int]) -> None:
        for seq in seqs:
            del self.live[seq]

    def of(self, pattern: str) -> list[int]:
        """Sequences of messages under a pattern."""
        wanted = pattern.encode()
        return [seq for seq, message in self.live.items() if matches(message.subject.encode(), wanted)]

    def with_id(self, message_id: str) -> int:
        """The sequence of a message by its id; 0 if it is not there."""
        return next((seq for seq, message in self.live.items() if message.message_id == message_id), 0)
