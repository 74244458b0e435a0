"""The columns of a stream as Arrow types; `formats/arrow.md` of the documentation describes them.

A query that leaves `data` out transfers no payloads, and one that leaves `headers` out parses none.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from millstream.tables.errors import OptionError

COLUMN_TYPES: Final[dict[str, Any]] = {
    "stream": pa.string(),
    "subject": pa.string(),
    "seq": pa.int64(),
    "time": pa.timestamp("us", tz="UTC"),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
    "data": pa.binary(),
    "size": pa.int32(),
    "time_ns": pa.int64(),
    "msg_id": pa.string(),
    "tokens": pa.list_(pa.string()),
    "headers_raw": pa.binary(),
}
USUAL_COLUMNS: Final = ("stream", "subject", "seq", "time", "headers", "data", "size")


def stream_schema(columns: Iterable[str] = USUAL_COLUMNS) -> Any:
    """Return the Arrow schema of these columns, in this order; raise `OptionError` for an unknown one."""
    names = list(columns)
    for name in names:
        if name not in COLUMN_TYPES:
            raise OptionError(f"a stream has no column {name!r}; it has {', '.join(COLUMN_TYPES)}")
        if names.count(name) > 1:
            raise OptionError(f"column {name} is named twice")
    return pa.schema([(name, COLUMN_TYPES[name]) for name in names])
