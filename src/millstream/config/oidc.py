"""Read `oidc`: an OpenID Connect issuer whose tokens let clients in."""

import importlib.util
from collections.abc import Collection

from millstream.broker.oidc.keys import MISSING, is_safe_url
from millstream.broker.options import GLOBAL_ACCOUNT, OidcOptions, Permissions
from millstream.config.errors import ConfigError, Notes
from millstream.config.fields import block, duration_text, field, read_block, refused, string, strings
from millstream.config.settings import AuthorizationBlock, FoundSettings
from millstream.config.tree import TreeEntry
from millstream.config.users import read_permissions

_LONGEST_SKEW_S = 600.0


def read_oidc(entry: TreeEntry, notes: Notes) -> OidcOptions:
    """Read the block; accounts are checked by `check_oidc` when all of them are known."""
    settings = read_block(block(entry), _OIDC, notes, whole=True)
    for name in ("issuer", "audience"):
        if not settings.get(name):
            raise refused(entry, f"an {name} is needed")
    if not is_safe_url(settings["issuer"]) and not (settings.keys() & {"jwks_url", "jwks_file"}):
        raise refused(entry, "the keys of an issuer are fetched over https; name a jwks_url or a jwks_file")
    if settings.get("jwks_url") and settings.get("jwks_file"):
        raise refused(entry, "keys come from a jwks_url or a jwks_file, not from both")
    if bool(settings.get("account_claim")) != bool(settings.get("accounts")):
        raise refused(entry, "a claim for the account needs a list of the `accounts` that it may name")
    if settings.get("account_claim") and settings.get("account"):
        raise refused(entry, "the account is fixed, or named by a claim, not both")
    return OidcOptions(**settings)


def _read_claims(entry: TreeEntry, notes: Notes) -> dict[str, str]:
    settings = read_block(block(entry), _CLAIMS, notes, whole=True)
    return {name: value for name, value in settings.items() if value}


def _read_roles(entry: TreeEntry, notes: Notes) -> dict[str, Permissions]:
    roles: dict[str, Permissions] = {}
    for item in block(entry).values():
        try:
            roles[item.key] = read_permissions(item, notes)
        except ConfigError as error:
            notes.errors.extend(error.problems)
    if not roles:
        raise refused(entry, "without a role in it, nobody would have one")
    return roles


def _read_url(entry: TreeEntry, notes: Notes) -> str:
    url = string(entry, notes)
    if not is_safe_url(url):
        raise refused(entry, f'"{url}" is not https://…')
    return url


def _read_file(entry: TreeEntry, notes: Notes) -> str:
    path = string(entry, notes)
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise refused(entry, f"{path}: {error.strerror}") from None


def _read_skew(entry: TreeEntry, notes: Notes) -> float:
    skew = duration_text(entry, notes)
    if not 0 <= skew <= _LONGEST_SKEW_S:
        raise refused(entry, "a clock may be wrong by up to ten minutes")
    return skew


def check_oidc(
    options: OidcOptions,
    authorization: AuthorizationBlock,
    accounts: Collection[str],
    settings: FoundSettings,
    notes: Notes,
) -> None:
    """Note what does not fit the rest of the configuration, and a library that is missing."""
    at = authorization.at
    for name in (options.account, *options.accounts):
        if name != GLOBAL_ACCOUNT and name not in accounts:
            notes.error(f'oidc: there is no account "{name}"', at)
    if authorization.callout is not None:
        notes.error("oidc: tokens are checked here or by an auth_callout, not by both", at)
    if settings.get("operators") or settings.get("trusted_keys"):
        notes.error("oidc: in operator mode, tokens are those of its users", at)
    if importlib.util.find_spec("jwt") is None:
        notes.error(f"oidc: {MISSING}", at)


_CLAIMS = (
    field("user", string, "user_claim"),
    field("account", string, "account_claim"),
    field("roles", string, "roles_claim"),
)

_OIDC = (
    field("issuer", string, "issuer"),
    field("audience", strings, "audience"),
    field("claims", _read_claims),
    field("account", string, "account"),
    field("accounts", strings, "accounts"),
    field("roles", _read_roles, "roles"),
    field("default_permissions permissions", read_permissions, "default_permissions"),
    field("clock_skew", _read_skew, "clock_skew_s"),
    field("jwks_url", _read_url, "jwks_url"),
    field("jwks_file", _read_file, "jwks_file"),
    field("ca_file", _read_file, "ca_file"),
)
