"""Parse the body of a system request: its options, and the servers it is meant for.

Names are case-insensitive, null means unset, unknown names are ignored, and error messages are nats-server's,
because people search for them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from millstream.golang.json import syntax_error
from millstream.server.monitor.queries import BadQuery

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

Options = TypeVar("Options", bound=msgspec.Struct)

_WORDS: Final = "[]string"
_GO_TYPES: Final[dict[Any, str]] = {str: "string", bool: "bool", int: "int", list[str]: _WORDS}
# Options whose type has a name of its own, or another range.
_SPECIAL_TYPES: Final = {"cid": "uint64", "state": "server.ConnState", "sort": "server.SortOpt"}
_INTEGERS: Final = {
    "int": range(-(2**63), 2**63),
    "uint64": range(2**64),
    "server.ConnState": range(-(2**63), 2**63),
}


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a request is meant for; every request may have these fields."""

    server_name: str = ""
    cluster: str = ""
    host: str = ""
    exact_match: bool = False
    tags: list[str] = []
    domain: str = ""

    def accept(self, broker: Broker) -> bool:
        """Return True if this server should respond."""
        return (
            self._fits(self.server_name, broker.identity.server_name)
            and self._fits(self.host, broker.identity.listen_host)
            and self._fits(self.cluster, "")  # Millstream is never part of a cluster
            and {tag.lower() for tag in self.tags} <= set(broker.options.server_tags)
            and (not self.domain or self.domain == broker.identity.jetstream_domain)
        )

    def _fits(self, wanted: str, actual: str) -> bool:
        return not wanted or (wanted == actual if self.exact_match else wanted in actual)


class NoOptions(msgspec.Struct, frozen=True):
    """No options but the filters."""


def decode(payload: bytes, owner: str, kind: type[Options]) -> tuple[Options, Filters]:
    """Return options and filters; raise BadQuery, which calls the type `owner`, if the body is invalid."""
    set_options = _decode(payload, owner, _fields(kind) | _fields(Filters)) if payload else {}
    try:
        return msgspec.convert(set_options, kind, strict=False), msgspec.convert(set_options, Filters)
    except msgspec.ValidationError as error:
        raise BadQuery(str(error)) from None


def _decode(payload: bytes, owner: str, fields: dict[str, str]) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(payload)
    except (ValueError, RecursionError) as error:  # includes msgspec's errors
        raise BadQuery(syntax_error(payload) or str(error)) from None
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise BadQuery(f"json: cannot unmarshal {_kind(body)} into Go value of type server.{owner}")
    found = {}
    for key, value in body.items():
        name = key if key in fields else key.lower()
        if value is None or name not in fields:
            continue
        wanted = fields[name]
        if not _is_a(value, wanted):
            # The number itself is in the message only where another number would be valid.
            text = f"number {value}" if _is_number(value) and wanted in _INTEGERS else _kind(value)
            raise BadQuery(
                f"json: cannot unmarshal {text} into Go struct field {owner}.{name} of type {wanted}"
            )
        found[name] = value
    return found


@lru_cache(maxsize=32)
def _fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the type of each option, as named in error messages."""
    return {
        field.encode_name: _SPECIAL_TYPES.get(field.encode_name) or _GO_TYPES[field.type]
        for field in msgspec.structs.fields(kind)
    }


def _is_a(value: Any, wanted: str) -> bool:
    if wanted == "bool":
        return isinstance(value, bool)
    if wanted == _WORDS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if wanted in _INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS[wanted]
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if _is_number(value):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
