"""The connection table of a settings file: ``nats:`` of the gateway, ``[nats]`` of a pipeline.

`section_struct` makes the msgspec class from the declaration of the options; `section_layer` reads an
instance of it.  A secret is given by ``KEY_file`` or ``KEY_env``, and by ``KEY`` itself where the file may
hold secrets.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from millstream.base.reasons import file_reason
from millstream.link.errors import BadLinkOptions
from millstream.link.fields import Field, OptionKind
from millstream.link.layers import TLS, Layer
from millstream.link.options import FIELDS

_FILE: Final = "_file"
_ENV: Final = "_env"
_TYPES: Final[dict[OptionKind, Any]] = {
    OptionKind.SERVERS: str | list[str],
    OptionKind.SECONDS: int | float | str,
    OptionKind.SWITCH: bool,
}

StructField = tuple[str, Any, Any]


def section_struct(
    name: str, *more: StructField, secrets: bool = True, old_keys: bool = True
) -> type[Struct]:
    """Return the class of the table, with the program's further fields.

    Without `secrets`, they may not be written into the file; without `old_keys`, each option has one key.
    """
    flat: list[StructField] = []
    tables: dict[str, list[StructField]] = {}
    for option, key, how in _keys(secrets, old_keys):
        table, _, inner = key.rpartition(".")
        kind = str if how else _TYPES.get(option.names.kind, str)
        place = tables.setdefault(table, []) if table else flat
        text = _meaning(option, key, how)
        place.append((inner, Annotated[kind | UnsetType, Meta(description=text)], UNSET))
    for table, fields in tables.items():
        inside: Any = _struct(f"{name}{table.title()}", fields)
        text = f"options of {table.upper()}; the table also switches it on"
        flat.append((table, Annotated[inside | UnsetType, Meta(description=text)], UNSET))
    return _struct(name, [*flat, *more])


def _struct(name: str, fields: list[StructField]) -> type[Struct]:
    return msgspec.defstruct(name, fields, frozen=True, kw_only=True, forbid_unknown_fields=True)


def secret_keys() -> dict[str, str]:
    """Return the keys that hold secrets, each with the keys to use in a file that must not hold secrets."""
    return {
        key: f"{key}{_FILE} or {key}{_ENV}" for each in FIELDS if each.names.secret for key in each.keys
    } | {"nkey": "nkey_file", "creds_text": "creds"}


def section_keys(*, secrets: bool = True, old_keys: bool = True) -> list[tuple[str, str]]:
    """Return every key with its meaning, in the order of declaration; a key of a nested table has a dot."""
    return [(key, _meaning(option, key, how)) for option, key, how in _keys(secrets, old_keys)]


def _keys(secrets: bool, old_keys: bool) -> Iterator[tuple[Field, str, str]]:
    """Yield each key with its option and its ending: none, or one for a file or a variable with the value."""
    for each in FIELDS:
        for key in each.keys if old_keys else each.keys[:1]:
            if secrets or not each.names.secret:
                yield each, key, ""
            if each.names.secret:
                yield each, key + _FILE, _FILE
                yield each, key + _ENV, _ENV


def _meaning(option: Field, key: str, how: str) -> str:
    if how == _FILE:
        return f"file with it: {option.names.help}"
    if how == _ENV:
        return f"environment variable with it: {option.names.help}"
    if key != option.names.key:
        return f"another name of `{option.names.key}`"
    return option.names.help


def section_layer(section: Struct, environment: Mapping[str, str]) -> Layer:
    """Return the options of a table; BadLinkOptions for a repeated option, or a missing file or variable."""
    given: dict[str, str] = {}
    for option, key, _ in _keys(secrets=True, old_keys=True):
        if _value(section, key) not in (UNSET, "", []):
            other = given.setdefault(option.path, key)
            if other != key:
                raise BadLinkOptions(f'give {option.names.help} once, not as key "{other}" and key "{key}"')
    layer = Layer()
    for option, key, how in _keys(secrets=True, old_keys=True):
        if given.get(option.path) == key:
            raw, word = _value(section, key), f'key "{key}"'
            layer.put(option, _secret(raw, word, how, environment) if how else raw, word)
    if _value(section, TLS) is not UNSET:
        layer.values[TLS] = True
    return layer


def _value(section: Struct, key: str) -> Any:
    found: Any = section
    for part in key.split("."):
        found = getattr(found, part, UNSET)
    return found


def _secret(raw: str, word: str, how: str, environment: Mapping[str, str]) -> str:
    if how == _ENV:
        if raw not in environment:
            raise BadLinkOptions(f"{word}: {raw} is not in the environment")
        return environment[raw]
    try:
        return Path(os.path.expanduser(raw)).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = file_reason(error) if isinstance(error, OSError) else "it is no text"
        raise BadLinkOptions(f"{word}: cannot read {raw}: {reason}") from None
