"""Millstream's own documents for an account, beside those of nats-server, for diagnosis (docs/why.md).

    $MILLSTREAM.INSIGHT.SERVER
        the software, streams that cannot be opened and, if the server has no other account, its connections,
        memory and longest steps
    $MILLSTREAM.INSIGHT.CONSUMER.<stream>.<consumer>
        messages that are pending or were given up

The second document is for users who may publish to the subject of the consumer's info; others get an error.
Answers are bounded, and made in slices.  nats-server does not subscribe to these subjects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.broker.connection import Connection
from millstream.golang.time import format_time
from millstream.server.monitor.varz import varz

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.internal import InternalMessage
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.ledger import Ledger
    from millstream.server.server import Server

SUBJECT: Final = "$MILLSTREAM.INSIGHT.>"
_PENDING_SHOWN: Final = 100
_LOOKED_AT: Final = 100_000  # counts of redeliveries
_PART: Final = 256
_OF_SERVER: Final = ("connections", "subscriptions", "slow_consumers", "mem", "cpu", "uptime", "event_loop")
_CONSUMER_TOKENS: Final = 5


class InsightMessage(msgspec.Struct, omit_defaults=True):
    """A message that waits for its acknowledgement."""

    seq: int
    deliveries: int
    delivered: str  # last
    redeliver: str = ""  # when it is delivered again; empty if never by itself


class ConsumerInsight(msgspec.Struct):
    """The oldest pending messages, and sequences that are not delivered again."""

    pending: list[InsightMessage]
    exhausted: list[int]


def insight(
    server: Server, account: Account, message: InternalMessage
) -> Pieces[dict[str, Any] | ConsumerInsight]:
    """Return the answer to a request."""
    tokens = message.subject.decode(errors="replace").split(".")
    if tokens[2:] == ["SERVER"]:
        return (yield from _about_server(server, account, message))
    if tokens[2:3] == ["CONSUMER"] and len(tokens) == _CONSUMER_TOKENS:
        return (yield from _about_consumer(server, account, message, *tokens[3:]))
    return {"error": "there is no such insight"}


def _about_server(server: Server, account: Account, message: InternalMessage) -> Pieces[dict[str, Any]]:
    told: dict[str, Any] = {"software": "millstream"}
    engine = server.jetstream.engine
    own = engine.accounts.get(account.name) if engine is not None else None
    if own is not None and _may_ask(server, account, message, "STREAM.LIST"):
        told["damaged_streams"] = dict(list(own.unrecovered.items())[:_PENDING_SHOWN])
    others = sum(not each.is_system for each in server.broker.accounts.values())
    if others == 1:
        document = msgspec.to_builtins((yield from varz(server)))
        told |= {name: document[name] for name in _OF_SERVER if name in document}
    return told


def _about_consumer(
    server: Server, account: Account, message: InternalMessage, stream: str, name: str
) -> Pieces[dict[str, Any] | ConsumerInsight]:
    if not _may_ask(server, account, message, f"CONSUMER.INFO.{stream}.{name}"):
        return {"error": "not permitted"}
    engine = server.jetstream.engine
    own = engine.accounts.get(account.name) if engine is not None else None
    if own is not None and stream in own.unrecovered:
        return {"damaged": own.unrecovered[stream]}
    found = own.streams.get(stream) if own is not None else None
    consumer = found.consumers.get(name) if found is not None else None
    if consumer is None:
        return {"error": "consumer not found"}
    return (yield from _consumer_insight(consumer))


def _may_ask(server: Server, account: Account, message: InternalMessage, name: str) -> bool:
    """Return True if the requester belongs to this account and may ask for the consumer's info."""
    asker = message.source
    if not isinstance(asker, Connection) or asker.session is None or asker.session.identity is None:
        return False
    if asker.session.identity.account != account.name:
        return False
    permissions = asker.permissions
    if permissions is None:
        return True
    domain = server.options.jetstream.domain if server.jetstream.engine is not None else ""
    prefixes = ["$JS.API", f"$JS.{domain}.API"] if domain else ["$JS.API"]
    return any(permissions.lists(f"{prefix}.{name}".encode()) for prefix in prefixes)


def _wait(ledger: Ledger, seq: int) -> int:
    """Return how long the consumer waits for the acknowledgement of a pending message."""
    if not ledger.backoff:
        return ledger.ack_wait
    wait: int = ledger.backoff[min(ledger.deliveries(seq), len(ledger.backoff)) - 1]
    return wait


def _consumer_insight(consumer: Consumer) -> Pieces[ConsumerInsight]:
    ledger, world = consumer.ledger, consumer.world
    shift = world.now_ns() - world.steady_ns()
    pending: list[InsightMessage] = []
    seq = ledger.pending.after(0)
    while seq and len(pending) < _PENDING_SHOWN:
        entry = ledger.pending.get(seq)
        wait = _wait(ledger, seq)
        due = entry.due or (entry.at + wait if wait > 0 else 0)
        pending.append(
            InsightMessage(
                seq,
                ledger.deliveries(seq),
                format_time(entry.at + shift),
                format_time(world.now_ns()) if entry.queued else format_time(due + shift) if due else "",
            )
        )
        seq = ledger.pending.after(seq)
    yield len(pending) + 1
    exhausted: list[int] = []
    looked_at = 0
    seq = ledger.redelivered.after(0) if ledger.max_deliver else 0
    while seq and len(exhausted) < _PENDING_SHOWN and looked_at < _LOOKED_AT:
        for _ in range(_PART):
            if seq not in ledger.pending:
                exhausted.append(seq)
            looked_at += 1
            seq = ledger.redelivered.after(seq)
            if not seq:
                break
        yield _PART
    return ConsumerInsight(pending, exhausted[:_PENDING_SHOWN])
