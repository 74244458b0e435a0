"""The part of a history that is about consumers whose readers do everything that real ones do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FOR_EVER = 1e9


@dataclass(slots=True)
class Change:
    """A request to change a consumer: another configuration, or a pause."""

    asked: float
    config: dict[str, Any]  # what is different
    until: float = 0.0  # when a pause ends
    confirmed: float | None = None


@dataclass(slots=True)
class Life:
    """A consumer from its creation to its deletion; another of the same name may follow."""

    stream: str
    consumer: str
    config: dict[str, Any]
    asked: float
    created: float | None = None  # when the creation was confirmed
    removing: float | None = None  # when the deletion was asked for
    removed: float | None = None
    changes: list[Change] = field(default_factory=list)
    pauses: list[Change] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Return until when it certainly exists."""
        return float("inf") if self.removing is None else self.removing


@dataclass(slots=True)
class Pull:
    """A pull request."""

    consumer: str  # with its stream
    at: float
    connection: int
    batch: int
    expires: float
    no_wait: bool = False
    heartbeat: float = 0.0
    least: int = 0  # so many messages must be pending, or it gets none
    pin: str = ""  # the id that it names
    got: list[float] = field(default_factory=list)  # when messages came
    beats: list[float] = field(default_factory=list)
    status: str = ""  # with which it ended
    ended: float | None = None

    @property
    def last(self) -> float:
        """Return when it ended; one that does not wait has to, without an end, where nothing may go."""
        if self.ended is not None:
            return self.ended
        return FOR_EVER if self.no_wait else self.last_due

    @property
    def last_due(self) -> float:
        """Return when it times out."""
        return self.at + self.expires


@dataclass(slots=True)
class Beat:
    """A heartbeat of a push consumer."""

    consumer: str
    at: float


@dataclass(slots=True)
class ConsumerHistory:
    """Lives of consumers, requests to them, and when the machine was disturbed."""

    lives: list[Life] = field(default_factory=list)
    pulls: list[Pull] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    looks: list[Any] = field(default_factory=list)  # like those of the history; some are errors
    disturbed: list[tuple[float, float]] = field(default_factory=list)  # from and to
    calm: bool = False  # network and disk never stall
    ended: float = float("inf")  # clients did nothing after that

    @property
    def slack_s(self) -> float:
        """Return how long what is due at once may take while nothing is disturbed."""
        return 1.0 if self.calm else 25.0

    def disturb(self, since: float, seconds: float) -> None:
        self.disturbed.append((since, since + seconds))

    def quiet(self, since: float, until: float) -> bool:
        """Return True if nothing was disturbed between two times."""
        return not any(begin <= until and end >= since for begin, end in self.disturbed)
