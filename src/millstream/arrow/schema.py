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


class Kind(Enum):
    STRING = auto()
    BINARY = auto()
    INT64 = auto()
    INT32 = auto()
    TIMESTAMP = auto()  # microseconds, UTC
    LIST = auto()
    STRUCT = auto()
    MAP = auto()


class Field(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    children: tuple[Field, ...] = ()
    nullable: bool = True


_VALUES: Final = Field("value", Kind.LIST, (Field("item", Kind.STRING),))
_ENTRIES: Final = Field(
    "entries", Kind.STRUCT, (Field("key", Kind.STRING, nullable=False), _VALUES), nullable=False
)

COLUMNS: Final = {
    field.name: field
    for field in (
        Field("stream", Kind.STRING),
        Field("subject", Kind.STRING),
        Field("seq", Kind.INT64),
        Field("time", Kind.TIMESTAMP),
        Field("headers", Kind.MAP, (_ENTRIES,)),
        Field("data", Kind.BINARY),
        Field("time_ns", Kind.INT64),
        Field("size", Kind.INT32),
        Field("msg_id", Kind.STRING),
        Field("tokens", Kind.LIST, (Field("item", Kind.STRING),)),
        Field("headers_raw", Kind.BINARY),
    )
}
DEFAULT_COLUMNS: Final = ("stream", "subject", "seq", "time", "headers", "data")


def fields_of(columns: Sequence[str]) -> tuple[Field, ...]:
    return tuple(COLUMNS[name] for name in columns)
