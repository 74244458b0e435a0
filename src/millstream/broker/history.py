"""Connections that have ended, remembered for `/connz?state=closed`."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millstream.broker.session import Session

if TYPE_CHECKING:
    from millstream.broker.connection import Connection


class SubscriptionRecord(NamedTuple):
    """A subscription without its owner, so that remembering it keeps nothing else alive."""

    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    max: int


class ClosedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """Its last state, without the buffers."""

    cid: int
    session: Session
    account: str
    stopped_ns: int  # wall clock
    last_activity: float  # monotonic
    round_trip_s: float
    stalls: int  # how often it was paused for sending too fast
    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int
    subscriptions: list[SubscriptionRecord]

    @classmethod
    def of(cls, connection: "Connection", now_ns: int) -> "ClosedConnection":
        """The state of a connection that is about to be forgotten."""
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
            subscriptions=[
                SubscriptionRecord(each.subject, each.queue, each.sid, each.delivered, each.max)
                for each in connection.subscriptions.values()
            ],
        )
