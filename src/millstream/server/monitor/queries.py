"""Options in the query of a URL, with nats-server's error messages."""

import urllib.parse
from collections.abc import Callable
from typing import Final

from millstream.base.errors import MillstreamError
from millstream.golang.quote import quoted

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_MAX_FIELDS: Final = 100
_INT_RANGE: Final = range(-(2**63), 2**63)
_UINT_RANGE: Final = range(2**64)


class BadQuery(MillstreamError):
    """Raised for invalid options; the text is sent to the requester."""


class Query:
    """The options of a query; the first value of a name counts, and an empty value means none."""

    def __init__(self, text: str = "", wanted: Callable[[], bool] = lambda: True) -> None:
        self.wanted = wanted  # returns False once the requester has disconnected
        try:
            fields = urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError as error:
            raise BadQuery(f"bad query: {error}") from None
        self._fields: dict[str, str] = {}
        for name, value in fields:
            self._fields.setdefault(name, value)

    def text(self, name: str) -> str:
        return self._fields.get(name, "")

    def boolean(self, name: str) -> bool:
        value = self.text(name)
        if value in _TRUE:
            return True
        if not value or value in _FALSE:
            return False
        raise BadQuery(
            f"Error decoding boolean for '{name}': strconv.ParseBool: parsing {quoted(value)}: invalid syntax"
        )

    def integer(self, name: str) -> int:
        value = self.text(name)
        digits = value[1:] if value[:1] in ("+", "-") else value
        return _number(value, digits, _INT_RANGE, f"Error decoding int for '{name}': strconv.Atoi")

    def unsigned(self, name: str) -> int:
        value = self.text(name)
        return _number(value, value, _UINT_RANGE, f"Error decoding uint64 for '{name}': strconv.ParseUint")


def _number(value: str, digits: str, allowed: range, complaint: str) -> int:
    if not value:
        return 0
    problem = "invalid syntax"
    if digits.isascii() and digits.isdigit():
        # Longer texts are out of range anyway, and slow to convert.
        if len(digits) <= 100 and int(value) in allowed:
            return int(value)
        problem = "value out of range"
    raise BadQuery(f"{complaint}: parsing {quoted(value)}: {problem}")
