"""Read `auth_callout`: the service that decides who may log in."""

from collections.abc import Collection, Sequence

from millstream.base.nkeys import KeyKind
from millstream.broker.options import GLOBAL_ACCOUNT, CalloutOptions, User
from millstream.config.errors import Location, Notes
from millstream.config.fields import block, field, read_block, refused, string, strings
from millstream.config.tree import TreeEntry


def read_callout(entry: TreeEntry, notes: Notes) -> CalloutOptions:
    """Read the block; accounts and users are checked by `check_callout` when all of them are known."""
    settings = read_block(block(entry), _CALLOUT, notes, whole=True)
    if not settings.get("issuer"):
        raise refused(entry, "Authorization callouts require an issuer to be specified")
    if not settings.get("users"):
        raise refused(entry, "Authorization callouts require authorized users to be specified")
    return CalloutOptions(**{name: value for name, value in settings.items() if value})


def _read_issuer(entry: TreeEntry, notes: Notes) -> str:
    return _read_key(entry, notes, KeyKind.ACCOUNT, "Expected callout user to be a valid public account nkey")


def _read_xkey(entry: TreeEntry, notes: Notes) -> str:
    return _read_key(entry, notes, KeyKind.CURVE, "Expected callout xkey to be a valid public xkey")


def _read_key(entry: TreeEntry, notes: Notes, kind: KeyKind, expected: str) -> str:
    # Here, because servers without a callout start without it.
    from millstream.claims.token import is_key

    key = string(entry, notes)
    if not is_key(key, kind):
        shown = "a seed, which must stay secret" if key.startswith("S") else f'"{key}"'
        raise refused(entry, f"{expected}, got {shown}")
    return key


def check_callout(
    options: CalloutOptions,
    users: Sequence[User],
    accounts: Collection[str],
    at: Location | None,
    notes: Notes,
) -> None:
    """Note an account or users of the callout that do not exist, and a library that is missing."""
    if options.account != GLOBAL_ACCOUNT and options.account not in accounts:
        notes.error(f'auth_callout: there is no account "{options.account}"', at)
    for name in options.delegated:
        if name != GLOBAL_ACCOUNT and name not in accounts:
            notes.error(f'auth_callout allowed account "{name}" not found in configured accounts', at)
    known = {user.nkey or user.name for user in users}
    for name in options.users:
        if name not in known:
            notes.error(f'auth_callout: "{name}" is no user or nkey of the configuration', at)
    if options.xkey:
        from millstream.base.server_keys import MISSING, has_xkeys

        if not has_xkeys():
            notes.error(f"auth_callout: {MISSING}", at)


_CALLOUT = (
    field("issuer", _read_issuer, "issuer"),
    field("account acc", string, "account"),
    field("auth_users users", strings, "users"),
    field("xkey key", _read_xkey, "xkey"),
    field("allowed_accounts", strings, "delegated"),
)
