"""Closed connections, kept for `/connz?state=closed`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from millstream.base.untracked import untrack
from millstream.base.wide_map import WideMap
from millstream.broker.session import ClientSession

if TYPE_CHECKING:
    from millstream.broker.connection import Connection
    from millstream.broker.routes import Subscription


class SubscriptionRecord(msgspec.Struct, frozen=True, gc=False):
    """A subscription without its owner, so that the record keeps nothing else alive."""

    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    max: int


def record_of(subscription: "Subscription") -> SubscriptionRecord:
    return SubscriptionRecord(
        subscription.subject,
        subscription.queue,
        subscription.sid,
        subscription.delivered,
        subscription.max,
    )


class ClosedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """The last state of a connection, without its buffers."""

    cid: int
    session: ClientSession
    account: str
    stopped_ns: int  # wall clock
    last_activity: float  # monotonic
    round_trip_s: float
    stalls: int  # how often it was paused for sending too fast
    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int
    ended: list[SubscriptionRecord]  # the newest first
    ending: WideMap  # subscriptions that are not ended yet; see `departures`

    @classmethod
    def of(cls, connection: "Connection", now_ns: int) -> "ClosedConnection":
        """Return the state of a connection that is about to be forgotten."""
        ended: list[SubscriptionRecord] = []
        untrack(ended)  # may become long, and what is in it has no references to follow
        return cls(
            cid=connection.cid,
            session=connection.session,
            account=connection.account.name,
            stopped_ns=now_ns,
            last_activity=connection.last_activity,
            round_trip_s=connection.keepalive.round_trip_s,
            stalls=connection.backpressure.stalls,
            in_messages=connection.in_messages,
            in_bytes=connection.in_bytes,
            out_messages=connection.out_messages,
            out_bytes=connection.out_bytes,
            ended=ended,
            ending=connection.subscriptions,
        )

    def subscription_count(self) -> int:
        return len(self.ending) + len(self.ended)

    def subscriptions(self) -> "Iterator[Subscription | SubscriptionRecord]":
        """Yield its subscriptions at its end; nothing else may run meanwhile."""
        yield from self.ending.values()
        yield from reversed(self.ended)
