"""What the finders of causes look at, with the questions that several of them ask."""

from typing import Final

from millstream.diagnosis.types import Extra, PendingMessage
from millstream.golang.time import ZERO_TIME, format_time
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.stream_types import StreamInfo

SECOND: Final = 1_000_000_000
_RECENT_S: Final = 5  # a client that pulls now and then has pulled within this time


class Case:
    """A stream, one of its consumers, and what else is known."""

    def __init__(self, stream: StreamInfo, consumer: ConsumerInfo, extra: Extra) -> None:
        self.stream: Final = stream
        self.consumer: Final = consumer
        self.extra: Final = extra
        self.config: Final = consumer.config or ConsumerConfig()

    @property
    def is_push(self) -> bool:
        return bool(self.config.deliver_subject)

    @property
    def filters(self) -> list[str]:
        """Return the subjects that the consumer chooses by; none if it takes all."""
        found = self.config.filter_subjects or (
            [self.config.filter_subject] if self.config.filter_subject else []
        )
        return [subject for subject in found if subject != ">"]

    @property
    def due(self) -> list[PendingMessage]:
        """Return messages whose redelivery is due, as far as the server tells."""
        now = format_time(self.extra.now_ns)
        return [each for each in self.extra.pending or [] if each.redeliver and _before(each.redeliver, now)]

    @property
    def has_work(self) -> bool:
        """Return whether there is something to deliver."""
        return self.consumer.num_pending > 0 or bool(self.due)

    @property
    def is_recent(self) -> bool:
        """Return whether something was delivered a moment ago."""
        active = self.consumer.delivered.last_active
        return active is not None and self.extra.now_ns - active < _RECENT_S * SECOND


def _before(left: str, right: str) -> bool:
    """Compare times of the same zone and of any number of decimals."""
    return left.rstrip("Z").ljust(29, "0") <= right.rstrip("Z").ljust(29, "0")


def text_of(time: int | None) -> str:
    """Return a time as RFC 3339; nothing for one that is not set."""
    return format_time(time) if time is not None and time != ZERO_TIME else ""
