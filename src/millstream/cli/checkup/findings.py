"""What a check found: a fact, whether it is good, and what to do if it is not."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec


class FindingVerdict(StrEnum):
    """How good a fact is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"  # it could not be looked at


class Finding(msgspec.Struct, frozen=True):
    """One fact."""

    topic: str
    verdict: FindingVerdict
    text: str
    advice: str = ""  # one sentence; empty if there is nothing to do

    @property
    def document(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        found: dict[str, Any] = {"topic": self.topic, "verdict": str(self.verdict), "text": self.text}
        return found | ({"advice": self.advice} if self.advice else {})


class Findings:
    """All facts, in the order in which they were found."""

    def __init__(self) -> None:
        self.all: Final[list[Finding]] = []

    def ok(self, topic: str, text: str) -> None:
        """Add something good."""
        self.all.append(Finding(topic, FindingVerdict.OK, text))

    def warn(self, topic: str, text: str, advice: str) -> None:
        """Add something that works and should be changed."""
        self.all.append(Finding(topic, FindingVerdict.WARNING, text, advice))

    def fail(self, topic: str, text: str, advice: str) -> None:
        """Add something that does not work."""
        self.all.append(Finding(topic, FindingVerdict.FAILURE, text, advice))

    def skip(self, topic: str, text: str, advice: str = "") -> None:
        """Add something that could not be looked at."""
        self.all.append(Finding(topic, FindingVerdict.SKIPPED, text, advice))

    def judge(self, good: bool, topic: str, text: str, advice: str) -> None:
        """Add a fact that is good, or is a warning."""
        if good:
            self.ok(topic, text)
        else:
            self.warn(topic, text, advice)

    def count(self, verdict: FindingVerdict) -> int:
        """Return how many there are of one kind."""
        return sum(each.verdict is verdict for each in self.all)
