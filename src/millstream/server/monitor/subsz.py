"""`/subsz`: the number of subscriptions, and those that match a subject."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.time import format_time
from millstream.server.monitor.json_page import Listing
from millstream.server.monitor.queries import BadQuery
from millstream.server.monitor.subscriptions import SubscriptionDetail, detail_in, tree_stats, walk
from millstream.subjects.match import valid_literal_subject

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.routes import Subscription
    from millstream.server.server import Server

DEFAULT_LIMIT: Final = 1024
_AT_ONCE: Final = 16  # nodes and subscriptions examined in one step
_NOTHING: Final = object()


class SubszOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The subscriptions to list; field names are those of a request to the system account."""

    offset: int = 0
    limit: int = 0  # 0: the default
    subscriptions: bool = False  # list them at all
    account: str = ""
    test: str = ""  # a literal subject


class Subsz(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    server_id: str
    now: str
    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: float | int
    max_fanout: int
    avg_fanout: float | int
    total: int
    offset: int
    limit: int
    subscriptions_list: Listing | None = None


def subsz(server: Server, options: SubszOptions | None = None) -> Pieces[Subsz]:
    """Return the current document; raises BadQuery for invalid options."""
    options = options or SubszOptions()
    test = options.test.encode()
    if test and not valid_literal_subject(test):
        raise BadQuery(f"invalid test subject, must be valid publish subject: {options.test}")
    offset = max(options.offset, 0)
    limit = options.limit if options.limit > 0 else DEFAULT_LIMIT
    accounts = [
        account
        for account in server.broker.accounts.values()
        if not options.account or account.name == options.account
    ]
    stats = yield from tree_stats(account.space for account in accounts)
    total = 0
    shown: Iterator[SubscriptionDetail | None] = iter(())
    if options.subscriptions and test:
        found = list(_matching(accounts, test))
        total = len(found)
        shown = (detail_in(*entry) for entry in found[offset : offset + limit])
    elif options.subscriptions:
        total = stats.num_subscriptions
        shown = _walked(accounts, offset, limit)
    first = next(shown, _NOTHING)
    while first is None:
        yield 1
        first = next(shown, _NOTHING)
    return Subsz(
        server_id=server.broker.identity.server_id,
        now=format_time(time.time_ns()),
        **msgspec.structs.asdict(stats),
        total=total,
        offset=offset,
        limit=limit,
        subscriptions_list=None if first is _NOTHING else Listing(itertools.chain((first,), shown)),
    )


def _walked(accounts: list[Account], offset: int, limit: int) -> Iterator[SubscriptionDetail | None]:
    """Yield subscriptions from `offset` on, in the order of the trees; None is a step without one."""
    found = steps = 0
    for account in accounts:
        for subscription in walk(account.space):
            steps += 1
            if steps % _AT_ONCE == 0:
                yield None
            if subscription is None:
                continue
            if found >= offset:
                yield detail_in(account, subscription)
            found += 1
            if found >= offset + limit:
                return


def _matching(accounts: list[Account], subject: bytes) -> Iterator[tuple[Account, Subscription]]:
    for account in accounts:
        found = account.space.tree.match(subject)
        for subscription in found.plain:
            yield account, subscription
        for members in found.queues.values():
            for subscription in members:
                yield account, subscription
