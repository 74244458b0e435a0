"""`/accountz` and `/accstatz`: accounts, their imports and exports, and the traffic of their clients."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.broker.options import Export, ExportKind, Import, ResponseType, SubjectMapping
from millstream.broker.totals import Traffic
from millstream.golang.time import format_time
from millstream.server.monitor import totals
from millstream.server.monitor.json_page import Listing
from millstream.server.monitor.jsz import jetstream_of
from millstream.server.monitor.queries import BadQuery
from millstream.server.monitor.subscriptions import TreeStats, tree_stats
from millstream.subjects.transform import pattern_to_destination

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.operator.account import ClaimedAccount
    from millstream.server.server import Server

_WHOLE: Final = 100  # percent

# Requests that every account may send to the system account: the subject as sent, and as it arrives.
_SYSTEM_SERVICES: Final = (
    ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.{account}.CONNZ"),
    ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.{account}.CONNZ"),
    ("$SYS.REQ.ACCOUNT.PING.STATZ", "$SYS.REQ.ACCOUNT.{account}.STATZ"),
)
_USER_INFO: Final = ("$SYS.REQ.USER.INFO", "$SYS.REQ.USER.{account}.INFO")
_SYSTEM_EXPORTS: Final = (
    Export(kind=ExportKind.SERVICE, subject="$SYS.REQ.ACCOUNT.*.CONNZ", response_type=ResponseType.STREAM),
    Export(kind=ExportKind.SERVICE, subject="$SYS.REQ.ACCOUNT.*.STATZ", response_type=ResponseType.STREAM),
    Export(kind=ExportKind.SERVICE, subject="$SYS.DEBUG.SUBSCRIBERS"),
    Export(kind=ExportKind.SERVICE, subject="$SYS.REQ.USER.*.INFO"),
)
_RESPONSE_TYPES: Final = {
    ResponseType.SINGLETON: "Singleton",
    ResponseType.STREAM: "Streamed",
    ResponseType.CHUNKED: "Chunked",
}


class AccountzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The account to describe; field names are those of a request to the system account."""

    account: str = ""  # empty: list them all


class AccountStatzOptions(msgspec.Struct, frozen=True, kw_only=True):
    accounts: list[str] = []  # empty: all
    include_unused: bool = False  # include accounts without clients


class ExportInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    subject: str
    type: str
    response_type: str = ""
    account_token_position: int = 0
    approved_accounts: list[str] = []


class ImportInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    subject: str
    account: str
    to: str = ""
    local_subject: str
    type: str
    invalid: bool
    share: bool
    tracking: bool


class MappedTo(msgspec.Struct, frozen=True):
    subject: str
    weight: int  # percent, cumulative


class AccountDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    account_name: str
    update_time: str
    is_system: bool = False
    expired: bool
    complete: bool
    jetstream_enabled: bool
    leafnode_connections: int
    client_connections: int
    subscriptions: int
    mappings: dict[str, list[MappedTo]] = {}
    exports: list[ExportInfo] = []
    imports: list[ImportInfo] = []
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str
    tags: tuple[str, ...] = ()
    decoded_jwt: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    revoked_user: dict[str, str] = {}
    sublist_stats: TreeStats


class Accountz(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    server_id: str
    now: str
    system_account: str = ""
    accounts: Listing | list[None] = []
    account_detail: AccountDetail | None = None


class Amount(msgspec.Struct, frozen=True):
    msgs: int = 0
    bytes: int = 0


class AmountByKind(msgspec.Struct, frozen=True, kw_only=True):
    """Messages and bytes of clients and links together, and those of links alone."""

    msgs: int
    bytes: int
    gateways: Amount = Amount()
    routes: Amount = Amount()
    leafs: Amount = Amount()


class AccountStat(msgspec.Struct, frozen=True, kw_only=True):
    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: AmountByKind
    received: AmountByKind
    slow_consumers: int


class AccountStatz(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    now: str
    account_statz: Listing | list[None]


def accountz(server: Server, options: AccountzOptions | None = None) -> Pieces[Accountz]:
    """Return the list of accounts, or one in detail; raises BadQuery for an unknown account."""
    broker = server.broker
    name = options.account if options is not None else ""
    return Accountz(
        server_id=broker.identity.server_id,
        now=format_time(time.time_ns()),
        system_account=broker.options.system_account,
        accounts=Listing(list(broker.accounts)) if broker.accounts and not name else [],
        account_detail=(yield from account_info(server, name)) if name else None,
    )


def account_info(server: Server, name: str) -> Pieces[AccountDetail]:
    """Return the description of one account."""
    account = server.broker.accounts.get(name)
    if account is None:
        raise BadQuery(f"Account {name} does not exist")
    registry = server.broker.registry
    claimed = registry.accounts.get(name) if registry is not None else None
    updated_ns = registry.updated_ns.get(name, 0) if registry is not None else 0
    view = jetstream_of(server)
    return AccountDetail(
        account_name=name,
        update_time=format_time(updated_ns or server.configured_ns),
        is_system=account.is_system,
        expired=claimed is not None and claimed.expired(),
        complete=claimed is None or not claimed.wanting,
        jetstream_enabled=view is not None and view.account_enabled(name),
        leafnode_connections=len(account.links),
        client_connections=len(account.connections),
        subscriptions=account.space.tree.count,
        mappings={mapping.source: _mapped_to(mapping) for mapping in account.configured.mappings},
        exports=_exports(account),
        imports=_imports(account, server.broker.options.system_account),
        **_token_fields(claimed),
        name_tag=account.tag,
        sublist_stats=(yield from tree_stats([account.space])),
    )


def _token_fields(account: ClaimedAccount | None) -> dict[str, Any]:
    if account is None or account.claims is None:
        return {}
    token, body = account.claims.token, account.claims.body
    return {
        "jwt": token.text,
        "issuer_key": token.issuer,
        "tags": token.tags,
        "decoded_jwt": msgspec.Raw(token.claims),
        "revoked_user": {key: format_time(at * 10**9) for key, at in body.revocations.items()},
    }


def account_statz(server: Server, options: AccountStatzOptions | None = None) -> Pieces[AccountStatz]:
    """Return the traffic of the accounts that have clients."""
    options = options or AccountStatzOptions()
    accounts = server.broker.accounts
    found: list[AccountStat] = []
    for name in options.accounts or list(accounts):
        account = accounts.get(name)
        if account is not None and (options.include_unused or account.connections or account.links):
            traffic = yield from totals.account_traffic(account)
            found.append(account_stat(account, traffic))
        yield 1
    return AccountStatz(
        server_id=server.broker.identity.server_id,
        now=format_time(time.time_ns()),
        account_statz=_listed(found),
    )


def _listed(found: list[AccountStat]) -> Listing | list[None]:
    return Listing(found) if found else []


def account_stat(account: Account, traffic: Traffic) -> AccountStat:
    connections = len(account.connections)
    sent, received = _of_links(account)
    return AccountStat(
        acc=account.name,
        name=account.tag,
        conns=connections,
        leafnodes=len(account.links),
        total_conns=connections + len(account.links),
        num_subscriptions=account.space.tree.count,
        sent=AmountByKind(
            msgs=traffic.out_messages + sent.msgs,
            bytes=traffic.out_bytes + sent.bytes,
            leafs=sent,
        ),
        received=AmountByKind(
            msgs=traffic.in_messages + received.msgs, bytes=traffic.in_bytes + received.bytes, leafs=received
        ),
        slow_consumers=account.totals.slow_consumers,
    )


def _of_links(account: Account) -> tuple[Amount, Amount]:
    """Return what was sent to and received from the other servers."""
    links = list(account.links.values())
    return (
        Amount(sum(link.out_messages for link in links), sum(link.out_bytes for link in links)),
        Amount(sum(link.in_messages for link in links), sum(link.in_bytes for link in links)),
    )


def _exports(account: Account) -> list[ExportInfo]:
    exports = [_export(export) for export in account.configured.exports]
    if account.is_system:
        exports += [_export(export) for export in _SYSTEM_EXPORTS]
    return exports


def _export(export: Export) -> ExportInfo:
    is_service = export.kind is ExportKind.SERVICE
    return ExportInfo(
        subject=export.subject,
        type=export.kind.value,
        response_type=_RESPONSE_TYPES[export.response_type] if is_service else "",
        account_token_position=export.account_token_position,
        approved_accounts=list(export.accounts or ()),
    )


def _imports(account: Account, system_account: str) -> list[ImportInfo]:
    imports = [_import(configured) for configured in account.configured.imports]
    if system_account:
        services = (_USER_INFO,) if account.is_system else (*_SYSTEM_SERVICES, _USER_INFO)
        for local, remote in services:
            subject = remote.format(account=account.name)
            imports.append(_service(system_account, subject, local, share=local == _USER_INFO[0]))
    return imports


def _import(configured: Import) -> ImportInfo:
    local = configured.to or configured.subject
    if configured.kind is ExportKind.SERVICE:
        return _service(configured.account, configured.subject, local, share=configured.share)
    if configured.prefix:
        local = f"{configured.prefix.rstrip('.')}.{configured.subject}"
    return ImportInfo(
        subject=configured.subject,
        account=configured.account,
        local_subject=local,
        type=configured.kind.value,
        invalid=False,
        share=False,
        tracking=False,
    )


def _service(account: str, subject: str, local: str, *, share: bool) -> ImportInfo:
    return ImportInfo(
        subject=subject,
        account=account,
        to=local,
        local_subject=local,
        type=ExportKind.SERVICE.value,
        invalid=False,
        share=share,
        tracking=False,
    )


def _mapped_to(mapping: SubjectMapping) -> list[MappedTo]:
    """Return destinations by weight, cumulative; the rest up to 100 keeps its subject."""
    shares = [(each.weight, each.subject) for each in mapping.destinations]
    rest = _WHOLE - sum(weight for weight, _ in shares)
    if rest > 0 and all(subject != mapping.source for _, subject in shares):
        shares.append((rest, pattern_to_destination(mapping.source)))
    shares.sort(key=lambda share: share[0])
    destinations, sum_so_far = [], 0
    for weight, subject in shares:
        sum_so_far += weight
        destinations.append(MappedTo(subject, sum_so_far))
    return destinations
