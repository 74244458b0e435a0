"""A message before it is stored, with the results of its checks so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from millstream.jsapi.publish_types import PUB_ACK_END

if TYPE_CHECKING:
    from millstream.jetstream.publish.counter import Sum

# What a segment has messages with; a restart reads those again.
MARK_MSG_ID: Final = 1
MARK_TTL: Final = 2
MARK_SCHEDULE: Final = 4
MARK_SOURCE: Final = 8


class Incoming(msgspec.Struct):
    """A message that is not stored yet."""

    subject: bytes
    reply: bytes
    block: bytes  # headers; empty if there are none
    payload: bytes
    message_id: bytes = b""
    rollup: bytes = b""  # `sub` or `all`
    ttl_s: int = 0  # 0: lives as long as the stream keeps it; -1: even longer
    increment: int | None = None  # of a counter
    sum: Sum | None = None  # of its subject, if the stream counts
    due_ns: int | None = None  # of a schedule
    marks: int = 0
    ack_end: bytes = PUB_ACK_END  # what the answer has behind the sequence

    @property
    def size(self) -> int:
        """Return the size of its record, as nats-server counts."""
        return 30 + len(self.subject) + (4 + len(self.block) if self.block else 0) + len(self.payload)
