"""The case that finders of causes examine, and the properties that several of them need."""

from typing import Final

from millstream.diagnosis.types import Extra, PendingMessage
from millstream.golang.time import ZERO_TIME, format_time
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.stream_types import StreamInfo

SECOND: Final = 1_000_000_000
_RECENT_S: Final = 5  # seconds; an active client has pulled within this time


class Case:
    """A stream, one of its consumers, and further facts."""

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
        """Return the filter subjects of the consumer; none if it gets all messages."""
        found = self.config.filter_subjects or (
            [self.config.filter_subject] if self.config.filter_subject else []
        )
        return [subject for subject in found if subject != ">"]

    @property
    def due(self) -> list[PendingMessage]:
        """Return messages whose redelivery is due, as far as the server reports them."""
        now = format_time(self.extra.now_ns)
        return [each for each in self.extra.pending or [] if each.redeliver and _before(each.redeliver, now)]

    @property
    def has_work(self) -> bool:
        """Return whether there are messages to deliver."""
        return self.consumer.num_pending > 0 or bool(self.due)

    @property
    def is_recent(self) -> bool:
        """Return whether a message was delivered a moment ago."""
        active = self.consumer.delivered.last_active
        return active is not None and self.extra.now_ns - active < _RECENT_S * SECOND


def _before(left: str, right: str) -> bool:
    """Return whether `left` is before `right`; both have the same zone and any number of decimals."""
    return left.rstrip("Z").ljust(29, "0") <= right.rstrip("Z").ljust(29, "0")


def text_of(time: int | None) -> str:
    """Return a time as RFC 3339; empty if it is not set."""
    return format_time(time) if time is not None and time != ZERO_TIME else ""
