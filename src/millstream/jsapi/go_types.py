"""How a field of a struct says what Go's encoder would do with it.

msgspec's `omit_defaults` is Go's omitempty as long as the default of a field is the zero of its type; a
field that is written whatever its value says so with `always`.  Numbers carry their Go type, because its
bounds hold and complaints name it.  Structs are written with their own name, unless `go_name` differs.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec


class GoInt(NamedTuple):
    """An integer type of Go."""

    name: str
    least: int
    most: int


class GoName(NamedTuple):
    """What complaints call the type of a field, where it does not follow from the Python type."""

    name: str


EMBEDDED_NAME: Final = "@"  # what `embedded` fields are called, which never reaches the wire

_INT64 = (-(2**63), 2**63 - 1)

Int = Annotated[int, GoInt("int", *_INT64)]
Int32 = Annotated[int, GoInt("int32", -(2**31), 2**31 - 1)]
Int64 = Annotated[int, GoInt("int64", *_INT64)]
UInt16 = Annotated[int, GoInt("uint16", 0, 2**16 - 1)]
UInt64 = Annotated[int, GoInt("uint64", 0, 2**64 - 1)]
Duration = Annotated[int, GoInt("time.Duration", *_INT64)]  # nanoseconds


class Struct(msgspec.Struct, omit_defaults=True):
    """A JSON object of the API: its fields in the order in which they are written."""

    go_name: ClassVar[str | None] = None


def always(default: Any) -> Any:
    """A field that is written even if it is zero; `default` must not be something that changes."""
    return msgspec.field(default_factory=lambda: default)


def always_new(factory: Callable[[], Any]) -> Any:
    """As `always`, with a new value for each struct."""
    return msgspec.field(default_factory=lambda: factory())


def no_items() -> Any:
    """A list that is left out while it is empty."""
    return msgspec.field(default_factory=list)


def no_members() -> Any:
    """A map that is left out while it is empty."""
    return msgspec.field(default_factory=dict)


def embedded(factory: Callable[[], Any] | None = None) -> Any:
    """A struct whose fields are written among those of the one that holds it; absent without `factory`."""
    if factory is None:
        return msgspec.field(default=None, name=EMBEDDED_NAME)
    return msgspec.field(default_factory=lambda: factory(), name=EMBEDDED_NAME)
