"""Split the text of a configuration file into keys and scalars.

The format is nats-server's: half JSON, half bare words.  A value that begins with a digit can be an
integer with a size suffix, a float, a date, an address or a word; only its end decides:

    64      10k  64MiB      1.5      2026-01-02T03:04:05Z      127.0.0.1:4222      20s  2m30s
    integer integer         float    datetime                  string              string

A word ends at a blank, a line end or one of ``, ; ] }``, so ``#`` and ``//`` inside a word are text.

Not here: maps, lists, includes and the meaning of ``$NAME`` (config.parser).
"""

import re
from bisect import bisect_right
from datetime import UTC, datetime
from typing import Final, NoReturn

import msgspec

from millstream.config.errors import ConfigError, Location
from millstream.config.tree import Scalar

BLANK: Final = " \t"
LINE_END: Final = "\n\r"
VALUE_END: Final = frozenset(" \t\n\r;,]}") | {""}
SEPARATORS: Final = "=:"

_DIGITS = re.compile(r"[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_FRACTION = re.compile(r"[0-9]+\.[0-9]+")
_ADDRESS_REST = re.compile(r"[0-9.:\-]*")
_SUFFIX = re.compile(r"[kmgtpe][bi]*", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"[^\n\r;,\]} \t\\']+")
_PLAIN_QUOTED = re.compile(r'[^"\\]+')
_BARE_KEY = re.compile(r"[^\s=:]+")
_BLOCK_END = re.compile(r"\n\)(?=\n|\Z)")
_INCLUDE_WORD = re.compile(r"[^\n\r;} \t']+")

_SCALES: Final = {"": 1} | {
    spelling: base**power
    for power, letter in enumerate("kmgtpe", start=1)
    for base, spellings in ((1000, (letter,)), (1024, (letter + "b", letter + "i", letter + "ib")))
    for spelling in spellings
}
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_ESCAPES: Final = {"t": b"\t", "n": b"\n", "r": b"\r", '"': b'"', "\\": b"\\"}
_INTEGER_LIMIT: Final = 2**63


class Reference(msgspec.Struct, frozen=True):
    """A `$NAME` in place of a value."""

    name: str


class Scanner:
    """A position in a text.  The `read_…` methods advance it, or raise ConfigError where they stop."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.position = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def location(self, position: int | None = None) -> Location:
        position = self.position if position is None else position
        line = bisect_right(self._line_starts, position)
        return Location(self.file, line, position - self._line_starts[line - 1] + 1)

    def fail(self, reason: str, position: int | None = None) -> NoReturn:
        raise ConfigError(reason, self.location(position))

    def peek(self) -> str:
        """Return the next character, or an empty string at the end of the text."""
        return self.text[self.position : self.position + 1]

    def describe_next(self) -> str:
        character = self.peek()
        if not character:
            return "the end of the file"
        return "the end of the line" if character in LINE_END else f"'{character}'"

    def skip(self, *, lines: bool, comments: bool = True) -> None:
        """Skip blanks and comments, and line ends if `lines` is set."""
        text = self.text
        while character := self.peek():
            if character in BLANK or (lines and character.isspace()):
                self.position += 1
            elif comments and (character == "#" or text.startswith("//", self.position)):
                end = text.find("\n", self.position)
                self.position = len(text) if end < 0 else end
            else:
                return

    def read_key(self) -> tuple[str, bool]:
        """Return a key and whether it may be a keyword: a bare word followed by white space."""
        quote = self.peek()
        if quote in ('"', "'"):
            return self._read_until(quote, "key"), False
        match = _BARE_KEY.match(self.text, self.position)
        if match is None or match[0][0] in ",;]{[":
            self.fail(f"expected a key, found {self.describe_next()}")
        self.position = match.end()
        return match[0], self.peek().isspace()

    def read_include(self) -> str:
        self.skip(lines=False, comments=False)
        character = self.peek()
        if character in ('"', "'") and character:
            return self._read_until(character, "file name")
        match = _INCLUDE_WORD.match(self.text, self.position)
        if match is None or character in "[{(\\-" or character.isdigit():
            self.fail(f"include: expected a file name, found {self.describe_next()}")
        self.position = match.end()
        return match[0]

    def read_scalar(self) -> Scalar | Reference:
        character = self.peek()
        if character == '"':
            return self._read_double_quoted()
        if character == "'":
            return self._read_until("'", "string")
        if character == "(":
            return self._read_block()
        if character == "-":
            return self._read_negative()
        if character and character in "0123456789":
            return self._read_number_like()
        if character == ".":
            self.fail("a number must start with a digit")
        if character in VALUE_END:
            self.fail(f"expected a value, found {self.describe_next()}")
        return self._read_word()

    def _read_until(self, quote: str, what: str) -> str:
        end = self.text.find(quote, self.position + 1)
        if end < 0:
            self.fail(f"the {what} that begins here has no closing {quote}")
        content = self.text[self.position + 1 : end]
        self.position = end + 1
        return content

    def _read_block(self) -> str:
        match = _BLOCK_END.search(self.text, self.position + 1)
        if match is None:
            self.fail("the block that begins here has no ')' alone on a line")
        content = self.text[self.position + 1 : match.start() + 1]
        self.position = match.end()
        return content

    def _read_double_quoted(self) -> str:
        start = self.position
        self.position += 1
        parts: list[bytes] = []
        while (character := self.peek()) != '"':
            if not character:
                self.fail('the string that begins here has no closing "', start)
            if character == "\\":
                parts.append(self._read_escape())
            else:
                match = _PLAIN_QUOTED.match(self.text, self.position)
                assert match is not None
                parts.append(_bytes(match[0]))
                self.position = match.end()
        self.position += 1
        return _text(parts)

    def _read_escape(self) -> bytes:
        letter = self.text[self.position + 1 : self.position + 2]
        if letter == "x":
            digits = self.text[self.position + 2 : self.position + 4]
            if not re.fullmatch("[0-9a-fA-F]{2}", digits):
                self.fail("expected two hexadecimal digits after \\x")
            self.position += 4
            return bytes.fromhex(digits)
        if letter not in _ESCAPES:
            self.fail(f"unknown escape '\\{letter}'; known are \\xHH \\t \\n \\r \\\" \\\\")
        self.position += 2
        return _ESCAPES[letter]

    def _read_word(self, start: int | None = None) -> Scalar | Reference:
        start = self.position if start is None else start
        parts = [_bytes(self.text[start : self.position])]
        escaped = False
        while (character := self.peek()) not in VALUE_END:
            if character == "\\":
                escaped = True
                parts.append(self._read_escape())
            elif character == "'":
                self.fail("a quote inside a bare word; put the whole value in double quotes")
            else:
                match = _PLAIN_WORD.match(self.text, self.position)
                assert match is not None
                parts.append(_bytes(match[0]))
                self.position = match.end()
        word = _text(parts)
        if escaped:
            return word
        if word.lower() in _BOOLEANS:
            return _BOOLEANS[word.lower()]
        return Reference(word[1:]) if word.startswith("$") else word

    def _read_number_like(self) -> Scalar | Reference:
        text, start = self.text, self.position
        digits = _DIGITS.match(text, start)
        assert digits is not None
        self.position = digits.end()
        following = self.peek()
        if following in VALUE_END:
            return self._integer(digits[0], "", start)
        if following == "-":
            return self._read_date(start)
        if following == ".":
            return self._read_float_or_address(start)
        suffix = _SUFFIX.match(text, self.position)
        if suffix is not None and text[suffix.end() : suffix.end() + 1] in VALUE_END:
            self.position = suffix.end()
            return self._integer(digits[0], suffix[0], start)
        return self._read_word(start)

    def _read_negative(self) -> Scalar:
        start = self.position
        digits = _DIGITS.match(self.text, start + 1)
        if digits is None:
            self.fail("expected a digit after '-'")
        self.position = digits.end()
        if self.peek() == ".":
            fraction = _FRACTION.match(self.text, start + 1)
            if fraction is None:
                self.fail("a number must have a digit after '.'", start)
            self.position = fraction.end()
            return -float(fraction[0])
        suffix = _SUFFIX.match(self.text, self.position)
        if suffix is not None:
            self.position = suffix.end()
        return self._integer("-" + digits[0], suffix[0] if suffix else "", start)

    def _read_date(self, start: int) -> datetime:
        match = _DATE.match(self.text, start)
        if match is None:
            self.fail("a date must be written like 2026-01-02T03:04:05Z; quote it if it is a word", start)
        try:
            moment = datetime.strptime(match[0], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            self.fail(f"there is no such date as {match[0]}", start)
        self.position = match.end()
        return moment

    def _read_float_or_address(self, start: int) -> Scalar:
        match = _FRACTION.match(self.text, start)
        if match is None:
            self.fail("a number must have a digit after '.'", start)
        self.position = match.end()
        if self.peek() != ".":
            return float(match[0])
        rest = _ADDRESS_REST.match(self.text, self.position)
        assert rest is not None
        self.position = rest.end()
        return self.text[start : self.position]

    def _integer(self, digits: str, suffix: str, start: int) -> int:
        scale = _SCALES.get(suffix.lower())
        if scale is None:
            self.fail(f'unknown size suffix "{suffix}"', start)
        # Python refuses to convert very long digit strings; those are out of range anyway.
        number = int(digits) * scale if len(digits) < 30 else _INTEGER_LIMIT
        if not -_INTEGER_LIMIT <= number < _INTEGER_LIMIT:
            self.fail(f"the integer {digits}{suffix} is out of range", start)
        return number


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(parts: list[bytes]) -> str:
    # One escape may give half of a UTF-8 character and the next one the other half.
    return b"".join(parts).decode("utf-8", "surrogateescape")
