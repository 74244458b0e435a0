"""A naive model of a log: a dict that is scanned from end to end."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.store.record import record_size
from millstream.subjects.match import matches

Pattern = bytes  # in a class with a property `bytes`


@dataclass(frozen=True, slots=True)
class Message:
    subject: bytes
    headers: bytes
    body: bytes
    timestamp: int

    @property
    def size(self) -> int:
        return record_size(len(self.subject), len(self.headers), len(self.body))


@dataclass(slots=True)
class NaiveLog:
    """The live messages, and the last sequence that was used."""

    live: dict[int, Message] = field(default_factory=dict)
    last_seq: int = 0

    def copy(self) -> NaiveLog:
        return NaiveLog(dict(self.live), self.last_seq)

    def append(self, message: Message) -> int:
        self.last_seq += 1
        self.live[self.last_seq] = message
        return self.last_seq

    def remove_below(self, seq: int) -> int:
        return self._remove([each for each in self.live if each < seq])

    def remove_matching(self, pattern: bytes, below: int) -> int:
        return self._remove(
            [seq for seq, message in self.live.items() if seq < below and matches(message.subject, pattern)]
        )

    def _remove(self, seqs: list[int]) -> int:
        for seq in seqs:
            del self.live[seq]
        return len(seqs)

    @property
    def first_seq(self) -> int:
        return min(self.live, default=self.last_seq + 1)

    @property
    def bytes(self) -> int:
        return sum(message.size for message in self.live.values())

    def matching(self, pattern: Pattern) -> list[int]:
        return sorted(seq for seq, message in self.live.items() if matches(message.subject, pattern))

    def next_match(self, seq: int, pattern: Pattern) -> int:
        return min((each for each in self.matching(pattern) if each >= seq), default=0)

    def last_match(self, seq: int, pattern: Pattern) -> int:
        return max((each for each in self.matching(pattern) if each <= seq), default=0)

    def seq_at_time(self, timestamp: int) -> int:
        later = (seq for seq, message in self.live.items() if message.timestamp >= timestamp)
        return min(later, default=0)
