"""Parse JSON and report syntax errors in the words of Go's decoder.

Each value keeps its original text, because some errors repeat it.  The members of an object stay in order
and may repeat, because a later member is merged into an earlier one.  Offsets count bytes.  Parsing takes
microseconds per value, so the number of values in a text from a client is limited.

Not here: fitting values into fields (jsapi.codec).
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NoReturn

import msgspec

from millstream.base.errors import MillstreamError

_BLANKS: Final = b" \t\r\n"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_PLAIN_KEY: Final = re.compile(rb'"([a-zA-Z0-9_]*)":')  # a fast path: nearly every key looks like this
# A fast path, too: long lists are lists of subjects.
_PLAIN_ITEM: Final = re.compile(rb'[ \t\r\n]*+"([^"\\\x00-\x1f\x80-\xff]*+)"[ \t\r\n]*+([,\]])')
_CUT_ESCAPE: Final = re.compile(rb"\\|\\u[0-9a-fA-F]{0,3}")  # an escape cut by the end of the text
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SURROGATE: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]|([\ud800-\udfff])")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")
_BEGUN: Final = re.compile(rb"(?P<fraction>\.)|(?P<exponent>[eE][+-]?)")
_WORDS: Final = {b"t": b"true", b"f": b"false", b"n": b"null"}
_SHORT_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LONG_LIST: Final = 4096  # bytes of a list that is worth a try to read it at once
_TOO_MANY: Final = "there are too many values"
_MAX_DEPTH: Final = 200  # deeper than anything in the API

MOST_VALUES_OF_STRANGERS: Final = 4096
MOST_VALUES: Final = 10_000_000  # for texts that this server wrote
FEW_VALUES: Final = 256  # for requests about single messages

_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
)
_LINE_ENDS: Final = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))
_LINE_ENDS_BEGIN: Final = "\u2028".encode()[:1]


class JsonKind(StrEnum):
    """The type of a value; the words are used in error messages."""

    OBJECT = "object"
    ARRAY = "array"
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    NULL = "null"


class Value:
    """One value; only the attribute that fits its kind is filled: `text`, `items` or `members`.

    A long array of plain strings also has them in `texts`.
    """

    __slots__ = ("_end", "_items", "_source", "_start", "kind", "members", "text", "texts")

    def __init__(
        self,
        kind: JsonKind,
        source: bytes,
        start: int,
        end: int,
        text: str = "",
        items: "tuple[Value, ...]" = (),
        members: "tuple[tuple[str, Value], ...]" = (),
        texts: list[str] | None = None,
    ) -> None:
        self.kind = kind
        self.text = text  # content of a string, unescaped
        self.members = members
        self.texts = texts
        self._items = items
        self._source = source
        self._start = start
        self._end = end

    @property
    def items(self) -> "tuple[Value, ...]":
        """Return the elements of an array."""
        if self.texts is not None and not self._items:
            raws = [b'"%b"' % text.encode() for text in self.texts]
            self._items = tuple(
                Value(JsonKind.STRING, raw, 0, len(raw), text=text)
                for raw, text in zip(raws, self.texts, strict=True)
            )
        return self._items

    @property
    def raw(self) -> bytes:
        """Return the original text."""
        return self._source[self._start : self._end]


class BadSyntax(MillstreamError):
    """The text is not JSON; `offset` counts the bytes up to and including the wrong character."""

    def __init__(self, complaint: str, offset: int) -> None:
        super().__init__(complaint)
        self.offset = offset


class CutShort(MillstreamError):
    """The text ends inside a value."""


class TooMany(MillstreamError):
    """The text has more values than the limit."""


def read_each(text: bytes, most: int = MOST_VALUES_OF_STRANGERS) -> Iterator[Value]:
    """Yield the values in `text`, if any; raise TooMany if they contain more than `most` values."""
    scanner = _Scanner(text, most)
    while not scanner.at_end():
        yield scanner.value(0)


def read_one(text: bytes, most: int = MOST_VALUES_OF_STRANGERS) -> Value:
    """Return the only value in `text`; raise TooMany if it contains more than `most` values."""
    scanner = _Scanner(text, most)
    value = scanner.value(0)
    scanner.expect_end()
    return value


def syntax_error(text: bytes) -> str:
    """Return why `text` is not one JSON value, or an empty string if it is."""
    try:
        read_one(text)
    except BadSyntax as error:
        return str(error)
    except CutShort:
        return "unexpected end of JSON input"
    except TooMany as error:
        return str(error)
    return ""


def escape_html(json: bytes) -> bytes:
    """Return the same JSON with the characters escaped that mean something in HTML, as Go's encoder does."""
    for character, escape in _ESCAPES:  # they occur only inside strings
        if character in json:
            json = json.replace(character, escape)
    if _LINE_ENDS_BEGIN in json:  # one byte is found much faster than three
        for character, escape in _LINE_ENDS:
            json = json.replace(character, escape)
    return json


class _Scanner:
    def __init__(self, text: bytes, most: int) -> None:
        self._text = text
        self._at = 0
        self._left = most

    def at_end(self) -> bool:
        self._skip_space()
        return self._at >= len(self._text)

    def value(self, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            raise BadSyntax("exceeded max depth", self._at)
        self._count_value()
        first = self._next("looking for beginning of value", b'{["-0123456789tfn')
        start = self._at
        if first == b"{":
            members = self._object(depth)
            return Value(JsonKind.OBJECT, self._text, start, self._at, members=members)
        if first == b"[":
            texts = self._plain_texts() if depth < _MAX_DEPTH else None
            items = self._array(depth) if texts is None else ()
            return Value(JsonKind.ARRAY, self._text, start, self._at, items=items, texts=texts)
        if first == b'"':
            self._string()
            return Value(
                JsonKind.STRING, self._text, start, self._at, text=_unescaped(self._text[start : self._at])
            )
        if first in _WORDS:
            self._word(_WORDS[first])
            kind = JsonKind.NULL if first == b"n" else JsonKind.BOOL
            return Value(kind, self._text, start, self._at)
        self._number()
        return Value(JsonKind.NUMBER, self._text, start, self._at)

    def expect_end(self) -> None:
        if not self.at_end():
            self._refuse("after top-level value")

    def _object(self, depth: int) -> tuple[tuple[str, Value], ...]:
        self._at += 1
        members: list[tuple[str, Value]] = []
        if self._next("looking for beginning of object key string", b'"}') == b"}":
            self._at += 1
            return ()
        while True:
            members.append((self._key(), self.value(depth + 1)))
            end = self._next("after object key:value pair", b",}")
            self._at += 1
            if end == b"}":
                return tuple(members)
            self._next("looking for beginning of object key string", b'"')

    def _key(self) -> str:
        """Read the key of a member and the colon after it."""
        plain = _PLAIN_KEY.match(self._text, self._at)
        if plain is not None:
            self._at = plain.end()
            return plain[1].decode()
        start = self._at
        self._string()
        key = _unescaped(self._text[start : self._at])
        self._next("after object key", b":")
        self._at += 1
        return key

    def _array(self, depth: int) -> tuple[Value, ...]:
        self._at += 1
        items: list[Value] = []
        self._skip_space()
        if self._text.startswith(b"]", self._at):
            self._at += 1
            return ()
        while not (depth < _MAX_DEPTH and self._plain_items(items)):
            items.append(self.value(depth + 1))
            end = self._next("after array element", b",]")
            self._at += 1
            if end == b"]":
                break
        return tuple(items)

    def _plain_texts(self) -> list[str] | None:
        """Read a long array of plain strings at once; return None if it is none."""
        end = self._text.find(b"]", self._at) + 1
        if end - self._at < _LONG_LIST:
            return None
        part = self._text[self._at : end]
        if b"\\" in part or not part.isascii():
            return None
        try:
            texts = msgspec.json.decode(part, type=list[str])
        except msgspec.MsgspecError:
            return None
        self._left -= len(texts)
        if self._left < 0:
            raise TooMany(_TOO_MANY)
        self._at = end
        return texts

    def _plain_items(self, items: list[Value]) -> bool:
        """Read the next elements of an array that are plain strings; return True if the array has ended."""
        text = self._text
        while (found := _PLAIN_ITEM.match(text, self._at)) is not None:
            self._count_value()
            start, end = found.span(1)
            items.append(Value(JsonKind.STRING, text, start - 1, end + 1, text=found[1].decode()))
            self._at = found.end()
            if found[2] == b"]":
                return True
        return False

    def _count_value(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooMany(_TOO_MANY)

    def _string(self) -> None:
        self._at = self._end_of(_STRING)
        if self._text.startswith(b'"', self._at):
            self._at += 1
            return
        if self._text.startswith(b"\\", self._at):
            escape = self._text[self._at : self._at + 6]
            if not escape.startswith(b"\\u"):
                escape = escape[:2]
            if _CUT_ESCAPE.fullmatch(escape):
                raise CutShort("unexpected EOF")
            shown = escape.decode(errors="replace")
            raise BadSyntax(f"invalid escape sequence `{shown}` in string", self._at + len(escape))
        self._refuse("in string")

    def _word(self, word: bytes) -> None:
        if self._text.startswith(word, self._at):
            self._at += len(word)
            return
        for expected in word.decode():
            if not self._text.startswith(expected.encode(), self._at):
                self._refuse(f"in literal {word.decode()} (expecting {_quoted_character(expected)})")
            self._at += 1

    def _number(self) -> None:
        found = _NUMBER.match(self._text, self._at)
        if found is None:  # a minus and no digit
            self._at += 1
            self._refuse("in numeric literal")
        self._at = found.end()
        begun = _BEGUN.match(self._text, self._at)
        if begun is not None and not found[begun.lastgroup or 0]:
            self._at = begun.end()
            self._refuse("in numeric literal")

    def _next(self, context: str, allowed: bytes) -> bytes:
        """Return the next character that is not a space without consuming it; it must be one of `allowed`."""
        character = self._text[self._at : self._at + 1]
        if character in _BLANKS:
            self._skip_space()
            character = self._text[self._at : self._at + 1]
        if not character or character not in allowed:
            self._refuse(context)
        return character

    def _skip_space(self) -> None:
        self._at = self._end_of(_SPACE)

    def _end_of(self, pattern: re.Pattern[bytes]) -> int:
        found = pattern.match(self._text, self._at)
        return found.end() if found is not None else self._at

    def _refuse(self, context: str) -> NoReturn:
        if self._at >= len(self._text):
            raise CutShort("unexpected EOF")
        character = _character_at(self._text, self._at)
        if character is None:
            shown, size = f"'\\x{self._text[self._at]:02x}'", 1
        else:
            shown, size = _quoted_character(character), len(character.encode())
        raise BadSyntax(f"invalid character {shown} {context}", self._at + size)


def _character_at(text: bytes, at: int) -> str | None:
    """Return the character that starts at `at`, or None if the bytes there are not UTF-8."""
    for size in range(1, 5):
        try:
            return text[at : at + size].decode()
        except UnicodeDecodeError:
            continue
    return None


def _quoted_character(character: str) -> str:
    return "'\\''" if character == "'" else repr(character)


def _unescaped(raw: bytes) -> str:
    text = raw[1:-1].decode(errors="replace")
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_unescape, text)
    return _SURROGATE.sub(_joined, text)


def _unescape(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return _SHORT_ESCAPES.get(escape[2], escape[2])


def _joined(found: re.Match[str]) -> str:
    """Return the character of a surrogate pair, or U+FFFD for a lone surrogate."""
    return "\ufffd" if found[1] else found[0].encode("utf-16", "surrogatepass").decode("utf-16")
