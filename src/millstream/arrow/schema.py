"""The columns of a range of a stream, as Arrow types.

    stream string, subject string, seq int64, time timestamp[us, UTC],
    headers map<string, list<string>>, data binary

are the default; `time_ns`, `size`, `msg_id`, `tokens` and `headers_raw` must be requested by name.  Only
`msg_id` can be null, but all are declared nullable, because readers compare with such schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import msgspec


class ColumnKind(Enum):
    STRING = auto()
    BINARY = auto()
    INT64 = auto()
    INT32 = auto()
    TIMESTAMP = auto()  # microseconds, UTC
    LIST = auto()
    STRUCT = auto()
    MAP = auto()


class ColumnField(msgspec.Struct, frozen=True):
    name: str
    kind: ColumnKind
    children: tuple[ColumnField, ...] = ()
    nullable: bool = True


_VALUES: Final = ColumnField("value", ColumnKind.LIST, (ColumnField("item", ColumnKind.STRING),))
_ENTRIES: Final = ColumnField(
    "entries",
    ColumnKind.STRUCT,
    (ColumnField("key", ColumnKind.STRING, nullable=False), _VALUES),
    nullable=False,
)

COLUMNS: Final = {
    field.name: field
    for field in (
        ColumnField("stream", ColumnKind.STRING),
        ColumnField("subject", ColumnKind.STRING),
        ColumnField("seq", ColumnKind.INT64),
        ColumnField("time", ColumnKind.TIMESTAMP),
        ColumnField("headers", ColumnKind.MAP, (_ENTRIES,)),
        ColumnField("data", ColumnKind.BINARY),
        ColumnField("time_ns", ColumnKind.INT64),
        ColumnField("size", ColumnKind.INT32),
        ColumnField("msg_id", ColumnKind.STRING),
        ColumnField("tokens", ColumnKind.LIST, (ColumnField("item", ColumnKind.STRING),)),
        ColumnField("headers_raw", ColumnKind.BINARY),
    )
}
DEFAULT_COLUMNS: Final = ("stream", "subject", "seq", "time", "headers", "data")


def fields_of(columns: Sequence[str]) -> tuple[ColumnField, ...]:
    return tuple(COLUMNS[name] for name in columns)
