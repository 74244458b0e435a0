"""Prepare a change of accounts in slices, so that it comes into force in one short step.

A configuration may have thousands of accounts, of which a reload changes a few, or adds most.  Everything
that nobody can reach yet is made before: new accounts, mappings, imports.  What stays as it is is left alone:
an account gets new imports only if its own changed, or the exports of an account that it imports from.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base import guard
from millstream.base.slices import Pieces, finish
from millstream.broker import options
from millstream.broker.accounts import Account
from millstream.broker.fan_out import FanOut
from millstream.broker.imports import Wiring
from millstream.broker.mappings import account_mapping
from millstream.broker.service_exports import Offers, ServiceExports

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

_chance: Final = random.Random()  # for weighted mappings; seeding one takes longer than anything else here


class Prepared(msgspec.Struct):
    """A new or a running account, and its next options."""

    account: Account
    configured: options.AccountOptions
    mappings: tuple[options.SubjectMapping, ...]
    mapping: Callable[[bytes], bytes] | None

    def apply(self, broker: Broker) -> None:
        """Put the options in force; the imports of the account stay."""
        account = self.account
        broker.accounts[account.name] = account
        account.configured = self.configured
        account.space.traced = self.configured.trace is not None
        if self.mappings or account.space.mapping is not None:
            account.space.mapping = self.mapping
            account.space.drop_all_routes()
            account.mapped_subjects = tuple(each.source.encode() for each in self.mappings)


class AccountChanges(msgspec.Struct):
    """All changes of the accounts in the options.  Accounts that tokens describe follow their tokens."""

    configured: dict[str, options.AccountOptions]
    domains: set[str]  # accounts with another default domain
    accounts: list[Prepared]
    wirings: list[Wiring]

    def apply(self, broker: Broker) -> list[Account]:
        """Put all in force; return accounts that are gone, whose imports are still there."""
        known = _described(broker)
        for each in self.accounts:
            if each.account.name not in known:
                each.apply(broker)
        for name in self.domains & known & broker.accounts.keys():
            put(broker, broker.accounts[name].configured)
        gone = [
            running
            for name, running in broker.accounts.items()
            if name not in self.configured and name not in known
        ]
        for account in gone:
            del broker.accounts[account.name]
        guard.alone("renewing imports", broker.imports.exchange, self.wirings)
        return gone


def prepare(broker: Broker, new: options.BrokerOptions) -> Pieces[AccountChanges]:
    """Return what the options `new` change; the broker stays as it is."""
    known = _described(broker)
    configured = {name: each for name, each in accounts_of(new).items() if name not in known}
    before, after = broker.options.default_js_domains, new.default_js_domains
    domains = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    accounts: list[Prepared] = []
    found: dict[str, Account] = {}
    replaced: dict[str, ServiceExports | None] = {}  # the services before, of those with other exports
    offers = Offers()
    for name, each in configured.items():
        running = broker.accounts.get(name)
        if running is None or name in domains or running.configured != each:
            if running is None or running.configured.exports != each.exports:
                replaced[name] = None if running is None else ServiceExports(running.configured.exports)
            accounts.append((yield from prepare_account(broker, each, new)))
            running = accounts[-1].account
        found[name] = running
        yield 1
    wirings: list[Wiring] = []
    for name, each in configured.items():
        running = broker.accounts.get(name)
        imports = running.configured.imports if running is not None else ()
        if imports != each.imports or any(
            _changes(item, replaced[item.account], offers.of(configured[item.account]))
            for item in each.imports
            if item.account in replaced
        ):
            wiring = Wiring(found[name])
            for item in each.imports:
                wiring.add(broker, item, found[item.account], offers.of(configured[item.account]))
                yield 1
            wirings.append(wiring)
        yield 1
    return AccountChanges(configured, domains, accounts, wirings)


def _changes(item: options.Import, before: ServiceExports | None, after: ServiceExports) -> bool:
    """Return True if an import becomes another one; `before` is None for a new account."""
    if before is None or item.kind is options.ExportKind.STREAM:
        return before is None
    return before.find(item.subject) != after.find(item.subject)


def _described(broker: Broker) -> Set[str]:
    """Return the names of accounts that tokens describe."""
    return broker.registry.accounts.keys() if broker.registry is not None else frozenset()


def accounts_of(new: options.BrokerOptions) -> dict[str, options.AccountOptions]:
    """Return all accounts that are in the options, by name."""
    configured = {account.name: account for account in new.accounts}
    configured.setdefault(
        options.GLOBAL_ACCOUNT,
        options.AccountOptions(name=options.GLOBAL_ACCOUNT, mappings=new.mappings),
    )
    if new.system_account:
        configured.setdefault(new.system_account, options.AccountOptions(name=new.system_account))
    return configured


def prepare_account(
    broker: Broker, configured: options.AccountOptions, new: options.BrokerOptions
) -> Pieces[Prepared]:
    """Return one account with other options; makes it if there is none."""
    name = configured.name
    account = broker.accounts.get(name)
    if account is None:
        is_system = name == new.system_account
        account = Account(configured, is_system=is_system, seed=random.getrandbits(31))
        account.space.fan_out = FanOut(broker, account.space)
    mappings = (
        *configured.mappings,
        *broker.built_in_mappings.get(name, ()),
        *options.default_domain_mappings(new.default_js_domains.get(name, "")),
    )
    mapping = yield from account_mapping(mappings, _chance)
    return Prepared(account, configured, mappings, mapping)


def put(broker: Broker, configured: options.AccountOptions) -> Account:
    """Put the options of one account in force now; its imports stay."""
    prepared = finish(prepare_account(broker, configured, broker.options))
    prepared.apply(broker)
    return prepared.account
