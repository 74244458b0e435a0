"""Run operator mode as a part of the server: the accounts that it starts with, and who follows them.

The broker's registry knows the accounts; JetStream, the system requests and the log are told here when one of
them changes.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from millstream.base.errors import MillstreamError
from millstream.base.nkeys import KeyKind
from millstream.base.slices import Pieces
from millstream.broker.operator.tokens import FolderTokens, TokenError, UrlTokens
from millstream.broker.options import SYSTEM_ACCOUNT, ResolverKind
from millstream.claims.decode import read_account, read_operator
from millstream.claims.token import ClaimsError, is_key
from millstream.claims.validation import account_issues
from millstream.jetstream import store_folder
from millstream.jetstream.options import AccountJetStreamOptions

if TYPE_CHECKING:
    from millstream.broker.operator.account import ClaimedAccount
    from millstream.broker.operator.registry import Registry
    from millstream.broker.options import BrokerOptions
    from millstream.claims.types import StorageClaims
    from millstream.server.server import Server

_log = logging.getLogger("millstream.server")

_TIER: Final = "R1"  # of streams with one copy, and there are no others here
_DROPS_S: Final = 60.0  # between looks for cached tokens that are too old
_AGAIN_S: Final = 1.0  # between tries to get the token of the system account


def start_operator(server: Server) -> None:
    """Load the accounts that must be there before clients connect; raise MillstreamError if one is not."""
    broker = server.broker
    trust, registry = broker.options.trust, broker.registry
    if trust is None:
        return
    _tell_of_operators(trust.operators)
    if registry is None:
        return
    registry.tokens.preload(trust.preload)
    _check_preloads(trust.preload)
    system = broker.options.system_account
    if system and system != SYSTEM_ACCOUNT and not registry.look_up_now(system):
        if trust.resolver is None or trust.resolver.kind is ResolverKind.MEMORY:
            raise MillstreamError("Can't set system account: account missing")
        _log.info("Using bootstrapping system account")
        registry.put_bare(system)
        if isinstance(registry.tokens, UrlTokens):
            broker.turns.later(_AGAIN_S, _try_system_account, server, system)
    if server.options.jetstream.enabled:
        folder = server.options.jetstream.store_dir or store_folder.default_folder()
        _load_accounts_with_streams(registry, os.path.join(folder, "jetstream"))
    if isinstance(registry.tokens, FolderTokens) and trust.resolver is not None:
        what = "some" if trust.resolver.kind is ResolverKind.CACHE else "all"
        _log.info("Managing %s jwt in exclusive directory %s", what, registry.tokens.folder)
    _drop_old_tokens(server)
    registry.listeners.append(lambda account: _follow(server, account))


def jetstream_of(account: ClaimedAccount) -> AccountJetStreamOptions | None:
    """Return the limits of an account's JetStream, or None if it has none."""
    if account.claims is None or account.removed or not account.claims.body.limits.jetstream:
        return None
    limits = account.claims.body.limits
    if not limits.tiered_limits:
        return _limits(limits)
    tier = limits.tiered_limits.get(_TIER)
    if tier is None:  # it has JetStream, but no place for a stream with one copy
        return AccountJetStreamOptions(max_memory=0, max_store=0, tier=_TIER, has_tier=False)
    return _limits(tier, tier=_TIER)


def reload_operator(server: Server, options: BrokerOptions) -> Pieces[None]:
    """Apply other preloaded tokens, and those that changed in the folder."""
    registry = server.broker.registry
    if registry is None or options.trust is None:
        return
    registry.trust = options.trust
    registry.tokens.preload(options.trust.preload)
    _check_preloads(options.trust.preload)
    if isinstance(registry.tokens, UrlTokens):
        return
    if isinstance(registry.tokens, FolderTokens):
        changed = registry.tokens.reload()
    else:
        changed = list(registry.accounts)
    for name in changed:
        if name in registry.accounts:
            _renew(registry, name, options.system_account)
        yield 1


def _renew(registry: Registry, name: str, system_account: str) -> None:
    text = ""
    with suppress(TokenError):
        text = registry.tokens.fetch(name)
    try:
        if text:
            registry.put(name, text)
        elif name != system_account:
            registry.forget(name)
    except ClaimsError as error:
        _log.warning("Account [%s]: %s", name, error)
        if name != system_account:
            registry.forget(name)


def _limits(limits: StorageClaims, tier: str = "") -> AccountJetStreamOptions:
    return AccountJetStreamOptions(
        max_memory=limits.mem_storage,
        max_store=limits.disk_storage,
        max_streams=limits.streams,
        max_consumers=limits.consumer,
        max_ack_pending=limits.max_ack_pending if limits.max_ack_pending > 0 else -1,
        memory_max_stream_bytes=limits.mem_max_stream_bytes if limits.mem_max_stream_bytes > 0 else -1,
        store_max_stream_bytes=limits.disk_max_stream_bytes if limits.disk_max_stream_bytes > 0 else -1,
        max_bytes_required=limits.max_bytes_required,
        tier=tier,
    )


def _tell_of_operators(tokens: tuple[str, ...]) -> None:
    if tokens:
        _log.info("Trusted Operators")
    for text in tokens:
        token = read_operator(text).token
        _log.info('  System  : "%s"', token.audience)
        _log.info('  Operator: "%s"', token.name)
        _log.info("  Issued  : %s", _moment(token.issued_at))
        _log.info("  Expires : %s", _moment(token.expires) if token.expires else "Never")


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime(seconds))


def _check_preloads(tokens: dict[str, str]) -> None:
    """Log what is wrong with the accounts of the configuration, before their users find out."""
    for name, text in tokens.items():
        issues = account_issues(read_account(text))
        if issues:
            _log.warning("Account [%s] has validation issues:", name)
        for issue in issues:
            _log.warning("  - %s", issue.description)


def _load_accounts_with_streams(registry: Registry, folder: str) -> None:
    """Look up the accounts whose streams are in the store, so that they are opened."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # there is no store yet
        return
    for name in names:
        if is_key(name, KeyKind.ACCOUNT) and name not in registry.accounts and not registry.look_up_now(name):
            _log.warning("Streams of account %s are not opened: its token is missing or not valid", name)


def _drop_old_tokens(server: Server) -> None:
    """Remove cached tokens that were not used for a while, now and from time to time."""
    trust, registry = server.broker.options.trust, server.broker.registry
    ttl_s = trust.resolver.ttl_s if trust is not None and trust.resolver is not None else 0.0
    if not ttl_s or registry is None or not isinstance(registry.tokens, FolderTokens) or server.stopping:
        return
    try:
        registry.tokens.drop_old()
    except TokenError as error:
        _log.error("resolver: %s", error)
    server.broker.turns.later(min(ttl_s / 2, _DROPS_S), _drop_old_tokens, server)


def _try_system_account(server: Server, name: str) -> None:
    registry = server.broker.registry
    if registry is None or server.stopping:
        return

    def done() -> None:
        known = registry.accounts.get(name)
        if known is None or known.claims is None:
            server.broker.turns.later(_AGAIN_S, _try_system_account, server, name)
        else:
            _log.info("System account fetched and updated")

    registry.look_up(name, done)


def _follow(server: Server, account: ClaimedAccount) -> None:
    server.events.follow_account(account.name)
    server.jetstream.follow_account(account.name, jetstream_of(account))
