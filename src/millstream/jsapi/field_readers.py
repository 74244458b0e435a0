"""Convert JSON values to the fields of structs, with one reader for each type of field.

Readers are built once, from the annotations of a struct.  A reader gets the value found, the current value
of the field and the path to it, and returns the new value of the field.

Not here: finding values in a text (golang.json), the entry points (jsapi.codec).
"""

import base64
import binascii
import re
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec

from millstream.base.errors import MillstreamError
from millstream.golang.json import JsonKind, Value
from millstream.golang.quote import quoted
from millstream.golang.time import Time, TimeError, parse_time
from millstream.jsapi.enums import WORD_RULES
from millstream.jsapi.go_types import EMBEDDED_NAME, GoInt, GoName, Struct

_WHOLE: Final = re.compile(rb"-?[0-9]+")
_UNSIGNED: Final = re.compile(rb"[0-9]+")

Path = tuple[str | int, ...]


class FieldError(MillstreamError):
    """A value does not fit its field."""


class Walk:
    """One decoding: the struct being decoded, and whether unknown names are refused."""

    def __init__(self, kind: type[Struct], *, strict: bool) -> None:
        self.strict = strict
        self._kind = kind

    def mismatch(self, value: Value, wanted: str, path: Path, *, tell_number: bool = False) -> FieldError:
        """Return the error for a `value` at `path` that is not of the type `wanted`."""
        found = f"number {value.raw.decode()}" if tell_number else value.kind
        owner = go_name_of(self._kind)
        if not path:
            return FieldError(f"json: cannot unmarshal {found} into Go value of type {wanted}")
        place = ".".join(map(str, (owner, *path)))
        field = "" if isinstance(path[-1], int) else "Go struct field "
        return FieldError(f"json: cannot unmarshal {found} into {field}{place} of type {wanted}")


class Reader(Protocol):
    """Reads values of one type."""

    go_type: str  # the name used in error messages

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        """Return the new value of a field that holds `current`."""


def go_name_of(kind: type[Struct]) -> str:
    """Return Go's name of the struct."""
    return kind.__name__ if kind.go_name is None else kind.go_name


class _Text:
    go_type = "string"

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.STRING:
            return value.text
        if value.kind is JsonKind.NULL:
            return current
        raise walk.mismatch(value, self.go_type, path)


class _Flag:
    go_type = "bool"

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.BOOL:
            return value.raw == b"true"
        if value.kind is JsonKind.NULL:
            return current
        raise walk.mismatch(value, self.go_type, path)


class _Whole:
    def __init__(self, go_int: GoInt) -> None:
        self.go_type = go_int.name
        self._range = range(go_int.least, go_int.most + 1)
        self._form = _WHOLE if go_int.least else _UNSIGNED

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.NULL:
            return current
        if value.kind is not JsonKind.NUMBER:
            raise walk.mismatch(value, self.go_type, path)
        # Longer numbers do not fit; skip the conversion, whose cost grows with the digits.
        if self._form.fullmatch(value.raw) and len(value.raw) <= 20 and int(value.raw) in self._range:
            return int(value.raw)
        raise walk.mismatch(value, self.go_type, path, tell_number=True)


class _Moment:
    go_type = "time.Time"

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.NULL:
            return current
        if value.kind is not JsonKind.STRING:
            raise walk.mismatch(value, self.go_type, path)
        try:
            return parse_time(value.text)
        except TimeError as error:
            raise FieldError(str(error)) from None


class _Bytes:
    go_type = "[]uint8"

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.NULL:
            return b""
        if value.kind is not JsonKind.STRING:
            raise walk.mismatch(value, self.go_type, path)
        try:
            return base64.b64decode(value.text, validate=True)
        except (binascii.Error, ValueError):
            raise FieldError(f"illegal base64 data in {quoted(value.text)}") from None


class _Word:
    go_type = "string"

    def __init__(self, words: type[Enum]) -> None:
        self._rule = WORD_RULES[words]
        self._words = {word.value: word for word in words}
        for alias, meaning in self._rule.aliases:
            self._words[alias] = words(meaning)

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if self._rule.any_spelling:
            if value.kind not in (JsonKind.STRING, JsonKind.NULL):
                raise walk.mismatch(value, self.go_type, ())
            spelling = value.text
        else:
            # The word must be spelled without escapes, and null is not a word.
            spelling = value.raw[1:-1].decode(errors="replace") if value.kind is JsonKind.STRING else "\0"
        if self._rule.any_case:
            spelling = spelling.lower()
        if spelling in self._words:
            return self._words[spelling]
        raw = value.raw.decode(errors="replace")
        raise FieldError(self._rule.complaint.format(raw=raw, quoted=quoted(raw)))


class _List:
    def __init__(self, item: Reader, empty: Any) -> None:
        self.go_type = "[]" + item.go_type
        self._item = item
        self._empty = empty

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.NULL:
            return []
        if value.kind is not JsonKind.ARRAY:
            raise walk.mismatch(value, self.go_type, path)
        if value.texts is not None and isinstance(self._item, _Text):
            return value.texts
        return [
            self._item.read(walk, each, self._empty(), (*path, index))
            for index, each in enumerate(value.items)
        ]


class _Map:
    def __init__(self, item: Reader, empty: Any) -> None:
        self.go_type = "map[string]" + item.go_type
        self._item = item
        self._empty = empty

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        if value.kind is JsonKind.NULL:
            return {}
        if value.kind is not JsonKind.OBJECT:
            raise walk.mismatch(value, self.go_type, path)
        found = dict(current or {})
        for key, each in value.members:
            found[key] = self._item.read(walk, each, self._empty(), (*path, key))
        return found


class _Optional:
    def __init__(self, inner: Reader) -> None:
        self.go_type = inner.go_type
        self._inner = inner

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        return None if value.kind is JsonKind.NULL else self._inner.read(walk, value, current, path)


class StructReader:
    """Reads one type of struct."""

    def __init__(self, kind: type[Struct]) -> None:
        self.go_type = "server." + go_name_of(kind)
        self._kind = kind
        # By name on the wire: the attribute of the embedded struct that has the field (or ""), the
        # attribute, the reader.
        self._fields: dict[str, tuple[str, str, Reader]] = {}
        self._embedded: dict[str, type[Struct]] = {}
        self._add_fields(kind)

    def read(self, walk: Walk, value: Value, current: Any, path: Path) -> Any:
        struct = self._kind() if current is None else current
        self.fill(walk, value, struct, path)
        return struct

    def fill(self, walk: Walk, value: Value, struct: Struct, path: Path) -> None:
        """Set the fields of `struct` that occur in `value`."""
        if value.kind is JsonKind.NULL:
            return
        if value.kind is not JsonKind.OBJECT:
            raise walk.mismatch(value, self.go_type, path)
        for key, member in value.members:
            field = self._fields.get(key.lower())
            if field is None:
                if walk.strict:
                    raise FieldError(f"json: unknown field {quoted(key)}")
                continue
            holder_name, attribute, reader = field
            holder = self._holder(struct, holder_name) if holder_name else struct
            found = reader.read(walk, member, getattr(holder, attribute), (*path, key))
            setattr(holder, attribute, found)

    def _holder(self, struct: Struct, name: str) -> Struct:
        holder: Struct | None = getattr(struct, name)
        if holder is None:
            holder = self._embedded[name]()
            setattr(struct, name, holder)
        return holder

    def _add_fields(self, kind: type[Struct], holder: str = "") -> None:
        hints = get_type_hints(kind, include_extras=True)
        for field in msgspec.structs.fields(kind):
            if field.encode_name == EMBEDDED_NAME:
                inner = _struct_in(hints[field.name])
                self._embedded[field.name] = inner
                self._add_fields(inner, field.name)
            else:
                reader = _reader_of(hints[field.name])
                self._fields[field.encode_name] = (holder, field.name, reader)


@lru_cache(maxsize=256)
def reader_of_struct(kind: type[Struct]) -> StructReader:
    """Return the reader of `kind`."""
    return StructReader(kind)


def _reader_of(annotation: Any) -> Reader:
    if get_origin(annotation) is Annotated:
        plain, *notes = get_args(annotation)
        for note in notes:
            if isinstance(note, GoInt):
                return _Whole(note)
            if isinstance(note, GoName):
                reader = _reader_of(plain)
                reader.go_type = note.name
                return reader
        return _reader_of(plain)
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (each for each in get_args(annotation) if each is not NoneType)
        return _Optional(_reader_of(inner))
    if get_origin(annotation) is list:
        (item,) = get_args(annotation)
        return _List(_reader_of(item), _zero_of(item))
    if get_origin(annotation) is dict:
        _, item = get_args(annotation)
        return _Map(_reader_of(item), _zero_of(item))
    if issubclass(annotation, Struct):
        return reader_of_struct(annotation)
    if issubclass(annotation, Enum):
        return _Word(annotation)
    plain_readers: dict[type, Reader] = {str: _Text(), bool: _Flag(), bytes: _Bytes(), Time: _Moment()}
    return plain_readers[annotation]


def _zero_of(annotation: Any) -> Any:
    """Return the factory of the value that null stands for in a list or map of this type."""
    if get_origin(annotation) is Annotated:
        return _zero_of(get_args(annotation)[0])
    return annotation


def _struct_in(annotation: Any) -> type[Struct]:
    if get_origin(annotation) is Annotated:
        return _struct_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return next(each for each in get_args(annotation) if each is not NoneType)  # type: ignore[no-any-return]
    return annotation  # type: ignore[no-any-return]
