"""Where in the stream a reading begins.

StartAt.FIRST, StartAt.LAST, StartAt.NEW, StartAt.LAST_PER_SUBJECT
StartAt.by_sequence(1000)
StartAt.by_time(datetime(2026, 1, 1, tzinfo=UTC))
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final, Self

from millstream.golang.time import Time
from millstream.jsapi.enums import DeliverPolicy

_MICROSECOND: Final = 1_000  # in nanoseconds
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StartAt:
    """The first message of a reading; use the constants or the two methods."""

    policy: DeliverPolicy
    sequence: int = 0
    time: Time | None = None

    FIRST: ClassVar["StartAt"]  # the oldest message that the stream has
    LAST: ClassVar["StartAt"]  # the newest one
    NEW: ClassVar["StartAt"]  # whatever comes after the reading was opened
    LAST_PER_SUBJECT: ClassVar["StartAt"]  # the newest one of each subject, then whatever comes

    @classmethod
    def by_sequence(cls, sequence: int) -> Self:
        """The message with this stream sequence, or the next one there is."""
        if sequence < 1:
            raise ValueError(f"sequences start at 1, not at {sequence}")
        return cls(DeliverPolicy.BY_START_SEQUENCE, sequence=sequence)

    @classmethod
    def by_time(cls, when: datetime) -> Self:
        """The first message stored at that time or later; `when` must know its time zone."""
        if when.tzinfo is None:
            raise ValueError(f"{when} does not say in which time zone")
        since = when - _EPOCH
        microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return cls(DeliverPolicy.BY_START_TIME, time=Time(microseconds * _MICROSECOND))


StartAt.FIRST = StartAt(DeliverPolicy.ALL)
StartAt.LAST = StartAt(DeliverPolicy.LAST)
StartAt.NEW = StartAt(DeliverPolicy.NEW)
StartAt.LAST_PER_SUBJECT = StartAt(DeliverPolicy.LAST_PER_SUBJECT)
