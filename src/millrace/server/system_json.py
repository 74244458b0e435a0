"""Where a text stops being JSON, in the words of Go's decoder.

Only asked about texts that were already found wrong, so it may be slow; values are not kept.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_CUT_ESCAPE: Final = re.compile(r"\\|\\u[0-9a-fA-F]{0,3}")  # right as far as it goes
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")
_BEGUN: Final = re.compile(r"(?P<fraction>\.)|(?P<exponent>[eE][+-]?)")
_CUT_SHORT: Final = "unexpected end of JSON input"
_WORDS: Final = ("true", "false", "null")
_MAX_DEPTH: Final = 200  # deeper texts are not worth a precise complaint


class _Wrong(Exception):
    """Carries the complaint out of the recursion."""


def syntax_error(payload: bytes) -> str:
    """What is wrong with `payload`; empty if it is no matter of syntax."""
    scanner = _Scanner(payload.decode(errors="replace"))
    try:
        scanner.value(0)
        scanner.expect_end()
    except _Wrong as wrong:
        return str(wrong)
    return ""


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _Wrong("exceeded max depth")
        first = self._next("looking for beginning of value", '{["-0123456789tfn')
        if first == "{":
            self._object(depth)
        elif first == "[":
            self._array(depth)
        elif first == '"':
            self._string()
        elif first in "tfn":
            self._word(next(word for word in _WORDS if word[0] == first))
        else:
            self._number()

    def expect_end(self) -> None:
        self._skip_space()
        if self._at < len(self._text):
            self._refuse("after top-level value")

    def _object(self, depth: int) -> None:
        self._at += 1
        if self._next("looking for beginning of object key string", '"}') == "}":
            self._at += 1
            return
        while True:
            self._string()
            self._next("after object key", ":")
            self._at += 1
            self.value(depth + 1)
            end = self._next("after object key:value pair", ",}")
            self._at += 1
            if end == "}":
                return
            self._next("looking for beginning of object key string", '"')

    def _array(self, depth: int) -> None:
        self._at += 1
        self._skip_space()
        if self._text.startswith("]", self._at):
            self._at += 1
            return
        while True:
            self.value(depth + 1)
            end = self._next("after array element", ",]")
            self._at += 1
            if end == "]":
                return

    def _string(self) -> None:
        self._at = self._end_of(_STRING)
        if self._text.startswith("\\", self._at):
            escape = self._text[self._at : self._at + 6]
            if not escape.startswith("\\u"):
                escape = escape[:2]
            if _CUT_ESCAPE.fullmatch(escape):
                raise _Wrong(_CUT_SHORT)
            raise _Wrong(f"invalid escape sequence `{escape}` in string")
        if not self._text.startswith('"', self._at):
            self._refuse("in string")
        self._at += 1

    def _word(self, word: str) -> None:
        for expected in word:
            if not self._text.startswith(expected, self._at):
                self._refuse(f"in literal {word} (expecting {_quoted(expected)})")
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

    def _next(self, context: str, allowed: str) -> str:
        """The next character that is no space, which must be one of `allowed`; it is not taken."""
        self._skip_space()
        character = self._text[self._at : self._at + 1]
        if not character or character not in allowed:
            self._refuse(context)
        return character

    def _skip_space(self) -> None:
        self._at = self._end_of(_SPACE)

    def _end_of(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        return found.end() if found is not None else self._at

    def _refuse(self, context: str) -> NoReturn:
        if self._at >= len(self._text):
            raise _Wrong(_CUT_SHORT)
        raise _Wrong(f"invalid character {_quoted(self._text[self._at])} {context}")


def _quoted(character: str) -> str:
    return "'\\''" if character == "'" else repr(character)
