"""`docs/configuration.md` has every key of a server's configuration; GOLDEN_UPDATE=1 writes those refused."""

import inspect
import re
from collections.abc import Sequence

import pytest

from millstream.config import (
    accounts,
    callout,
    jetstream,
    leaf,
    millstream,
    oidc,
    operator,
    schema,
    tls,
    users,
    websocket,
)
from millstream.config.fields import SettingField
from tests.kits.docs.generated import compare, item
from tests.kits.paths import DOCS

PAGE = DOCS / "configuration.md"
TABLES: dict[str, Sequence[Sequence[SettingField]]] = {
    "Top level": [schema.TOP_LEVEL, operator._RESOLVER_TLS],
    "authorization": [users._AUTHORIZATION],
    "auth_callout": [callout._CALLOUT],
    "oidc": [oidc._OIDC, oidc._CLAIMS],
    "users": [users._USER],
    "permissions": [users._PERMISSIONS, users._RESPONSES],
    "accounts": [accounts._ACCOUNT, accounts._LIMITS, accounts._TRACE],
    "imports and exports": [accounts._IMPORT, accounts._EXPORT, accounts._LATENCY, accounts._SOURCE],
    "mappings": [accounts._DESTINATION],
    "jetstream": [jetstream._JETSTREAM, jetstream._LIMITS, jetstream._BATCH],
    "jetstream of an account": [jetstream._ACCOUNT],
    "millstream": [millstream._MILLSTREAM, millstream._ARROW],
    "otel": [millstream._OTEL],
    "resolver": [operator._FOLDER],
    "tls": [tls._TLS, tls._PAIR],
    "leafnodes": [leaf._LEAF, leaf._AUTHORIZATION, leaf._USER, leaf._COMPRESSION],
    "remotes": [leaf._REMOTE, leaf._REMOTE_TLS, leaf._PROXY],
    "websocket": [websocket._WEBSOCKET, users.SIMPLE_AUTHORIZATION],
}


def reason(field: SettingField) -> str:
    """Return why a key is refused; empty if it is read."""
    if not field.read.__qualname__.startswith("unsupported."):
        return ""
    return str(inspect.getclosurevars(field.read).nonlocals["reason"])


@pytest.mark.parametrize("title", TABLES)
def test_every_key_is_in_its_section(title: str) -> None:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    keys = {name for table in TABLES[title] for each in table if not reason(each) for name in each.names}
    assert not {name for name in keys if f"`{name}`" not in text}


def test_every_refused_key_is_listed_with_the_reason() -> None:
    lines = [
        item([name if title == "Top level" else f"{title}: {name}" for name in each.names], reason(each))
        for title, tables in TABLES.items()
        for table in tables
        for each in table
        if reason(each)
    ]
    compare(PAGE, "refused keys", lines)


def test_no_table_of_keys_is_forgotten() -> None:
    listed = {id(table) for tables in TABLES.values() for table in tables}
    modules = (accounts, callout, jetstream, leaf, millstream, oidc, operator, schema, tls, users, websocket)
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, tuple) and value and all(isinstance(each, SettingField) for each in value):
                assert id(value) in listed, f"{module.__name__}.{name}"
