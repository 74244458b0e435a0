"""Writing of NATS contexts: a file for each context, and one with the name of the selected context.

The `nats` tool owns the folder, so only the given fields are written: fields that this release does not know
stay unchanged.  A file is replaced as a whole, and only its owner may read it.  `link.contexts` reads a
context to connect.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.base.reasons import file_reason
from millstream.base.suggestions import did_you_mean
from millstream.cli.endings import FAILED, Ending, UsageError
from millstream.cli.session import missing
from millstream.link.contexts import contexts_folder
from millstream.link.fields import OptionKind
from millstream.link.layers import Layer
from millstream.link.options import FIELDS

_ONLY_OWNER: Final = 0o600
_SECRETS: Final = frozenset(each.names.context for each in FIELDS if each.names.secret)
HIDDEN: Final = "********"


def check_context_name(name: str) -> str:
    """Return the name; raises UsageError if a context cannot have it."""
    if not name or name.startswith(".") or ".." in name or any(each in name for each in "/\\\0 "):
        raise UsageError(f"no NATS context can have the name {name!r}")
    if not name.isprintable():
        raise UsageError(f"no NATS context can have the name {name!r}")
    return name


def context_path(name: str, environment: Mapping[str, str]) -> Path:
    """Return the path of a context, which need not exist."""
    return contexts_folder(environment) / f"{check_context_name(name)}.json"


def context_names(environment: Mapping[str, str]) -> list[str]:
    """Return the names of all contexts."""
    try:
        return sorted(path.stem for path in contexts_folder(environment).glob("*.json") if path.is_file())
    except OSError as error:
        raise Ending(f"cannot read {contexts_folder(environment)}: {file_reason(error)}", FAILED) from None


def read_document(name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the unchanged fields of a context's file."""
    path = context_path(name, environment)
    try:
        found = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        hint = did_you_mean(name, context_names(environment)) or "; see millstream context ls"
        raise missing(f"there is no NATS context {name}{hint}") from None
    except OSError as error:
        raise Ending(f"cannot read {path}: {file_reason(error)}", FAILED) from None
    except UNREADABLE_JSON as error:
        raise Ending(f"{path}: not JSON: {error}", FAILED) from None
    if not isinstance(found, dict):
        raise Ending(f"{path}: a NATS context is an object", FAILED)
    return found


def fields_of_layer(layer: Layer) -> dict[str, Any]:
    """Return the fields of a context for flags; raises UsageError for a flag without a field."""
    fields: dict[str, Any] = {}
    for each in FIELDS:
        if each.path not in layer.values:
            continue
        value = layer.values[each.path]
        if not each.names.context:
            raise UsageError(f"{layer.words[each.path]} cannot be kept in a context")
        if each.names.kind is OptionKind.SERVERS:
            value = ",".join(server.full_url for server in value)
        elif each.names.kind is OptionKind.FILE:
            value = os.path.abspath(value)
        fields[each.names.context] = value
    return fields


def write_document(name: str, document: Mapping[str, Any], environment: Mapping[str, str]) -> Path:
    """Write a context, and return its file."""
    path = context_path(name, environment)
    _replace(path, msgspec.json.format(msgspec.json.encode(dict(document)), indent=2) + b"\n")
    return path


def write_selected(name: str, environment: Mapping[str, str]) -> None:
    """Make a context the selected one; an empty name selects none."""
    path = contexts_folder(environment).parent / "context.txt"
    if name:
        _replace(path, name.encode())
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Ending(f"cannot remove {path}: {file_reason(error)}", FAILED) from None


def remove_document(name: str, environment: Mapping[str, str]) -> None:
    """Remove the file of a context."""
    path = context_path(name, environment)
    try:
        path.unlink()
    except OSError as error:
        raise Ending(f"cannot remove {path}: {file_reason(error)}", FAILED) from None


def _replace(path: Path, data: bytes) -> None:
    """Replace a file atomically: readers see the old or the new content."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_OWNER)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise Ending(f"cannot write {path}: {file_reason(error)}", FAILED) from None


def without_secrets(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with secrets hidden, those in addresses included; references to secrets stay."""
    shown = {}
    for key, value in document.items():
        if key in _SECRETS and value and not str(value).startswith(("env://", "file://", "op://")):
            value = HIDDEN
        elif key == "url" and isinstance(value, str):
            value = ",".join(_without_password(each) for each in value.split(","))
        shown[key] = value
    return shown


def _without_password(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    who, at, where = rest.rpartition("@")
    if not at:
        return url
    user, colon, _ = who.partition(":")
    return f"{scheme}{separator}{f'{user}:{HIDDEN}' if colon else HIDDEN}@{where}"
