"""Read the settings of operator mode: operators, resolvers and the tokens that are given with them."""

import os
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from millstream.base.decimals import read_whole
from millstream.base.nkeys import KeyKind
from millstream.broker.info import SERVER_VERSION
from millstream.broker.options import ResolverKind, ResolverOptions, Trust
from millstream.claims.decode import read_account, read_operator, read_user, undecorated
from millstream.claims.token import ClaimsError, is_key
from millstream.claims.types import OperatorClaims, UserLimits
from millstream.config.errors import Notes
from millstream.config.fields import (
    block,
    boolean,
    duration_text,
    field,
    integer,
    read_block,
    refused,
    secret,
    string,
    strings,
    wrong,
)
from millstream.config.settings import FoundSettings
from millstream.config.tree import Block, TreeEntry

_TOKEN_START: Final = "eyJ"
_MEMORY: Final = re.compile(r"(MEM|MEMORY)\s*", re.IGNORECASE)
_URL: Final = re.compile(r'URL\(\s*"?([^\s"]*?)"?\s*\)\s*', re.IGNORECASE)
_KINDS: Final = {
    "MEM": ResolverKind.MEMORY,
    "MEMORY": ResolverKind.MEMORY,
    "FULL": ResolverKind.FULL,
    "CACHE": ResolverKind.CACHE,
}
_NOTHING: Final = UserLimits()


def read_operators(entry: TreeEntry, notes: Notes) -> tuple[OperatorClaims, ...]:
    """Read operators: files with their tokens, or the tokens themselves."""
    return tuple(_read_operator(text, entry) for text in strings(entry, notes))


def _read_operator(text: str, entry: TreeEntry) -> OperatorClaims:
    if not text.startswith(_TOKEN_START):
        try:
            with open(text, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise refused(entry, f"error parsing operator JWT: {text}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise refused(entry, f"error parsing operator JWT: {text} is no text") from None
    try:
        return read_operator(undecorated(text))
    except ClaimsError as error:
        raise refused(entry, f"error parsing operator JWT: {error}") from None


def read_resolver(entry: TreeEntry, notes: Notes) -> ResolverOptions:
    data = entry.value.data
    if isinstance(data, Block):
        return _read_folder(entry, notes)
    if not isinstance(data, str):
        raise wrong(entry, 'MEM, URL("url") or a map with type and dir')
    if (url := _URL.fullmatch(data)) is not None:
        _check_url(url[1], entry)
        return ResolverOptions(kind=ResolverKind.URL, url=url[1])
    if _MEMORY.fullmatch(data):
        return ResolverOptions()
    raise refused(
        entry,
        'error parsing account resolver, should be MEM or URL("url") or a map containing dir and type '
        "state=[FULL|CACHE])",
    )


def _check_url(url: str, entry: TreeEntry) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise refused(entry, "error parsing account resolver url: expected http://… or https://…")


def _read_folder(entry: TreeEntry, notes: Notes) -> ResolverOptions:
    settings = read_block(block(entry), _FOLDER, notes, whole=True)
    name = settings.pop("type", "").upper()
    if name not in _KINDS:
        raise refused(entry, f'there is no resolver of type "{name}"; known are MEMORY, FULL and CACHE')
    kind = _KINDS[name]
    if kind is ResolverKind.MEMORY:
        return ResolverOptions()
    folder = settings.get("folder", "")
    if not folder:
        raise refused(entry, "dir has no value and needs to point to a directory")
    if os.path.exists(folder) and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise refused(entry, "dir needs to point to an accessible directory")
    if kind is ResolverKind.CACHE:
        for given, text in (
            ("interval_s", "CACHE does not accept sync"),
            ("allow_delete", "CACHE does not accept allow_delete"),
            ("hard_delete", "CACHE does not accept hard_delete"),
        ):
            if settings.get(given):
                raise refused(entry, text)
    elif settings.get("ttl_s"):
        raise refused(entry, "FULL does not accept ttl")
    elif "hard_delete" in settings and not settings.get("allow_delete"):
        raise refused(entry, "hard_delete has no effect without delete")
    if settings.get("timeout_s", 1) <= 0:
        raise refused(entry, "the timeout is too small")
    return ResolverOptions(kind=kind, **settings)


def read_resolver_tls(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    settings = read_block(block(entry), _RESOLVER_TLS, notes, whole=True)
    if bool(settings.get("cert_file")) != bool(settings.get("key_file")):
        raise refused(entry, "a certificate needs a key, and a key a certificate")
    return {"resolver_tls": dict(settings)}


def read_preload(entry: TreeEntry, notes: Notes) -> dict[str, str]:
    if not isinstance(entry.value.data, Block):
        raise refused(entry, "preload should be a map of account_public_key:account_jwt")
    tokens: dict[str, str] = {}
    for item in entry.value.data.values():
        text = secret(item, notes)
        try:
            read_account(text)
        except ClaimsError as error:
            notes.error(f"invalid account JWT: {error}", item.at)
            continue
        tokens[item.key] = text
    return tokens


def read_trusted_keys(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    keys = strings(entry, notes)
    for key in keys:
        if not is_key(key, KeyKind.OPERATOR):
            raise refused(entry, f'trust key "{key}" required to be a valid public operator nkey')
    return keys


def assemble_trust(settings: FoundSettings, notes: Notes) -> Trust | None:
    """Return who is trusted, or None without operators and trusted keys; note contradictions."""
    operators: tuple[OperatorClaims, ...] = settings.get("operators", ())
    keys: tuple[str, ...] = settings.get("trusted_keys", ())
    sentinel = settings.get("default_sentinel", "")
    if not operators:
        if sentinel:
            notes.error("default sentinel requires operators and accounts", settings.at("default_sentinel"))
        resolver = _resolver(settings, operators)
        return Trust(keys=keys, resolver=resolver, preload=settings.get("preload", {})) if keys else None
    at = settings.at("operators")
    if sentinel:
        _check_sentinel(sentinel, settings, notes)
    resolver = _resolver(settings, operators)
    if resolver is None:
        notes.error("operators require an account resolver to be configured", at)
    if settings.get("accounts"):
        notes.error("operators do not allow Accounts to be configured directly", settings.at("accounts"))
    if (auth := settings.get("authorization")) is not None and auth.users:
        notes.error("operators do not allow users to be configured directly", auth.at)
    if keys:
        notes.error("conflicting options for 'TrustedKeys' and 'TrustedOperators'", at)
    _check_system_account(settings, operators, resolver, notes)
    for operator in operators:
        if problem := _version_problem(operator):
            notes.error(problem, at)
    trusted = _trusted_keys(operators)
    for key in trusted:
        if not is_key(key, KeyKind.OPERATOR):
            notes.error(f'trusted Keys "{key}" are required to be a valid public operator nkey', at)
    return Trust(
        keys=trusted,
        strict_keys=frozenset(
            key for each in operators if each.body.strict_signing_key_usage for key in each.body.signing_keys
        ),
        operator=operators[0].token.subject,
        operators=tuple(each.token.text for each in operators),
        resolver=resolver,
        preload=settings.get("preload", {}),
        pinned_accounts=_pinned(settings, notes),
        default_sentinel=sentinel,
    )


def system_account_of(settings: FoundSettings) -> str:
    """Return the system account that a single operator names, or an empty string."""
    operators: tuple[OperatorClaims, ...] = settings.get("operators", ())
    return operators[0].body.system_account if len(operators) == 1 else ""


def _trusted_keys(operators: Sequence[OperatorClaims]) -> tuple[str, ...]:
    keys: list[str] = []
    for operator in operators:
        if not operator.body.strict_signing_key_usage:
            keys.append(operator.token.subject)
        keys += operator.body.signing_keys
    return tuple(keys)


def _resolver(settings: FoundSettings, operators: Sequence[OperatorClaims]) -> ResolverOptions | None:
    """Return the configured resolver, or else the URL that a single operator names."""
    resolver: ResolverOptions | None = settings.get("resolver")
    if resolver is None and len(operators) == 1 and operators[0].body.account_server_url:
        url = f"{operators[0].body.account_server_url.rstrip('/')}/accounts"
        resolver = ResolverOptions(kind=ResolverKind.URL, url=url)
    return replace(resolver, **settings.get("resolver_tls", {})) if resolver is not None else None


def _check_sentinel(sentinel: str, settings: FoundSettings, notes: Notes) -> None:
    at = settings.at("default_sentinel")
    try:
        user = read_user(sentinel)
    except ClaimsError:
        notes.error("default sentinel JWT not valid", at)
        return
    empty = all(getattr(user.body, name) == getattr(_NOTHING, name) for name in UserLimits.__struct_fields__)
    if not user.body.bearer_token and not (user.issuer_account and empty):
        notes.error("default sentinel must be a bearer token", at)


def _check_system_account(
    settings: FoundSettings,
    operators: Sequence[OperatorClaims],
    resolver: ResolverOptions | None,
    notes: Notes,
) -> None:
    name = settings.get("system_account", "")
    theirs = {each.body.system_account for each in operators} - {""}
    if name and theirs and name not in theirs:
        notes.error(
            "system_account in config and operator JWT must be identical", settings.at("system_account")
        )
    folder = resolver is not None and resolver.kind in (ResolverKind.FULL, ResolverKind.CACHE)
    if folder and not name and not operators[0].body.system_account:
        notes.error(
            "using nats based account resolver - the system account needs to be specified in configuration "
            "or the operator jwt",
            settings.at("resolver"),
        )


def _version_problem(operator: OperatorClaims) -> str:
    wanted = operator.body.assert_server_version
    if not wanted:
        return ""
    subject = operator.token.subject
    parts = wanted.split(".")
    numbers = [number for part in parts if (number := read_whole(part)) is not None]
    if len(parts) != 3 or len(numbers) != 3:
        return (
            f"operator {subject} expects version {wanted} got error instead: asserted server version must be "
            "of the form <major>.<minor>.<update>"
        )
    ours = [int(part) for part in SERVER_VERSION.split(".")]
    for what, theirs, mine in zip(("major", "minor", "update"), numbers, ours, strict=True):
        if theirs > mine:
            return f"operator {subject} expected {what} version {theirs} > server {what} version {mine}"
        if theirs < mine:
            break
    return ""


def _pinned(settings: FoundSettings, notes: Notes) -> frozenset[str] | None:
    pinned: tuple[str, ...] = settings.get("pinned_accounts", ())
    for key in pinned:
        if not is_key(key, KeyKind.ACCOUNT):
            notes.error(
                f'pinned account key "{key}" is not a valid public account nkey',
                settings.at("pinned_accounts"),
            )
    system = settings.get("system_account") or system_account_of(settings)
    return frozenset((*pinned, system)) if pinned else None


_FOLDER = (
    field("type", string, "type"),
    field("dir", string, "folder"),
    field("allow_delete", boolean, "allow_delete"),
    field("hard_delete", boolean, "hard_delete"),
    field("limit", integer, "limit"),
    field("ttl", duration_text, "ttl_s"),
    field("interval", duration_text, "interval_s"),
    field("timeout", duration_text, "timeout_s"),
)

_RESOLVER_TLS = (
    field("ca_file", string, "ca_file"),
    field("cert_file", string, "cert_file"),
    field("key_file", string, "key_file"),
)
