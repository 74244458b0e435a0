"""NATS contexts: the files in which the `nats` tool keeps connection options, and the selected one.

    $XDG_CONFIG_HOME/nats/context/NAME.json       one context; ~/.config if the variable is not set
    $XDG_CONFIG_HOME/nats/context.txt             the name of the selected one

A value may be a reference: ``file://PATH``, ``env://NAME`` or ``data:;base64,…``.  Values that need another
program or a proxy (``op://``, ``nsc://``, `nsc`, `socks_proxy`, certificate stores of Windows) are refused,
because ignoring them would make a different connection.
"""

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.base.owned import visible
from millstream.base.reasons import file_reason
from millstream.base.suggestions import did_you_mean
from millstream.link.errors import BadLinkOptions
from millstream.link.fields import Field, OptionKind
from millstream.link.layers import Layer
from millstream.link.options import FIELDS

_SCHEMES: Final = ("file", "env", "data", "op", "nsc")
# Keys that must not be ignored; all other unknown keys concern the tool itself.
_NOT_SUPPORTED: Final = ("nsc", "socks_proxy", "windows_cert_store")
_MOST_BYTES: Final = 1024 * 1024


def contexts_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of contexts, which need not exist."""
    return _root(environment) / "context"


def _root(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME", "")
    if home:
        return Path(home) / "nats"
    return Path(environment.get("HOME") or os.path.expanduser("~")) / ".config" / "nats"


def selected_context(environment: Mapping[str, str]) -> str:
    """Return the name of the context that the `nats` tool has selected, or an empty string."""
    try:
        return (_root(environment) / "context.txt").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):  # the tool also treats an unreadable file as no selection
        return ""


def load_context(name: str, environment: Mapping[str, str]) -> Layer:
    """Return the options of a context; raises BadLinkOptions with the file and the key that cannot be used.

    As for the tool, `name` may also be the path of a ``.json`` file.
    """
    path = _path(name, environment)
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise BadLinkOptions(f"there is no NATS context {_shown(name)}: {path}{_near(name, path)}") from None
    except OSError as error:
        raise BadLinkOptions(
            f"NATS context {_shown(name)}: cannot read {path}: {file_reason(error)}"
        ) from None
    return read_context(data, path, environment)


def read_context(data: bytes, path: Path, environment: Mapping[str, str]) -> Layer:
    """Return the options in the bytes of a file; `path` is for error messages."""
    if len(data) > _MOST_BYTES:
        raise BadLinkOptions(f"{path}: a NATS context has at most {_MOST_BYTES} bytes")
    try:
        document = msgspec.json.decode(data)
    except UNREADABLE_JSON as error:
        raise BadLinkOptions(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadLinkOptions(f"{path}: a NATS context is an object")
    return _layer(document, path, environment)


def _path(name: str, environment: Mapping[str, str]) -> Path:
    if name.endswith(".json") and os.path.isfile(os.path.expanduser(name)):
        return Path(name).expanduser()
    if not name or ".." in name or "/" in name or "\\" in name or "\0" in name:
        raise BadLinkOptions(f'no NATS context can have the name {_shown(name)}: it has a "/", "\\" or ".."')
    return contexts_folder(environment) / f"{name}.json"


def _shown(name: str) -> str:
    return f'"{visible(name)}"'


def _near(name: str, path: Path) -> str:
    try:
        return did_you_mean(name, [each.stem for each in path.parent.glob("*.json")])
    except OSError:
        return ""


def _layer(document: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> Layer:
    for key in _NOT_SUPPORTED:
        if document.get(key):
            raise BadLinkOptions(f'{path}: key "{key}" is not supported; connect without this context')
    layer = Layer()
    for each in FIELDS:
        key = each.names.context
        if not key or document.get(key) in (None, "", False):
            continue
        word = f'key "{key}" of {path}'
        value = document[key]
        if not isinstance(value, bool if each.names.kind is OptionKind.SWITCH else str):
            raise BadLinkOptions(
                f"{word} is {'true or false' if each.names.kind is OptionKind.SWITCH else 'a text'}"
            )
        if isinstance(value, str):
            _put(layer, each, value, word, environment)
        else:
            layer.put(each, value, word)
    return layer


def _put(layer: Layer, option: Field, value: str, word: str, environment: Mapping[str, str]) -> None:
    """Add a text, or the value that a reference stands for."""
    is_file = option.names.kind is OptionKind.FILE
    scheme = value.partition(":")[0].lower()
    if not (is_file or option.names.secret) or ":" not in value or scheme not in _SCHEMES:
        layer.put(option, _expanded(value, environment) if is_file else value, word)
    elif scheme == "file" and is_file:
        layer.put(option, value.partition("://")[2], word)
    elif is_file and option.path not in _TEXT_OF:
        raise BadLinkOptions(f"{word} is a path, not {scheme}:…")
    else:
        layer.put(_TEXT_OF.get(option.path, option), _resolved(scheme, value, word, environment), word)


# A file whose content can be given instead.
_TEXT_OF: Final = {
    file: next(each for each in FIELDS if each.path == text)
    for file, text in (("creds_file", "creds_text"), ("nkey_file", "nkey_seed"))
}


def _resolved(scheme: str, value: str, word: str, environment: Mapping[str, str]) -> str:
    match scheme:
        case "env":
            found = environment.get(value.partition("://")[2], "")
            if not found:
                raise BadLinkOptions(f"{word}: {visible(value)} is not in the environment")
            return found
        case "file":
            place = value.partition("://")[2]
            try:
                return Path(place).read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                reason = file_reason(error) if isinstance(error, OSError) else "it is no text"
                raise BadLinkOptions(f"{word}: cannot read {visible(place)}: {reason}") from None
        case "data":
            head, _, body = value.partition(",")
            try:
                if "base64" not in [part.strip() for part in head.split(";")]:
                    raise ValueError
                return base64.b64decode(body, validate=True).decode().strip()
            except (ValueError, binascii.Error):
                raise BadLinkOptions(f"{word}: the data is no text in base64") from None
    raise BadLinkOptions(f"{word}: {scheme}:// takes another program and is not supported; use a file")


def _expanded(path: str, environment: Mapping[str, str]) -> str:
    """Return a path with ``$NAME`` and ``${NAME}`` replaced from the environment."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: environment.get(found[1] or found[2], ""), path)
