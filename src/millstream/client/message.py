"""A message as a reader gets it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class OrderedMessage(msgspec.Struct, frozen=True):
    """One message of a stream; there is nothing to acknowledge."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    stream: str
    stream_seq: int
    consumer_seq: int  # starts at 1 again whenever the consumer had to be made anew
    timestamp_ns: int  # when it was stored, since 1970 in UTC
    pending: int  # how many there were after this one when it was sent

    @property
    def timestamp(self) -> datetime:
        """When it was stored, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1_000)
