"""Read users, permissions and the `authorization` block."""

from typing import Any

from msgspec.structs import replace

from millstream.base.nkeys import NkeyError, check_user_key
from millstream.broker.options import (
    ConnectionType,
    Permissions,
    ResponseRule,
    SubjectRules,
    User,
)
from millstream.config.callout import read_callout
from millstream.config.errors import ConfigError, Notes
from millstream.config.fields import (
    block,
    duration_text,
    field,
    integer,
    items,
    positive,
    read_block,
    refused,
    seconds,
    secret,
    string,
    strings,
    unsupported,
    wrong,
)
from millstream.config.settings import AuthorizationBlock
from millstream.config.tree import Block, TreeEntry
from millstream.subjects.tokens import valid_subject

_NO_PROXIES = unsupported("proxies in front of clients", harmless=(False,))
_LONG_TIMEOUT_S = 60


def read_authorization(entry: TreeEntry, notes: Notes) -> AuthorizationBlock:
    settings = read_block(block(entry), _AUTHORIZATION, notes, whole=True)
    permissions = settings.pop("default_permissions", None)
    auth = AuthorizationBlock(**settings, at=entry.at)
    if (auth.username or auth.password) and auth.token:
        raise refused(entry, "cannot have both a user/password and a token")
    if auth.users is not None and auth.username:
        raise refused(entry, "cannot have both a single user/password and a users list")
    if auth.users is not None and auth.token:
        raise refused(entry, "cannot have both a token and a users list")
    if auth.users and permissions is not None:
        auth = replace(auth, users=with_default_permissions(auth.users, permissions))
    return auth


def with_default_permissions(users: tuple[User, ...], default: Permissions) -> tuple[User, ...]:
    return tuple(replace(user, permissions=default) if user.permissions is None else user for user in users)


def _read_timeout(entry: TreeEntry, notes: Notes) -> float | None:
    timeout = seconds(entry, notes)
    if timeout > _LONG_TIMEOUT_S:
        notes.warn(
            f'invalid use of field "{entry.key}": {timeout:g} seconds is high, consider keeping it under '
            "60 seconds; an unquoted 1m means a million",
            entry.at,
        )
    if timeout < 0:
        raise refused(entry, "must not be negative")
    return timeout or None


def read_users(entry: TreeEntry, notes: Notes) -> tuple[User, ...]:
    users: list[User] = []
    for item in items(entry, "a list of users"):
        try:
            users.append(_read_user(item, notes))
        except ConfigError as error:
            notes.errors.extend(error.problems)
    return tuple(users)


def _read_user(entry: TreeEntry, notes: Notes) -> User:
    settings = read_block(block(entry), _USER, notes, whole=True)
    user = User(**settings)
    if not user.name and not user.nkey:
        raise refused(entry, "a user needs `user` or `nkey`")
    if user.nkey and (user.name or user.password):
        raise refused(entry, "a user with an nkey takes no name or password")
    return user


def _read_nkey(entry: TreeEntry, notes: Notes) -> str:
    key = secret(entry, notes)
    try:
        check_user_key(key)
    except NkeyError as error:
        raise refused(entry, f"not a valid public nkey for a user: {error}") from error
    return key


def _read_connection_types(entry: TreeEntry, notes: Notes) -> frozenset[ConnectionType] | None:
    types: set[ConnectionType] = set()
    for name in strings(entry, notes):
        try:
            types.add(ConnectionType(name.upper()))
        except ValueError:
            known = ", ".join(ConnectionType)
            raise refused(entry, f'unknown connection type "{name}"; known are {known}') from None
    return frozenset(types) or None


def read_permissions(entry: TreeEntry, notes: Notes) -> Permissions:
    settings = read_block(block(entry), _PERMISSIONS, notes)
    permissions = Permissions(**settings)
    if permissions.allow_responses is not None and permissions.publish.allow is None:
        # A user with `allow_responses` may publish nothing but responses, unless `publish` is listed too.
        permissions = replace(permissions, publish=replace(permissions.publish, allow=()))
    return permissions


def _rules(*, queues: bool) -> Any:
    def read_subjects(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
        subjects = strings(entry, notes)
        for subject in subjects:
            _check_subject(entry, subject, queues)
        return subjects

    allow_and_deny = (field("allow", read_subjects, "allow"), field("deny", read_subjects, "deny"))

    def read(entry: TreeEntry, notes: Notes) -> SubjectRules:
        if isinstance(entry.value.data, Block):
            settings = read_block(entry.value.data, allow_and_deny, notes)
            return SubjectRules(allow=settings.get("allow") or None, deny=settings.get("deny", ()))
        if not isinstance(entry.value.data, str | list):
            raise wrong(entry, "a permission: a subject, a list of subjects, or a map with allow and deny")
        # As in nats-server, an empty list restricts nothing.
        return SubjectRules(allow=read_subjects(entry, notes) or None)

    return read


def _check_subject(entry: TreeEntry, text: str, queues: bool) -> None:
    if valid_subject(text.encode()):
        return
    words = text.split()
    if not queues or len(words) != 2 or not valid_subject(words[0].encode()):
        raise refused(entry, f'subject "{text}" is not a valid subject')
    if not valid_subject(words[1].encode()):
        raise refused(entry, f'queue "{words[1]}" is not a valid queue')


def _read_responses(entry: TreeEntry, notes: Notes) -> ResponseRule | None:
    if isinstance(entry.value.data, bool):
        return ResponseRule() if entry.value.data else None
    if not isinstance(entry.value.data, Block):
        raise wrong(entry, "true, false or a map")
    settings = read_block(entry.value.data, _RESPONSES, notes)
    # Zero stands for the default.
    return ResponseRule(**{name: value for name, value in settings.items() if value})


_RESPONSES = (
    field("max max_msgs max_messages max_responses", integer, "max_messages"),
    field("expires expiration ttl", duration_text, "expires_s"),
)

_PERMISSIONS = (
    field("publish pub import", _rules(queues=False), "publish"),
    field("subscribe sub export", _rules(queues=True), "subscribe"),
    field("allow_responses publish_allow_responses", _read_responses, "allow_responses"),
)

_USER = (
    field("user username", string, "name"),
    field("password pass", secret, "password"),
    field("nkey", _read_nkey, "nkey"),
    field("permissions permission authorization", read_permissions, "permissions"),
    field("allowed_connection_types connection_types clients", _read_connection_types, "connection_types"),
    field("proxy_required", _NO_PROXIES),
)

_AUTHORIZATION = (
    field("user username", string, "username"),
    field("password pass", secret, "password"),
    field("token", secret, "token"),
    field("timeout", _read_timeout, "timeout_s"),
    field("users", read_users, "users"),
    field("default_permissions default_permission permissions", read_permissions, "default_permissions"),
    field("auth_callout auth_hook", read_callout, "callout"),
    field("proxy_required", _NO_PROXIES),
)

# The keys that a listener with its own authorization may set.
SIMPLE_AUTHORIZATION = (
    field("user username", string, "username"),
    field("password pass", secret, "password"),
    field("token", secret, "token"),
    field("timeout", positive(seconds), "auth_timeout_s"),
)
