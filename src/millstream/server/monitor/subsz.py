"""`/subsz`: how many subscriptions there are, and which ones a subject would reach."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.server.monitor.formats import timestamp
from millstream.server.monitor.queries import BadRequest
from millstream.server.monitor.subscriptions import SubscriptionDetail, detail_in, tree_stats, walk
from millstream.subjects.tokens import valid_literal_subject

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.router import Subscription
    from millstream.server.server import Server

DEFAULT_LIMIT: Final = 1024


class SubszOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which subscriptions to list; names as in a request to the system account."""

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
    subscriptions_list: list[SubscriptionDetail] | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The document without its list, and what belongs into it."""

    document: Subsz
    entries: list[tuple[Account, Subscription]]


def describe(entry: tuple[Account, Subscription]) -> SubscriptionDetail:
    return detail_in(*entry)


def select(server: Server, options: SubszOptions) -> Selection:
    """Find the page asked for, without describing what is on it yet."""
    test = options.test.encode()
    if test and not valid_literal_subject(test):
        raise BadRequest(f"invalid test subject, must be valid publish subject: {options.test}")
    offset = max(options.offset, 0)
    limit = options.limit if options.limit > 0 else DEFAULT_LIMIT
    accounts = [
        account
        for account in server.broker.accounts.values()
        if not options.account or account.name == options.account
    ]
    stats = tree_stats(account.space for account in accounts)
    total = 0
    entries: list[tuple[Account, Subscription]] = []
    if options.subscriptions and test:
        found = list(_matching(accounts, test))
        total = len(found)
        entries = found[offset : offset + limit]
    elif options.subscriptions:
        total = stats.num_subscriptions
        everything = ((account, each) for account in accounts for each in walk(account.space))
        entries = list(islice(everything, offset, offset + limit))
    document = Subsz(
        server_id=server.broker.server_id,
        now=timestamp(time.time_ns()),
        **msgspec.structs.asdict(stats),
        total=total,
        offset=offset,
        limit=limit,
        subscriptions_list=[] if entries else None,
    )
    return Selection(document, entries)


def _matching(accounts: list[Account], subject: bytes) -> Iterator[tuple[Account, Subscription]]:
    for account in accounts:
        found = account.space.tree.match(subject)
        for subscription in found.plain:
            yield account, subscription
        for members in found.queues.values():
            for subscription in members:
                yield account, subscription


def subsz(server: Server, options: SubszOptions | None = None) -> Subsz:
    """The document, of this moment; BadRequest for options that cannot be."""
    selection = select(server, options or SubszOptions())
    if not selection.entries:
        return selection.document
    return msgspec.structs.replace(
        selection.document, subscriptions_list=[describe(entry) for entry in selection.entries]
    )
