"""The result of a query as Arrow, JSON, NDJSON or CSV, piece by piece as its batches come.

    JSON     {"columns": [{"name": …, "type": …}], "rows": [{…}, …], "statistics": {…}}
    NDJSON   one object for each row
    CSV      a line with the names, then one line for each row; NULL is an empty field
    Arrow    an IPC stream

In JSON, times are RFC 3339, bytes are base64, maps are objects, and numbers that a 64-bit integer or a double
cannot hold are texts.  If two columns have one name, the second is `name_2`.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from millstream.queries.errors import SqlError
from millstream.queries.process import RunningQuery

ARROW: Final = "application/vnd.apache.arrow.stream"
JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"

_BIGGEST: Final = 2**63


def rows_of(batch: Any, names: list[str]) -> list[dict[str, Any]]:
    """Return the rows of a batch as values of JSON; raise SqlError for a value that has no form in it."""
    try:
        columns = [column.to_pylist(maps_as_pydicts="lossy") for column in batch.columns]
    except (ValueError, OverflowError) as error:
        raise SqlError(f"a value has no form in JSON or CSV ({error}); ask for Arrow") from None
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def unique_names(schema: Any) -> list[str]:
    """Return the names of the columns, each once."""
    names: list[str] = []
    for name in schema.names:
        number = 1
        unique = name
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    return names


def encode(value: object) -> bytes:
    """Return a value as JSON."""
    return msgspec.json.encode(_within(value), enc_hook=_other)


class Pieces:
    """A file whose content is taken away while it is written."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        """Keep a piece."""
        self._pieces.append(bytes(piece))
        return len(piece)

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        found = b"".join(self._pieces)
        self._pieces.clear()
        return found

    def flush(self) -> None:
        """Do nothing: there is nobody else to write to."""


def write_arrow(query: RunningQuery) -> Iterator[bytes]:
    """Yield the result as an Arrow IPC stream."""
    batches = query.batches()
    schema = next(batches, None)
    if schema is None:
        return
    sink = Pieces()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema) as writer:
        yield sink.taken()
        for batch in batches:
            writer.write_batch(batch)
            yield sink.taken()
    yield sink.taken()


def write_json(query: RunningQuery) -> Iterator[bytes]:
    """Yield the result as one JSON document; its statistics come last."""
    batches = query.batches()
    schema = next(batches, None)
    if schema is None:
        return
    names = unique_names(schema)
    columns = [{"name": name, "type": str(kind)} for name, kind in zip(names, schema.types, strict=True)]
    yield b'{"columns":' + encode(columns) + b',"rows":['
    between = b""
    for batch in batches:
        yield between + b",".join(encode(row) for row in rows_of(batch, names))
        between = b","
    yield b'],"statistics":' + encode(msgspec.to_builtins(query.statistics)) + b"}\n"


def write_ndjson(query: RunningQuery) -> Iterator[bytes]:
    """Yield the result as one line of JSON for each row."""
    batches = query.batches()
    schema = next(batches, None)
    if schema is None:
        return
    names = unique_names(schema)
    for batch in batches:
        yield b"".join(encode(row) + b"\n" for row in rows_of(batch, names))


def write_csv(query: RunningQuery) -> Iterator[bytes]:
    """Yield the result as CSV, with a first line of names."""
    batches = query.batches()
    schema = next(batches, None)
    if schema is None:
        return
    names = unique_names(schema)
    yield _csv([names])
    for batch in batches:
        yield _csv([cell_text(value) for value in row.values()] for row in rows_of(batch, names))


def cell_text(value: object) -> str:
    """Return a value as the text of one cell; NULL is empty."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return str(value).lower()
        case float() | int() | Decimal():
            return str(value)
    found = encode(value).decode()
    return found[1:-1] if found.startswith('"') else found


WRITERS: Final[dict[str, Callable[[RunningQuery], Iterator[bytes]]]] = {
    JSON: write_json,
    NDJSON: write_ndjson,
    CSV: write_csv,
    ARROW: write_arrow,
}


def _within(value: Any) -> Any:
    """Return a value whose numbers JSON can have: longer ones become texts."""
    match value:
        case int() if not -_BIGGEST <= value < 2 * _BIGGEST:
            return str(value)
        case Decimal():
            return _other(value)
        case dict():
            return {str(key): _within(each) for key, each in value.items()}
        case list() | tuple():
            return [_within(each) for each in value]
    return value


def _other(value: Any) -> Any:
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        whole = int(value)
        return whole if -_BIGGEST <= whole < 2 * _BIGGEST else str(whole)
    return str(value)


def _csv(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
