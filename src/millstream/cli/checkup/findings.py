"""The findings of a check: a fact, a verdict, and advice."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec


class FindingVerdict(StrEnum):
    """The verdict on a fact."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"  # it could not be checked


class Finding(msgspec.Struct, frozen=True):
    """One fact."""

    topic: str
    verdict: FindingVerdict
    text: str
    advice: str = ""  # one sentence; empty if no change is needed

    @property
    def document(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        found: dict[str, Any] = {"topic": self.topic, "verdict": str(self.verdict), "text": self.text}
        return found | ({"advice": self.advice} if self.advice else {})


class Findings:
    """All findings, in their order."""

    def __init__(self) -> None:
        self.all: Final[list[Finding]] = []

    def ok(self, topic: str, text: str) -> None:
        """Add a fact that is as it should be."""
        self.all.append(Finding(topic, FindingVerdict.OK, text))

    def warn(self, topic: str, text: str, advice: str) -> None:
        """Add a fact that works and should be changed."""
        self.all.append(Finding(topic, FindingVerdict.WARNING, text, advice))

    def fail(self, topic: str, text: str, advice: str) -> None:
        """Add a failure."""
        self.all.append(Finding(topic, FindingVerdict.FAILURE, text, advice))

    def skip(self, topic: str, text: str, advice: str = "") -> None:
        """Add a check that could not be made."""
        self.all.append(Finding(topic, FindingVerdict.SKIPPED, text, advice))

    def judge(self, good: bool, topic: str, text: str, advice: str) -> None:
        """Add a fact as ok if `good`, or else as a warning."""
        if good:
            self.ok(topic, text)
        else:
            self.warn(topic, text, advice)

    def count(self, verdict: FindingVerdict) -> int:
        """Return the number of findings with a verdict."""
        return sum(each.verdict is verdict for each in self.all)
