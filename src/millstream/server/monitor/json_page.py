"""JSON of documents of any length, written in slices.

A list that may be long is a ``Listing``: its items are made and encoded one by one, and may contain listings
of their own.  The text is the same as if the whole document had been encoded in one step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.golang.json import escape_html
from millstream.golang.time import Time, format_time
from millstream.server.monitor.formats import INDENT, indented

_PART: Final = 32 * 1024  # bytes
_MARK: Final = os.urandom(
    16
).hex()  # placeholder of a listing; random, so that no text of a client can equal it
_MARK_TEXT: Final = msgspec.json.encode(_MARK)


class Listing:
    """The items of a list; None is a step without an item."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items


def render(document: Any, *, pretty: bool) -> Pieces[list[bytes]]:
    """Return the document as parts of a text; each item of a listing is one step."""
    text = Text()
    yield from _write(document, pretty, 0, text)
    return text.parts()


class Text:
    """Bytes gathered into parts of some ten kilobytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._gathered: list[bytes] = []
        self._size = 0

    def append(self, data: bytes) -> None:
        self._gathered.append(data)
        self._size += len(data)
        if self._size >= _PART:
            self._join()

    def parts(self) -> list[bytes]:
        self._join()
        return self._parts

    def _join(self) -> None:
        self._parts.append(b"".join(self._gathered))
        self._gathered.clear()
        self._size = 0


def _write(document: Any, pretty: bool, column: int, parts: Text) -> Pieces[None]:
    """Add the text of `document`; all lines but the first are indented by `column`."""
    text, listings = _framed(document, pretty, column)
    if not listings:
        parts.append(text)
        yield 1
    else:
        yield from _write_listings(text, listings, pretty, column, parts)


def _framed(document: Any, pretty: bool, column: int) -> tuple[bytes, list[Listing]]:
    """Return the text of `document`, with a placeholder for each listing, and the listings."""
    listings: list[Listing] = []

    def mark(value: Any) -> str:
        if isinstance(value, Time):
            return format_time(value)
        if not isinstance(value, Listing):
            raise TypeError(f"{type(value).__name__} is no part of a document")
        listings.append(value)
        return _MARK

    text = escape_html(msgspec.json.encode(document, enc_hook=mark))
    return indented(text, column) if pretty else text, listings


def _write_listings(
    text: bytes, listings: list[Listing], pretty: bool, column: int, parts: Text
) -> Pieces[None]:
    """Add a text with the items of its listings in place of their placeholders."""
    frame = text.split(_MARK_TEXT)
    for listing, before in zip(listings, frame, strict=False):
        parts.append(before)
        yield from _write_items(listing, pretty, _column(before, column), parts)
    parts.append(frame[-1])


def _column(text: bytes, first: int) -> int:
    """Return the column at which the last line of `text` begins, or `first` if there is only one line."""
    if b"\n" not in text:
        return first
    line = text[text.rfind(b"\n") + 1 :]
    return len(line) - len(line.lstrip(b" "))


def _write_items(listing: Listing, pretty: bool, column: int, parts: Text) -> Pieces[None]:
    inner = column + INDENT
    start = b"\n" + b" " * inner if pretty else b""
    begun = False
    for item in listing.items:
        if item is None:
            yield 1
            continue
        parts.append(b"," + start if begun else b"[" + start)
        begun = True
        text, listings = _framed(item, pretty, inner)
        if listings:
            yield from _write_listings(text, listings, pretty, inner, parts)
        else:
            parts.append(text)
            yield 1
    if begun:
        parts.append(b"\n" + b" " * column + b"]" if pretty else b"]")
    else:
        parts.append(b"[]")
