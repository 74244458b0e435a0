"""Read the `accounts` block and subject mappings, one account at a time.

`config.account_sharing` checks imports against exports once all accounts are known.
"""

import random
from typing import Any

import msgspec
from msgspec.structs import replace

from millstream.base.decimals import read_whole
from millstream.base.nkeys import KeyKind, NkeyError, decode
from millstream.broker.options import (
    GLOBAL_ACCOUNT,
    AccountOptions,
    AccountQuota,
    AccountTrace,
    Export,
    ExportKind,
    Import,
    MapDestination,
    ResponseType,
    ServiceLatency,
    SubjectMapping,
    User,
)
from millstream.config.errors import ConfigError, Location, Notes
from millstream.config.fields import (
    Reader,
    between,
    block,
    boolean,
    choice,
    duration_text,
    field,
    integer,
    items,
    read_block,
    refused,
    secret,
    string,
    unsupported,
    wrong,
)
from millstream.config.jetstream import read_account_jetstream
from millstream.config.tree import Block, TreeEntry
from millstream.config.users import read_permissions, read_users, with_default_permissions
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.subjects.functions import TransformError
from millstream.subjects.tokens import valid_publish_subject, valid_subject
from millstream.subjects.transform import WeightedMapping


class AccountBlock(msgspec.Struct, frozen=True, kw_only=True):
    account: AccountOptions
    users: tuple[User, ...] = ()
    jetstream: AccountJetStreamOptions | None = None
    at: Location | None = None  # where the account's name stands
    users_at: Location | None = None
    places: dict[int, Location]  # location of each import and export, by id()


def read_accounts(entry: TreeEntry, notes: Notes) -> tuple[AccountBlock, ...]:
    """Read the `accounts` block: a map of accounts or a list of bare names."""
    if isinstance(entry.value.data, list):
        return _read_names(entry, notes)
    accounts: list[AccountBlock] = []
    for named in block(entry).values():
        if named.used:  # a variable defined among the accounts
            continue
        try:
            accounts.append(_read_account(named, notes))
        except ConfigError as error:
            notes.errors.extend(error.problems)
    return tuple(accounts)


def _read_names(entry: TreeEntry, notes: Notes) -> tuple[AccountBlock, ...]:
    accounts: dict[str, AccountBlock] = {}
    for item in items(entry):
        name = string(item, notes)
        _check_name(name, item)
        if name in accounts:
            raise refused(item, f'the account "{name}" is listed twice')
        accounts[name] = AccountBlock(account=AccountOptions(name=name), at=item.at, places={})
    return tuple(accounts.values())


def _check_name(name: str, entry: TreeEntry) -> None:
    if name == GLOBAL_ACCOUNT:
        raise ConfigError(f'"{name}" is a reserved account', entry.at)


def _read_account(entry: TreeEntry, notes: Notes) -> AccountBlock:
    _check_name(entry.key, entry)
    settings = read_block(block(entry), _ACCOUNT, notes)
    users: tuple[User, ...] = settings.get("users", ())
    if (permissions := settings.get("default_permissions")) is not None:
        users = with_default_permissions(users, permissions)
    exports, imports = settings.get("exports", []), settings.get("imports", [])
    return AccountBlock(
        account=AccountOptions(
            name=entry.key,
            limits=settings.get("limits", AccountQuota()),
            exports=tuple(export for export, _ in exports),
            imports=tuple(imported for imported, _ in imports),
            mappings=settings.get("mappings", ()),
            trace=settings.get("trace"),
        ),
        users=tuple(replace(user, account=entry.key) for user in users),
        jetstream=settings.get("jetstream"),
        at=entry.at,
        users_at=settings.at("users"),
        places={id(shared): at for shared, at in (*exports, *imports)},
    )


def _read_account_nkey(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    """Check that the value is a public account nkey, and drop it.

    As in nats-server, it is used only in operator mode, which Millstream does not have.
    """
    try:
        kind, _ = decode(secret(entry, notes))
    except NkeyError as error:
        raise refused(entry, f"not a valid public nkey for an account: {error}") from error
    if kind is not KeyKind.ACCOUNT:
        raise refused(entry, "not a valid public nkey for an account")
    return {}


def _read_limits(entry: TreeEntry, notes: Notes) -> AccountQuota:
    return AccountQuota(**read_block(block(entry), _LIMITS, notes))


def _read_trace(entry: TreeEntry, notes: Notes) -> AccountTrace | None:
    """Read `msg_trace`: a destination subject, or a map of `dest` and `sampling`.

    `sampling` is the percentage of externally sampled messages that this account traces.
    """
    if not isinstance(entry.value.data, Block):
        return AccountTrace(dest=_read_trace_dest(entry, notes))
    settings = read_block(block(entry), _TRACE, notes, whole=True)
    if "dest" in settings:
        return AccountTrace(**settings)
    if settings:  # nats-server only logs a warning
        raise refused(entry, "`sampling` needs a `dest`")
    return None


def _read_trace_dest(entry: TreeEntry, notes: Notes) -> str:
    dest = string(entry, notes)
    if not valid_publish_subject(dest.encode()):
        raise refused(entry, f'Trace destination "{dest}" is not valid')
    return dest


def _read_sampling(entry: TreeEntry, notes: Notes) -> int:
    sampling = _read_weight(entry, notes)
    if not sampling:
        raise refused(entry, "sampling is from 1 to 100 percent")
    return sampling


def _read_latency(entry: TreeEntry, notes: Notes) -> ServiceLatency:
    """Read `latency` of a service: the subject of measurements, or a map of it and `sampling`."""
    if not isinstance(entry.value.data, Block):
        return ServiceLatency(_read_latency_subject(entry, notes))
    settings = read_block(block(entry), _LATENCY, notes, whole=True)
    if "subject" not in settings:
        raise refused(entry, "Latency subject required, but missing")
    return ServiceLatency(**settings)


def _read_latency_subject(entry: TreeEntry, notes: Notes) -> str:
    subject = string(entry, notes)
    if not valid_publish_subject(subject.encode()):
        raise refused(entry, f'"{subject}" is no subject for measurements of latency')
    return subject


def _read_latency_sampling(entry: TreeEntry, notes: Notes) -> int:
    """Read a percentage, or `headers`, which is 0."""
    if isinstance(entry.value.data, str) and entry.value.data.strip().lower() == "headers":
        return 0
    return _read_sampling(entry, notes)


def _each(read: Reader) -> Reader:
    """Return a reader that applies `read` to each item of a list and pairs the result with its location.

    An invalid item is noted as an error; the remaining items are still read.
    """

    def read_all(entry: TreeEntry, notes: Notes) -> list[tuple[Any, Location]]:
        results: list[tuple[Any, Location]] = []
        for item in items(entry):
            try:
                results.append((read(item, notes), item.at))
            except ConfigError as error:
                notes.errors.extend(error.problems)
        return results

    return read_all


def _kind(settings: dict[str, Any], entry: TreeEntry) -> ExportKind:
    kinds = [kind for kind in ExportKind if kind.value in settings]
    if len(kinds) != 1:
        raise refused(entry, "each entry needs either `stream` or `service`")
    return kinds[0]


def _read_export(entry: TreeEntry, notes: Notes) -> Export:
    settings = read_block(block(entry), _EXPORT, notes, whole=True)
    kind = _kind(settings, entry)
    if kind is ExportKind.STREAM and "allow_trace" in settings:
        raise refused(entry, "Detected allow_trace directive on non-service")
    if kind is ExportKind.STREAM and "latency" in settings:
        raise refused(entry, "Detected latency directive on non-service")
    single = settings.get("response_type", ResponseType.SINGLETON) is ResponseType.SINGLETON
    if "latency" in settings and not single:
        raise refused(entry, "Error adding service latency sampling: bad service response type")
    if kind is ExportKind.STREAM and (settings.keys() & {"response_type", "response_threshold_s"}):
        raise refused(entry, "a stream has no responses")
    subject = settings.pop(kind.value)
    position = settings.get("account_token_position", 0)
    tokens = subject.split(".")
    if position and (position > len(tokens) or tokens[position - 1] != "*"):
        raise refused(entry, f'account_token_position: token {position} of "{subject}" is not a *')
    return Export(kind=kind, subject=subject, **settings)


def _read_import(entry: TreeEntry, notes: Notes) -> Import:
    settings = read_block(block(entry), _IMPORT, notes, whole=True)
    kind = _kind(settings, entry)
    source = settings.pop(kind.value)
    if kind is ExportKind.STREAM and settings.get("prefix") and settings.get("to"):
        raise refused(entry, "a stream import cannot have both `prefix` and `to`")
    if kind is ExportKind.SERVICE and settings.get("prefix"):
        raise refused(entry, "only a stream import can have a `prefix`")
    if kind is ExportKind.SERVICE and "allow_trace" in settings:
        raise refused(entry, "Detected allow_trace directive on a non-stream")
    if kind is ExportKind.STREAM and settings.get("share"):
        raise refused(entry, "only a service import can be shared")
    return Import(kind=kind, **source, **settings)


def _read_source(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    settings = read_block(block(entry), _SOURCE, notes, whole=True)
    if not settings.get("account") or not settings.get("subject"):
        raise refused(entry, "expected an account and a subject")
    return dict(settings)


def _read_account_list(entry: TreeEntry, notes: Notes) -> tuple[str, ...] | None:
    # Like nats-server, treat an empty list as no list: the export stays public.
    return tuple(string(item, notes) for item in items(entry)) or None


def _read_threshold(entry: TreeEntry, notes: Notes) -> float:
    threshold = duration_text(entry, notes)
    if threshold <= 0:
        raise refused(entry, "must be longer than nothing")
    return threshold


def read_mappings(entry: TreeEntry, notes: Notes) -> tuple[SubjectMapping, ...]:
    """Read the `mappings` block: source subjects with one destination or several weighted ones."""
    mappings: list[SubjectMapping] = []
    for source in block(entry).values():
        try:
            mappings.append(_read_mapping(source, notes))
        except ConfigError as error:
            notes.errors.extend(error.problems)
    return tuple(mappings)


def _read_mapping(entry: TreeEntry, notes: Notes) -> SubjectMapping:
    if not valid_subject(entry.key.encode()):
        raise ConfigError(f'Subject "{entry.key}" is not a valid subject', entry.at)
    data = entry.value.data
    if isinstance(data, str):
        destinations = [MapDestination(subject=data)]
    elif isinstance(data, list):
        destinations = [_read_destination(item, notes) for item in items(entry)]
    elif isinstance(data, Block):
        destinations = [_read_destination(entry, notes)]
    else:
        raise wrong(entry, "a subject, a map or a list of maps")
    try:
        WeightedMapping(entry.key, [(to.subject, to.weight) for to in destinations], random.Random(0))
    except TransformError as error:
        raise ConfigError(f'Error adding mapping for "{entry.key}": {error}', entry.at) from error
    return SubjectMapping(source=entry.key, destinations=tuple(destinations))


def _read_destination(entry: TreeEntry, notes: Notes) -> MapDestination:
    settings = read_block(block(entry), _DESTINATION, notes, whole=True)
    if not settings.get("subject") or "weight" not in settings:
        raise ConfigError("a mapping destination needs `destination` and `weight`", entry.at)
    return MapDestination(**settings)


def _read_weight(entry: TreeEntry, notes: Notes) -> int:
    data = entry.value.data
    if isinstance(data, str) and read_whole(data.removesuffix("%")) is not None:
        weight = read_whole(data.removesuffix("%")) or 0
    else:
        weight = integer(entry, notes)
    if not 0 <= weight <= 100:
        raise refused(entry, f"{weight} is not a percentage")
    return weight


_SOURCE = (field("account", string, "account"), field("subject", string, "subject"))

_RESPONSE_TYPES = {
    "single": ResponseType.SINGLETON,
    "singleton": ResponseType.SINGLETON,
    "stream": ResponseType.STREAM,
    "chunk": ResponseType.CHUNKED,
    "chunked": ResponseType.CHUNKED,
}

_LATENCY = (
    field("sampling", _read_latency_sampling, "sampling"),
    field("subject", _read_latency_subject, "subject"),
)

_EXPORT = (
    field("stream", string, "stream"),
    field("service", string, "service"),
    field("accounts", _read_account_list, "accounts"),
    field("response_type response", choice(_RESPONSE_TYPES), "response_type"),
    field(
        "response_threshold threshold response_max_time response_time",
        _read_threshold,
        "response_threshold_s",
    ),
    field("account_token_position", between(0), "account_token_position"),
    field("latency", _read_latency, "latency"),
    field("allow_trace", boolean, "allow_trace"),
)

_IMPORT = (
    field("stream", _read_source, "stream"),
    field("service", _read_source, "service"),
    field("prefix", string, "prefix"),
    field("to", string, "to"),
    field("share", boolean, "share"),
    field("allow_trace", boolean, "allow_trace"),
)

_DESTINATION = (
    field("destination dest", string, "subject"),
    field("weight", _read_weight, "weight"),
    field("cluster", unsupported("mappings for a cluster", harmless=("",))),
)

_TRACE = (field("dest", _read_trace_dest, "dest"), field("sampling", _read_sampling, "sampling"))

_LIMITS = (
    field("max_connections max_conn", integer, "max_connections"),
    field("max_subscriptions max_subs", integer, "max_subscriptions"),
    field("max_payload max_pay", integer, "max_payload"),
    field("max_leafnodes max_leafs", integer, "max_leafnodes"),
)

_ACCOUNT = (
    field("users", read_users, "users"),
    field("nkey", _read_account_nkey),
    field("imports", _each(_read_import), "imports"),
    field("exports", _each(_read_export), "exports"),
    field("jetstream", read_account_jetstream, "jetstream"),
    field("default_permissions", read_permissions, "default_permissions"),
    field("mappings maps", read_mappings, "mappings"),
    field("limits", _read_limits, "limits"),
    field("msg_trace trace_dest", _read_trace, "trace"),
)
