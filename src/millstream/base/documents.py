"""Configuration files as msgspec structs, with errors that name the key and suggest the right one.

A problem is a text ``path: what`` with msgspec's path: ``$.nats: unknown key "sever"``.  All unknown keys are
reported at once.  Not here: reading the file, and how callers name places in it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from millstream.base.suggestions import did_you_mean

_AT: Final = re.compile(r"^(?P<what>.*) - at `(?P<path>\$[^`]*)`$", re.DOTALL)
_MISSING: Final = re.compile(r"^Object missing required field `(?P<key>[^`]*)`$")

NameUnknown = Callable[[str, Mapping[str, object]], str]


def unknown_key(key: str, known: Mapping[str, object]) -> str:
    """Return the problem of a key that is not one of the struct's fields `known`."""
    return f'unknown key "{key}"{did_you_mean(key, known)}'


def unknown_keys(document: Any, struct: type, name: NameUnknown = unknown_key) -> list[str]:
    """Return a problem for every key in the document that no struct declares."""
    return _unknown_keys(document, inspect.type_info(struct), "$", name)


def _unknown_keys(value: Any, expected: inspect.Type, path: str, name: NameUnknown) -> list[str]:
    match expected:
        case inspect.Metadata(type=inner):
            return _unknown_keys(value, inner, path, name)
        case inspect.UnionType(types=types):
            return [
                problem
                for one in types
                if isinstance(one, inspect.StructType) and _is_meant(value, one)
                for problem in _unknown_keys(value, one, path, name)
            ]
        case inspect.ListType(item_type=item) if isinstance(value, list):
            return [p for i, one in enumerate(value) for p in _unknown_keys(one, item, f"{path}[{i}]", name)]
        case inspect.DictType(value_type=item) if isinstance(value, dict):
            return [p for key, one in value.items() for p in _unknown_keys(one, item, f"{path}.{key}", name)]
        case inspect.StructType(fields=fields, tag_field=tag_field) if isinstance(value, dict):
            known = {field.encode_name: field.type for field in fields}
            problems: list[str] = []
            for key, one in value.items():
                if key in known:
                    problems += _unknown_keys(one, known[key], f"{path}.{key}", name)
                elif key != tag_field:
                    problems.append(f"{path}: {name(key, known)}")
            return problems
    return []


def _is_meant(value: Any, struct: inspect.StructType) -> bool:
    if struct.tag_field is None:
        return True
    return isinstance(value, dict) and value.get(struct.tag_field) == struct.tag


def problem_of(error: msgspec.ValidationError) -> str:
    """Return the problem that msgspec found, without Python's terms."""
    text = str(error)
    found = _AT.match(text)
    what, path = (found["what"], found["path"]) if found else (text, "$")
    missing = _MISSING.match(what)
    if missing:
        return f'{path}: key "{missing["key"]}" is missing'
    head, _, key = path.rpartition(".")
    what = what[:1].lower() + what[1:].replace("`", "")
    return f'{head}: key "{key}": {what}' if head else f"{path}: {what}"
