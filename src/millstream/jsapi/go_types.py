"""Declare how Go's encoder treats a field of a struct.

msgspec's `omit_defaults` equals Go's omitempty as long as the default of a field is the zero value of its
type; a field that is always written is declared with `always`.  Numbers carry their Go type for its range
and for error messages.  `go_name` is set where Go's name of a struct differs from ours.
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
    """The type name in error messages, where it does not follow from the Python type."""

    name: str


EMBEDDED_NAME: Final = "@"  # the internal name of `embedded` fields; never written

_INT64 = (-(2**63), 2**63 - 1)

Int = Annotated[int, GoInt("int", *_INT64)]
Int32 = Annotated[int, GoInt("int32", -(2**31), 2**31 - 1)]
Int64 = Annotated[int, GoInt("int64", *_INT64)]
UInt16 = Annotated[int, GoInt("uint16", 0, 2**16 - 1)]
UInt64 = Annotated[int, GoInt("uint64", 0, 2**64 - 1)]
Duration = Annotated[int, GoInt("time.Duration", *_INT64)]  # nanoseconds


class Struct(msgspec.Struct, omit_defaults=True):
    """A JSON object of the API; its fields are in the order in which they are written."""

    go_name: ClassVar[str | None] = None


def always(default: Any) -> Any:
    """Declare a field that is written even if it is zero; `default` must be immutable."""
    return msgspec.field(default_factory=lambda: default)


def always_new(factory: Callable[[], Any]) -> Any:
    """Declare a field like `always`, with a new value for each struct."""
    return msgspec.field(default_factory=lambda: factory())


def no_items() -> Any:
    """Declare a list that is left out while it is empty."""
    return msgspec.field(default_factory=list)


def no_members() -> Any:
    """Declare a map that is left out while it is empty."""
    return msgspec.field(default_factory=dict)


def embedded(factory: Callable[[], Any] | None = None) -> Any:
    """Declare a struct whose fields are written among its holder's; without `factory` it defaults to None."""
    if factory is None:
        return msgspec.field(default=None, name=EMBEDDED_NAME)
    return msgspec.field(default_factory=lambda: factory(), name=EMBEDDED_NAME)
