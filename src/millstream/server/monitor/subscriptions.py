"""Subscriptions in documents: each one's description, and statistics of the subscription trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.broker.connection import Connection
from millstream.server.monitor.formats import number, text_of

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.history import SubscriptionRecord
    from millstream.broker.router import SubjectSpace
    from millstream.broker.routes import Subscription

_AT_ONCE: Final = 256  # routes of a slice
INTERNAL_CID: Final = 1  # of the server's own subscriptions; clients have higher ids


class SubscriptionDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    account: str = ""
    account_tag: str = ""
    subject: str
    qgroup: str = ""
    sid: str
    msgs: int
    max: int = 0
    cid: int


def detail(
    subscription: Subscription | SubscriptionRecord, cid: int, account: str = ""
) -> SubscriptionDetail:
    """Return the description of a subscription; `account` is left out where the connection shows it."""
    return SubscriptionDetail(
        account=account,
        account_tag=account,
        subject=text_of(subscription.subject),
        qgroup=text_of(subscription.queue or b""),
        sid=text_of(subscription.sid),
        msgs=subscription.delivered,
        max=subscription.max,
        cid=cid,
    )


def detail_in(account: Account, subscription: Subscription) -> SubscriptionDetail:
    """Return the description of a subscription in an account's tree; an importing account may own it."""
    owner = subscription.owner
    if isinstance(owner, Connection):
        return detail(subscription, owner.cid, owner.account.name)
    return detail(subscription, INTERNAL_CID, account.name)


def walk(space: SubjectSpace) -> Iterator[Subscription | None]:
    """Yield all subscriptions of a tree, and None for every node without one.

    Subscriptions that come or go meanwhile may be missing.
    """
    for found in space.tree.walk():
        if found:
            yield from found
        else:
            yield None


class TreeStats(msgspec.Struct, frozen=True):
    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: float | int
    max_fanout: int
    avg_fanout: float | int


def tree_stats(spaces: Iterable[SubjectSpace]) -> Pieces[TreeStats]:
    """Return the statistics of all subject spaces together, computed in slices (``base.slices``)."""
    count = cached = inserts = removes = lookups = hits = fanout = widest = 0
    for space in spaces:
        count += space.tree.count
        inserts += space.tree.inserts
        removes += space.tree.removes
        cached += len(space.routes)
        lookups += space.lookups
        hits += space.cache_hits
        for seen, route in enumerate(list(space.routes.values()), start=1):
            receivers = route.receivers()
            fanout += receivers
            widest = max(widest, receivers)
            if seen % _AT_ONCE == 0:
                yield _AT_ONCE
        yield 1
    return TreeStats(
        num_subscriptions=count,
        num_cache=cached,
        num_inserts=inserts,
        num_removes=removes,
        num_matches=lookups,
        cache_hit_rate=number(hits / lookups) if lookups else 0,
        max_fanout=widest,
        avg_fanout=number(fanout / cached) if cached else 0,
    )
