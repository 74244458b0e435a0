"""Conditions of Arrow expressions, read from their Substrait form.

DuckDB gives a scan its filters as a `pyarrow.compute.Expression`, which shows its parts only as Substrait
(substrait.io), a format of protobuf messages:

    ExtendedExpression   2: functions   3: { 1: Expression }
    Expression           1: Literal  2: FieldReference  3: ScalarFunction  6: IfThen  8: SingularOrList
    ScalarFunction       1: number of the function   4: arguments, each { 3: Expression }
    FieldReference       1: { 2: { 1: number of the column } }
    IfThen               1: { 1: condition  2: Expression }   2: otherwise
    SingularOrList       1: Expression   2: values

The few fields are read here.  The generated classes of substrait-protobuf need one version of protobuf's
runtime, and Spark Connect needs another.

`spans_of` returns what must be true of each column.  A part that it does not know limits nothing, so the
result is never too narrow; whoever reads by it applies the whole expression afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_SIGN: Final = 1 << 63
_LITERAL_NUMBERS: Final = (2, 3, 5, 7, 27)  # i8, i16, i32, i64, timestamp with time zone in microseconds
_LITERAL_TEXT: Final = 12

Value = int | str
_Message = list[tuple[int, int | bytes]]


@dataclass(frozen=True, slots=True)
class Span:
    """The values that a column may have: between two bounds, both included, and perhaps one of a few."""

    low: Any = None  # None: no bound
    high: Any = None
    values: frozenset[Any] | None = None  # None: any

    @property
    def is_empty(self) -> bool:
        """Return True if no value fits."""
        crossed = self.low is not None and self.high is not None and self.low > self.high
        return crossed or self.values == frozenset()

    def __and__(self, other: "Span") -> "Span":
        values = other.values if self.values is None else self.values
        if self.values is not None and other.values is not None:
            values = self.values & other.values
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Span(max(lows, default=None), min(highs, default=None), values)

    def __or__(self, other: "Span") -> "Span":
        values = None if self.values is None or other.values is None else self.values | other.values
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Span(low, high, values)


Spans = dict[str, Span]


def spans_of(expression: Any, schema: Any) -> Spans:
    """Return the span of each column that an expression limits."""
    if expression is None:
        return {}
    try:
        message = _fields(bytes(expression.to_substrait(schema)))
        functions = _functions(message)
        reference = _fields(_piece(message, 3))
        return _spans(_piece(reference, 1), functions, list(schema.names))
    except (LookupError, ValueError, TypeError, RecursionError, NotImplementedError):
        return {}


def columns_of(expression: Any, schema: Any) -> set[str]:
    """Return the columns that an expression needs; all of them if that cannot be told."""
    if expression is None:
        return set()
    names = list(schema.names)
    try:
        reference = _fields(_piece(_fields(bytes(expression.to_substrait(schema))), 3))
        return set(_references(_piece(reference, 1), names))
    except (LookupError, ValueError, TypeError, RecursionError, NotImplementedError):
        return set(names)


def _references(raw: bytes, names: list[str]) -> Iterator[str]:
    for number, inner in _fields(raw):
        if not isinstance(inner, bytes):
            raise ValueError("an unknown expression")
        message = _fields(inner)
        match number:
            case 1:
                continue
            case 2:
                yield _column(raw, names) or _unknown()
            case 3:
                for n, each in message:
                    if n == 4 and isinstance(each, bytes):
                        yield from _references(_piece(_fields(each), 3), names)
            case 6:
                for n, each in message:
                    if n == 1 and isinstance(each, bytes):
                        yield from _references(_piece(_fields(each), 1), names)
                        yield from _references(_piece(_fields(each), 2), names)
                    elif n == 2 and isinstance(each, bytes):
                        yield from _references(each, names)
            case 8:
                yield from _references(_piece(message, 1), names)
            case _:
                _unknown()


def _unknown() -> str:
    raise ValueError("an unknown expression")


def _spans(raw: bytes, functions: dict[int, str], names: list[str]) -> Spans:
    for number, inner in _fields(raw):
        if not isinstance(inner, bytes):
            continue
        match number:
            case 3:
                return _of_function(_fields(inner), functions, names)
            case 6:
                return _of_choice(_fields(inner), functions, names)
            case 8:
                return _of_list(_fields(inner), names)
    return {}


def _of_function(call: _Message, functions: dict[int, str], names: list[str]) -> Spans:
    name = functions.get(next((value for n, value in call if n == 1 and isinstance(value, int)), 0), "")
    arguments = [_piece(_fields(each), 3) for n, each in call if n == 4 and isinstance(each, bytes)]
    if name in ("and", "or"):
        found = [_spans(each, functions, names) for each in arguments]
        result = found[0]
        for each in found[1:]:
            result = _both(result, each) if name == "and" else _either(result, each)
        return result
    if len(arguments) != 2:
        return {}
    column, value = _column(arguments[0], names), _literal(arguments[1])
    if column is None or value is None:
        return {}
    match name:
        case "equal":
            return {column: Span(value, value, frozenset({value}))}
        case "gt" if isinstance(value, int):
            return {column: Span(low=value + 1)}
        case "lt" if isinstance(value, int):
            return {column: Span(high=value - 1)}
        case "gt" | "gte":
            return {column: Span(low=value)}
        case "lt" | "lte":
            return {column: Span(high=value)}
    return {}


def _of_choice(choice: _Message, functions: dict[int, str], names: list[str]) -> Spans:
    """Return the spans of `if … then x else null`, which is how DuckDB writes `IN`."""
    clauses = [_fields(each) for n, each in choice if n == 1 and isinstance(each, bytes)]
    otherwise = _fields(_piece(_fields(_piece(choice, 2)), 1))
    if len(clauses) != 1 or not any(n == 29 for n, _ in otherwise):  # 29: null
        return {}
    return _spans(_piece(clauses[0], 2), functions, names)


def _of_list(choice: _Message, names: list[str]) -> Spans:
    column = _column(_piece(choice, 1), names)
    values = [_literal(each) for n, each in choice if n == 2 and isinstance(each, bytes)]
    if column is None or not values or None in values:
        return {}
    known = frozenset(values)
    return {column: Span(min(known), max(known), known)}  # type: ignore[type-var]


def _both(left: Spans, right: Spans) -> Spans:
    return {name: left.get(name, Span()) & right.get(name, Span()) for name in left.keys() | right.keys()}


def _either(left: Spans, right: Spans) -> Spans:
    return {name: left[name] | right[name] for name in left.keys() & right.keys()}


def _functions(message: _Message) -> dict[int, str]:
    """Return the names of the functions by their numbers."""
    found: dict[int, str] = {}
    for number, raw in message:
        if number == 2 and isinstance(raw, bytes):
            declared = _fields(_piece(_fields(raw), 3))
            anchor = next((value for n, value in declared if n == 2 and isinstance(value, int)), 0)
            found[anchor] = _piece(declared, 3).decode().partition(":")[0]
    return found


def _column(raw: bytes, names: list[str]) -> str | None:
    """Return the name of the column that an expression is; None if it is something else."""
    expression = _fields(raw)
    if not any(number == 2 for number, _ in expression):
        return None
    segment = _fields(_piece(_fields(_piece(_fields(_piece(expression, 2)), 1)), 2))
    if any(number != 1 for number, _ in segment):
        return None  # a field of a struct
    return names[next((value for _, value in segment if isinstance(value, int)), 0)]


def _literal(raw: bytes) -> Value | None:
    """Return the value of a literal; None if it is something else."""
    expression = _fields(raw)
    if not any(number == 1 for number, _ in expression):
        return None
    for number, value in _fields(_piece(expression, 1)):
        if number in _LITERAL_NUMBERS and isinstance(value, int):
            return value - 2 * _SIGN if value & _SIGN else value
        if number == _LITERAL_TEXT and isinstance(value, bytes):
            return value.decode()
    return None


def _piece(message: _Message, number: int) -> bytes:
    for n, value in message:
        if n == number and isinstance(value, bytes):
            return value
    raise LookupError(number)


def _fields(raw: bytes) -> _Message:
    """Return the fields of a protobuf message, in order; raise ValueError if it is none."""
    return list(_walk(raw))


def _walk(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        match key & 7:
            case 0:
                value, at = _varint(raw, at)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(raw, at)
            case 5:
                size = 4
            case _:
                raise ValueError("no protobuf message")
        if at + size > len(raw):
            raise ValueError("no protobuf message")
        yield key >> 3, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise ValueError("no protobuf message")
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
